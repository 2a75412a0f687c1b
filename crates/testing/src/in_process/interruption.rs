//! Interruptions on command: the n-th request about items is lost, its answer is, or the process stops there.

use std::sync::{Arc, Mutex, PoisonError};

use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpError, HttpErrorKind,
    HttpFuture, HttpProtocol, HttpRequest, HttpResponse, RequestSentStatus, StreamLimit,
};
use tokio::sync::Notify;

/// An interruption of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The connection is lost before it arrives; so are the next ones, as many as are said.
    LoseRequests(usize),
    /// It is carried out, and its answer is lost; so are the next ones.
    LoseAnswers(usize),
    /// Nothing happens any more, and it does not arrive.
    StopBefore,
    /// It is carried out, and then nothing happens any more.
    StopAfter,
}

/// Interrupts the n-th request about items on its way to an account.
#[derive(Clone, Debug)]
pub struct InterruptingFactory {
    account: Arc<dyn HttpClientFactory>,
    state: Arc<Mutex<State>>,
    stopped: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    seen: usize,
    armed: Option<(usize, Interruption)>,
}

/// The treatment of one request.
enum Verdict {
    Pass,
    Lose,
    LoseAnswer,
    Stop,
    StopAfter,
}

impl InterruptingFactory {
    /// Before an account, with nothing armed.
    #[must_use]
    pub fn before(account: Arc<dyn HttpClientFactory>) -> Self {
        Self { account, state: Arc::default(), stopped: Arc::default() }
    }

    /// Interrupts a request, counted from the next one as 0.
    pub fn arm(&self, at: usize, interruption: Interruption) {
        let mut state = self.state();
        *state = State { seen: 0, armed: Some((at, interruption)) };
    }

    /// Interrupts nothing from here on; says how many requests there were since it was armed.
    pub fn disarm(&self) -> usize {
        std::mem::take(&mut *self.state()).seen
    }

    /// Waits until the process has stopped.
    pub async fn stopped(&self) {
        self.stopped.notified().await;
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Verdict {
        let mut state = self.state();
        let number = state.seen;
        state.seen += 1;
        let Some((at, interruption)) = state.armed else { return Verdict::Pass };
        let within = |count: usize| (at..at.saturating_add(count)).contains(&number);
        match interruption {
            Interruption::LoseRequests(count) if within(count) => Verdict::Lose,
            Interruption::LoseAnswers(count) if within(count) => Verdict::LoseAnswer,
            Interruption::StopBefore if number >= at => Verdict::Stop,
            Interruption::StopAfter if number == at => Verdict::StopAfter,
            Interruption::StopAfter if number > at => Verdict::Stop,
            _ => Verdict::Pass,
        }
    }
}

impl HttpClientFactory for InterruptingFactory {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let client = self.account.create(endpoint, config);
        Arc::new(InterruptingClient { client, factory: self.clone() })
    }
}

#[derive(Debug)]
struct InterruptingClient {
    client: Arc<dyn HttpClient>,
    factory: InterruptingFactory,
}

impl InterruptingClient {
    /// Tells that the process has stopped, and never ends.
    async fn stop(&self) -> Result<HttpResponse, HttpError> {
        self.factory.stopped.notify_one();
        std::future::pending().await
    }
}

impl HttpClient for InterruptingClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        if !request.uri().path().contains("/docs") {
            return self.client.execute(request, diagnostics);
        }
        Box::pin(async move {
            match self.factory.next() {
                Verdict::Pass => self.client.execute(request, diagnostics).await,
                Verdict::Lose => {
                    diagnostics.sent();
                    Err(lost())
                }
                Verdict::LoseAnswer => {
                    let _ = self.client.execute(request, diagnostics).await; // Lost, whatever it was.
                    Err(lost())
                }
                Verdict::Stop => self.stop().await,
                Verdict::StopAfter => {
                    let _ = self.client.execute(request, diagnostics).await; // Nobody is left to read it.
                    self.stop().await
                }
            }
        })
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        self.client.connect()
    }

    fn stream_limit(&self) -> StreamLimit {
        self.client.stream_limit()
    }
}

fn lost() -> HttpError {
    let sentence = "the connection was lost";
    HttpError::new(HttpErrorKind::ConnectionLost, RequestSentStatus::MaybeSent, sentence)
}
