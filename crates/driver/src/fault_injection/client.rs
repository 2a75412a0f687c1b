//! A client that faults are injected into.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::factory::Faults;
use super::{ConnectFault, Delivery, FaultInjectionResult, FaultInjectionRule, RequestView};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::transport::{
    Endpoint, HttpClient, HttpError, HttpErrorKind, HttpFuture, HttpProtocol, HttpRequest,
    HttpResponse, RequestSentStatus, StreamLimit,
};

/// Wraps a client: the rule that a request meets is applied to it; any other request passes through.
#[derive(Debug)]
pub struct FaultInjectingHttpClient {
    inner: Arc<dyn HttpClient>,
    endpoint: Endpoint,
    number: u64,
    faults: Arc<Faults>,
    closed: CancellationToken,
}

impl FaultInjectingHttpClient {
    pub(super) fn new(
        inner: Arc<dyn HttpClient>,
        endpoint: Endpoint,
        number: u64,
        faults: Arc<Faults>,
    ) -> Self {
        Self { inner, endpoint, number, faults, closed: CancellationToken::new() }
    }

    fn rule_for(&self, request: Option<&HttpRequest>) -> Option<Arc<FaultInjectionRule>> {
        let (endpoint, client) = (&self.endpoint, self.number);
        self.faults.hit(&RequestView { endpoint, client, request })
    }

    /// Does to a request what its rule says.
    async fn apply(
        &self,
        fault: &FaultInjectionResult,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        match fault {
            FaultInjectionResult::Answer(answer) => {
                // Recorded as sent: to everything above, the service has answered.
                diagnostics.sent();
                self.wait(answer.delay(), RequestSentStatus::MaybeSent).await?;
                diagnostics.record(RequestEventKind::ResponseHeadersReceived);
                Ok(answer.response())
            }
            FaultInjectionResult::Error { kind, delivery } => {
                self.deliver(*delivery, request, diagnostics).await?;
                Err(HttpError::new(*kind, delivery.request_sent(), "a fault was injected"))
            }
            FaultInjectionResult::Delay(delay) => {
                diagnostics.not_sent_yet();
                self.wait(*delay, RequestSentStatus::NotSent).await?;
                self.inner.execute(request, diagnostics).await
            }
            FaultInjectionResult::Hang => {
                diagnostics.sent();
                Err(self.closing(RequestSentStatus::MaybeSent).await)
            }
            // Such a rule applies to no request.
            FaultInjectionResult::Connect(_) => self.inner.execute(request, diagnostics).await,
        }
    }

    /// Brings a request as far as it gets; fails if it did not get that far.
    async fn deliver(
        &self,
        delivery: Delivery,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<(), HttpError> {
        match delivery {
            Delivery::NotSent => {}
            Delivery::Refused => {
                diagnostics.sent();
                diagnostics.request_sent = delivery.request_sent();
            }
            Delivery::LostOnTheWay => diagnostics.sent(),
            Delivery::AnswerLost => {
                // The response must leave no trace in the diagnostics, or the loss would not look real.
                let mut unseen = diagnostics.clone();
                diagnostics.sent();
                let outcome = self.inner.execute(request, &mut unseen).await;
                diagnostics.protocol = unseen.protocol;
                if let Err(error) = outcome {
                    diagnostics.request_sent = error.request_sent();
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    async fn wait(&self, delay: Duration, sent: RequestSentStatus) -> Result<(), HttpError> {
        tokio::select! {
            // The closing first: a closed client does nothing more.
            biased;
            closed = self.closing(sent) => Err(closed),
            () = tokio::time::sleep(delay) => Ok(()),
        }
    }

    /// Waits until the client is closed.
    async fn closing(&self, sent: RequestSentStatus) -> HttpError {
        self.closed.cancelled().await;
        HttpError::new(HttpErrorKind::Evicted, sent, "the client was closed during a fault")
    }
}

impl HttpClient for FaultInjectingHttpClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        match self.rule_for(Some(&request)) {
            Some(rule) => {
                Box::pin(async move { self.apply(rule.result(), request, diagnostics).await })
            }
            None => self.inner.execute(request, diagnostics),
        }
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        let rule = self.rule_for(None);
        let fault = rule.as_ref().and_then(|rule| match rule.result() {
            FaultInjectionResult::Connect(fault) => Some(*fault),
            _ => None,
        });
        let not_sent = RequestSentStatus::NotSent;
        match fault {
            None => self.inner.connect(),
            Some(ConnectFault::Fail(kind)) => Box::pin(async move {
                Err(HttpError::new(kind, not_sent, "a fault was injected into the connection"))
            }),
            Some(ConnectFault::Delay(delay)) => Box::pin(async move {
                self.wait(delay, not_sent).await?;
                self.inner.connect().await
            }),
            Some(ConnectFault::Hang) => Box::pin(async move { Err(self.closing(not_sent).await) }),
        }
    }

    fn stream_limit(&self) -> StreamLimit {
        self.inner.stream_limit()
    }

    fn on_stream_limit_raised(&self, notify: Arc<dyn Fn() + Send + Sync>) {
        self.inner.on_stream_limit_raised(notify);
    }

    fn sweep(&self) {
        self.inner.sweep();
    }

    fn close(&self) {
        self.closed.cancel();
        self.inner.close();
    }
}
