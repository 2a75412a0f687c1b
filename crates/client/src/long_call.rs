//! Calls of several requests: the options, the deadline and the cancellation that their requests share.

use std::time::Instant;

use sidereal_driver::OperationOptions;
use sidereal_driver::options::{
    AvailabilityOptions, ClientMethodOptions, ItemOptions, ItemWriteOptions, QueryOptions,
    RequestOptions,
};
use tokio_util::sync::CancellationToken;

use crate::{Error, ErrorKind, Result};

/// The options of a call, owned: its requests are made by tasks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    method_options: ClientMethodOptions<'static>,
    cancellation: Option<CancellationToken>,
    request: RequestOptions,
    availability: AvailabilityOptions,
    write: ItemWriteOptions,
}

impl Call {
    pub(crate) fn of(options: QueryOptions<'_>) -> Self {
        let QueryOptions { method_options, request, availability } = options;
        let options = ItemOptions { method_options, request, availability, ..Default::default() };
        Self::on_items(options)
    }

    /// The options of a call that reads or writes items.
    pub(crate) fn on_items(options: ItemOptions<'_>) -> Self {
        let ItemOptions { method_options, request, availability, write, .. } = options;
        let ClientMethodOptions { deadline, activity_id, cancellation } = method_options;
        let method_options = ClientMethodOptions { deadline, activity_id, cancellation: None };
        Self { method_options, cancellation: cancellation.cloned(), request, availability, write }
    }

    /// Starts the call's clock: its timeout bounds all its requests together.
    pub(crate) fn started(mut self) -> Self {
        let timeout = self.availability.end_to_end_timeout;
        let end = timeout.and_then(|it| tokio::time::Instant::now().into_std().checked_add(it));
        let deadline = &mut self.method_options.deadline;
        *deadline = match (*deadline, end) {
            (Some(deadline), Some(end)) => Some(deadline.min(end)),
            (deadline, end) => deadline.or(end),
        };
        self
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.method_options.deadline
    }

    /// As the driver takes them.
    pub(crate) fn options(&self) -> OperationOptions<'_> {
        let mut method_options: ClientMethodOptions<'_> = self.method_options.clone();
        method_options.cancellation = self.cancellation.as_ref();
        OperationOptions::default()
            .with_method_options(method_options)
            .with_request(self.request.clone())
            .with_availability(self.availability.clone())
            .with_write(self.write.clone())
    }

    /// Waits for something that has no deadline of its own.
    pub(crate) async fn bounded<T>(
        &self,
        what: &str,
        future: impl Future<Output = T>,
    ) -> Result<T> {
        let deadline = async {
            match self.deadline() {
                Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
                None => std::future::pending().await,
            }
        };
        let cancelled = async {
            match &self.cancellation {
                Some(token) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        // Biased: what is there is given, even at the deadline.
        tokio::select! {
            biased;
            output = future => Ok(output),
            () = cancelled => Err(cancelled_while(what)),
            () = deadline => Err(late_while(what)),
        }
    }

    /// Refuses a call that is over, without waiting: for who always has something to do.
    pub(crate) fn check(&self, what: &str) -> Result<()> {
        let now = tokio::time::Instant::now().into_std();
        if self.cancellation.as_ref().is_some_and(CancellationToken::is_cancelled) {
            return Err(cancelled_while(what));
        }
        match self.deadline() {
            Some(deadline) if deadline <= now => Err(late_while(what)),
            Some(_) | None => Ok(()),
        }
    }
}

fn cancelled_while(what: &str) -> Error {
    Error::new(ErrorKind::Cancelled, format!("the call was cancelled while {what}"))
}

fn late_while(what: &str) -> Error {
    Error::new(ErrorKind::DeadlineExceeded, format!("the deadline passed while {what}"))
}
