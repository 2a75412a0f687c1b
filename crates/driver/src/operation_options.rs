//! The options of one call: what an operation asks for beside itself.

use crate::options::{AvailabilityOptions, ClientMethodOptions, ItemWriteOptions, RequestOptions};

/// What one operation asks for beside itself.
#[derive(Clone, Debug, Default)]
pub struct OperationOptions<'a> {
    /// Deadline, activity id, cancellation.
    pub method_options: ClientMethodOptions<'a>,
    /// What the request asks of the service.
    pub request: RequestOptions,
    /// How far the operation goes to get a response.
    pub availability: AvailabilityOptions,
    /// What a write of an item asks for. Of it, reads take the session token.
    pub write: ItemWriteOptions,
}

impl<'a> OperationOptions<'a> {
    /// The same options with a deadline, an activity id or a way to cancel.
    #[must_use]
    pub fn with_method_options(mut self, method_options: ClientMethodOptions<'a>) -> Self {
        self.method_options = method_options;
        self
    }

    /// The same options with others for what the request asks of the service.
    #[must_use]
    pub fn with_request(mut self, request: RequestOptions) -> Self {
        self.request = request;
        self
    }

    /// The same options with others for how far the operation goes.
    #[must_use]
    pub fn with_availability(mut self, availability: AvailabilityOptions) -> Self {
        self.availability = availability;
        self
    }

    /// The same options with others for a write.
    #[must_use]
    pub fn with_write(mut self, write: ItemWriteOptions) -> Self {
        self.write = write;
        self
    }
}
