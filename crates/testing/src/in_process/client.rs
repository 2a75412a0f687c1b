//! One connection of the simulated network: an HTTP client whose peer is an account in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sidereal_driver::diagnostics::{RequestDiagnostics, RequestEventKind};
use sidereal_driver::transport::{
    HttpClient, HttpError, HttpErrorKind, HttpFuture, HttpProtocol, HttpRequest, HttpResponse,
    RequestSentStatus, StreamLimit,
};
use sidereal_emulator::{AccountEndpoint, ConnectionOutcome};
use tokio_util::sync::CancellationToken;

use super::SimulatedNetwork;
use super::network::{Delivery, Lost};

/// Streams per connection, as the service allows them.
const STREAMS: u32 = 20;

#[derive(Debug)]
pub(super) struct InProcessClient {
    /// `None` where no account has the name that was asked for.
    endpoint: Option<AccountEndpoint>,
    network: Arc<SimulatedNetwork>,
    /// Whether the endpoint accepts connections, where the account does not decide it.
    is_online: Option<Arc<AtomicBool>>,
    /// The round trip to its region, beside what the network takes.
    distance: Duration,
    closed: CancellationToken,
}

impl InProcessClient {
    pub(super) fn new(
        endpoint: Option<AccountEndpoint>,
        network: Arc<SimulatedNetwork>,
        is_online: Option<Arc<AtomicBool>>,
        distance: Duration,
    ) -> Self {
        Self { endpoint, network, is_online, distance, closed: CancellationToken::new() }
    }

    fn is_offline(&self) -> bool {
        // Relaxed: a flag that stands alone, on a runtime with one thread.
        self.is_online.as_ref().is_some_and(|is_online| !is_online.load(Ordering::Relaxed))
    }

    async fn exchange(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let Some(endpoint) = &self.endpoint else { return Err(unknown_host()) };
        if self.is_offline() {
            return Err(refused());
        }
        let Delivery { there, back, lost } = self.network.next_delivery();
        let (there, back) = (there + self.distance / 2, back + self.distance / 2);
        diagnostics.sent();
        tokio::time::sleep(there).await;
        if lost == Some(Lost::Before) {
            tokio::time::sleep(back).await;
            return Err(connection_lost());
        }
        let outcome = endpoint.send(request).await;
        tokio::time::sleep(back).await;
        if lost == Some(Lost::After) {
            return Err(connection_lost());
        }
        let response = response_of(outcome)?;
        diagnostics.record(RequestEventKind::ResponseHeadersReceived);
        Ok(response)
    }
}

impl HttpClient for InProcessClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        Box::pin(async move {
            diagnostics.protocol = Some(HttpProtocol::Http2);
            // Biased: a connection that is closed serves nothing, whatever is ready beside it.
            tokio::select! {
                biased;
                () = self.closed.cancelled() => Err(HttpError::new(
                    HttpErrorKind::Evicted,
                    RequestSentStatus::MaybeSent,
                    "the connection was closed",
                )),
                outcome = self.exchange(request, diagnostics) => outcome,
            }
        })
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        Box::pin(async {
            match self.endpoint {
                Some(_) => Ok(Some(HttpProtocol::Http2)),
                None => Err(unknown_host()),
            }
        })
    }

    fn stream_limit(&self) -> StreamLimit {
        match self.closed.is_cancelled() {
            true => StreamLimit::Closed,
            false => StreamLimit::Known(STREAMS),
        }
    }

    fn close(&self) {
        self.closed.cancel();
    }
}

/// The error of a client, from what happened to its connection.
fn response_of(outcome: ConnectionOutcome) -> Result<HttpResponse, HttpError> {
    match outcome {
        ConnectionOutcome::Response(response) => Ok(response),
        ConnectionOutcome::ConnectionRefused => Err(refused()),
        // Whether the account processed it is exactly what a client cannot know.
        _ => Err(connection_lost()),
    }
}

fn connection_lost() -> HttpError {
    HttpError::new(
        HttpErrorKind::ConnectionLost,
        RequestSentStatus::MaybeSent,
        "the connection was lost before the response",
    )
}

fn refused() -> HttpError {
    HttpError::new(
        HttpErrorKind::Connect,
        RequestSentStatus::NotSent,
        "the region is offline: connection refused",
    )
}

fn unknown_host() -> HttpError {
    HttpError::new(HttpErrorKind::Connect, RequestSentStatus::NotSent, "no account has this host")
}
