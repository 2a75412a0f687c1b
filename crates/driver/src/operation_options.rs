//! The options of one call.

use crate::options::{AvailabilityOptions, ClientMethodOptions, ItemWriteOptions, RequestOptions};

/// The options of one operation, of its call alone.
#[derive(Clone, Debug, Default)]
pub struct OperationOptions<'a> {
    /// Deadline, activity id, cancellation.
    pub method_options: ClientMethodOptions<'a>,
    /// Consistency, priority, headers and excluded regions.
    pub request: RequestOptions,
    /// How far the operation goes to get a response.
    pub availability: AvailabilityOptions,
    /// Options of a write. Reads take the session token of it.
    pub write: ItemWriteOptions,
}

impl<'a> OperationOptions<'a> {
    /// Sets deadline, activity id and cancellation.
    #[must_use]
    pub fn with_method_options(mut self, method_options: ClientMethodOptions<'a>) -> Self {
        self.method_options = method_options;
        self
    }

    /// Sets the request options.
    #[must_use]
    pub fn with_request(mut self, request: RequestOptions) -> Self {
        self.request = request;
        self
    }

    /// Sets the availability options.
    #[must_use]
    pub fn with_availability(mut self, availability: AvailabilityOptions) -> Self {
        self.availability = availability;
        self
    }

    /// Sets the write options.
    #[must_use]
    pub fn with_write(mut self, write: ItemWriteOptions) -> Self {
        self.write = write;
        self
    }
}
