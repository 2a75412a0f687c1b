//! The asynchronous entry of an account: one endpoint, a request in, what its client sees out.
//!
//! The account itself is synchronous and returns what fault rules want of time and connections as a
//! value; here delays and hangs are carried out with tokio's time, so a test on a paused clock skips
//! them. The server puts sockets before an endpoint; a test can hand it requests directly.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use sidereal_protocol::RegionName;
use tokio_util::sync::CancellationToken;

use crate::account::{Account, Disposition};
use crate::blocking_pool::BlockingPool;
use crate::outcome::ConnectionOutcome;
use crate::request::ClassifiedRequest;
use crate::server::Handler;

/// One endpoint of an account: the global one, or that of a region.
///
/// ```
/// use std::sync::Arc;
///
/// use bytes::Bytes;
/// use sidereal_emulator::{Account, AccountEndpoint, AccountOptions, ConnectionOutcome};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let account = Arc::new(Account::new(AccountOptions::default()));
/// let endpoint = AccountEndpoint::global(account);
/// let request = http::Request::get("http://localhost/probe").body(Bytes::new()).unwrap();
/// match endpoint.send(request).await {
///     ConnectionOutcome::Response(response) => assert_eq!(response.status(), 200),
///     broken => panic!("{broken:?}"),
/// }
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AccountEndpoint {
    account: Arc<Account>,
    /// `None` is the global endpoint.
    region: Option<RegionName>,
    /// Ends requests that hang, and blocking work.
    closed: CancellationToken,
    /// Where blocking work is done; on the caller's thread where there is none, so that a test on a paused
    /// clock stays deterministic.
    pool: Option<BlockingPool>,
}

impl AccountEndpoint {
    /// The account's global endpoint.
    #[must_use]
    pub fn global(account: Arc<Account>) -> Self {
        Self { account, region: None, closed: CancellationToken::new(), pool: None }
    }

    /// The endpoint of one region. A region that the account does not have refuses connections.
    #[must_use]
    pub fn of_region(account: Arc<Account>, region: RegionName) -> Self {
        Self { account, region: Some(region), closed: CancellationToken::new(), pool: None }
    }

    /// Makes the endpoint do blocking work on threads of its own.
    pub(crate) fn offloading(self) -> Self {
        Self { pool: Some(BlockingPool::new()), ..self }
    }

    /// Makes hanging requests of the endpoint end with a reset when `closed` is cancelled, and its blocking
    /// work with an error.
    pub(crate) fn closed_by(self, closed: CancellationToken) -> Self {
        Self { closed, ..self }
    }

    /// Sends a request and waits for what its client sees of it.
    ///
    /// Delays of fault rules pass on tokio's clock. A request that a rule lets hang stays pending until
    /// the future is dropped, as a client would wait until its own timeout. Dropping the future during a
    /// delay before processing leaves nothing done.
    pub async fn send(&self, request: Request<Bytes>) -> ConnectionOutcome {
        let Some(request) = self.account.classify(self.region.as_ref(), request) else {
            return ConnectionOutcome::ConnectionRefused;
        };
        let disposition = match &self.pool {
            Some(pool) if request.is_blocking_work() => {
                // Boxed, as below: point operations pay nothing for what queries need.
                Box::pin(self.work(pool, request, Account::dispose)).await
            }
            _ => self.account.dispose(request),
        };
        self.start_commit();
        let outcome = match disposition {
            Disposition::Finished(outcome) => outcome,
            // Boxed: every request's future would otherwise have the size of a timer in it.
            delayed => Box::pin(self.carry_out(delayed)).await,
        };
        match self.account.commits() {
            None => outcome,
            Some(_) => Box::pin(self.durable(outcome)).await,
        }
    }

    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    pub(crate) fn has_pool(&self) -> bool {
        self.pool.is_some()
    }

    /// Answers a request on a thread for blocking work.
    async fn work<T: Send + 'static>(
        &self,
        pool: &BlockingPool,
        mut request: ClassifiedRequest,
        answer: impl FnOnce(&Account, ClassifiedRequest) -> T + Send + 'static,
    ) -> T {
        let account = Arc::clone(&self.account);
        pool.run(&self.closed, move |interruption| {
            request.interruption = Some(interruption);
            let answered = answer(&account, request);
            // Here and not by the caller, who may have left: what a request changed is committed all the same.
            account.commit();
            answered
        })
        .await
    }

    async fn carry_out(&self, disposition: Disposition) -> ConnectionOutcome {
        match disposition {
            Disposition::Finished(outcome) => outcome,
            Disposition::DelayedBefore(wait, request) => {
                tokio::time::sleep(wait).await;
                let region = self.region.clone();
                let outcome = match &self.pool {
                    Some(pool) if request.is_blocking_work() => {
                        let process = move |account: &Account, request| {
                            account.process_delayed(region.as_ref(), request)
                        };
                        self.work(pool, *request, process).await
                    }
                    _ => self.account.process_delayed(region.as_ref(), *request),
                };
                self.start_commit();
                outcome
            }
            Disposition::DelayedAfter(wait, response) => {
                tokio::time::sleep(wait).await;
                ConnectionOutcome::Response(response)
            }
            Disposition::Hanging => {
                // Pending for ever, except behind a server that shuts down: it would wait for the request.
                self.closed.cancelled().await;
                ConnectionOutcome::Reset { processed: false }
            }
        }
    }
}

impl Handler for AccountEndpoint {
    async fn handle(&self, request: Request<Bytes>) -> ConnectionOutcome {
        self.send(request).await
    }
}
