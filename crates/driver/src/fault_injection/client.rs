//! A client that faults are injected into, and the gate before the connections that it makes by itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::faults::Faults;
use super::{ConnectFault, Delivery, FaultInjectionResult, FaultInjectionRule, RequestView};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{Endpoint, HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::transport::{
    ConnectGate, HttpClient, HttpFuture, HttpRequest, HttpResponse, StreamLimit,
};

/// Wraps a client: the rule that a request meets is applied to it; any other request passes through.
#[derive(Debug)]
pub struct FaultInjectingHttpClient {
    inner: Arc<dyn HttpClient>,
    gate: Arc<FaultGate>,
}

/// The state that a client shares with the connections behind it.
#[derive(Debug)]
pub(super) struct FaultGate {
    endpoint: Endpoint,
    number: u64,
    faults: Arc<Faults>,
    closed: CancellationToken,
    /// Whether the next connection was judged already, by the call that asked the client to connect.
    is_judged: AtomicBool,
}

impl FaultGate {
    pub(super) fn new(endpoint: Endpoint, number: u64, faults: Arc<Faults>) -> Arc<Self> {
        let (closed, is_judged) = (CancellationToken::new(), AtomicBool::new(false));
        Arc::new(Self { endpoint, number, faults, closed, is_judged })
    }

    /// The fault that a connection meets.
    fn connect_fault(&self) -> Option<ConnectFault> {
        let (endpoint, client) = (&self.endpoint, self.number);
        let view = RequestView { endpoint, client, request: None, region: None };
        match self.faults.hit(&view)?.result() {
            FaultInjectionResult::Connect(fault) => Some(*fault),
            _ => None,
        }
    }

    /// Lets a connection be made, late or not at all.
    async fn judge_connection(&self) -> Result<(), HttpError> {
        let not_sent = RequestSentStatus::NotSent;
        match self.connect_fault() {
            None => Ok(()),
            Some(ConnectFault::Fail(kind)) => {
                Err(HttpError::new(kind, not_sent, "a fault was injected into the connection"))
            }
            Some(ConnectFault::Delay(delay)) => self.wait(delay, not_sent).await,
            Some(ConnectFault::Hang) => Err(self.closing(not_sent).await),
        }
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

impl ConnectGate for FaultGate {
    fn before_connect(&self) -> HttpFuture<'_, ()> {
        Box::pin(async {
            // Relaxed: one flag between a caller and the connection that it waits for.
            match self.is_judged.swap(false, Ordering::Relaxed) {
                true => Ok(()),
                false => self.judge_connection().await,
            }
        })
    }
}

impl FaultInjectingHttpClient {
    pub(super) fn new(inner: Arc<dyn HttpClient>, gate: Arc<FaultGate>) -> Self {
        Self { inner, gate }
    }

    fn rule_for(
        &self,
        request: &HttpRequest,
        diagnostics: &RequestDiagnostics,
    ) -> Option<Arc<FaultInjectionRule>> {
        self.gate.faults.hit(&RequestView {
            endpoint: &self.gate.endpoint,
            client: self.gate.number,
            request: Some(request),
            region: diagnostics.region.as_ref(),
        })
    }

    /// Applies the fault of a rule to a request.
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
                self.gate.wait(answer.delay(), RequestSentStatus::MaybeSent).await?;
                diagnostics.record(RequestEventKind::ResponseHeadersReceived);
                Ok(answer.response())
            }
            FaultInjectionResult::Error { kind, delivery } => {
                self.deliver(*delivery, request, diagnostics).await?;
                Err(HttpError::new(*kind, delivery.request_sent(), "a fault was injected"))
            }
            FaultInjectionResult::Delay(delay) => {
                diagnostics.not_sent_yet();
                self.gate.wait(*delay, RequestSentStatus::NotSent).await?;
                self.inner.execute(request, diagnostics).await
            }
            FaultInjectionResult::Hang => {
                diagnostics.sent();
                Err(self.gate.closing(RequestSentStatus::MaybeSent).await)
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
}

impl HttpClient for FaultInjectingHttpClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        match self.rule_for(&request, diagnostics) {
            Some(rule) => {
                Box::pin(async move { self.apply(rule.result(), request, diagnostics).await })
            }
            None => self.inner.execute(request, diagnostics),
        }
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        Box::pin(async {
            self.gate.judge_connection().await?;
            // Relaxed: see `before_connect`.
            self.gate.is_judged.store(true, Ordering::Relaxed);
            let connected = self.inner.connect().await;
            // A client that was connected already, or is a foreign one, has not passed the gate.
            self.gate.is_judged.store(false, Ordering::Relaxed);
            connected
        })
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
        self.gate.closed.cancel();
        self.inner.close();
    }
}
