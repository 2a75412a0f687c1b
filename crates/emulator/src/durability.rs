//! No response leaves before what it shows is durable, in an account that is kept on disk.
//!
//! A response carries the point in the order of commits that it waits for in its extensions. The endpoint that sends it
//! has to wait: an endpoint with a pool awaits the commit, everybody else commits on the spot.

use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::account::Account;
use crate::endpoint::AccountEndpoint;
use crate::error::ServiceError;
use crate::outcome::ConnectionOutcome;
use crate::reply::Reply;
use crate::store::persistence::{CommitQueue, Durability};

impl Account {
    /// Where changes are stored, if the account is kept on disk.
    pub(crate) fn commits(&self) -> Option<&Arc<CommitQueue>> {
        self.state().commits.as_ref()
    }

    /// Commits what is queued, and wakes those who wait for it.
    pub(crate) fn commit(&self) {
        if let Some(commits) = self.commits() {
            commits.commit();
            self.committed.send_modify(|_| ());
        }
    }

    /// Applies the write-ahead log, if it is due.
    pub(crate) fn checkpoint(&self) {
        if let Some(commits) = self.commits() {
            commits.checkpoint();
        }
    }

    /// Commits what is queued and closes the data directory. What is written after that is not kept.
    pub(crate) fn close(&self) {
        if let Some(commits) = self.commits() {
            commits.close();
            self.committed.send_modify(|_| ());
        }
    }

    /// Keeps the promise of [`CommitQueue::claim`]: commits until nothing is queued.
    fn commit_claimed(&self) {
        let Some(commits) = self.commits() else { return };
        loop {
            self.commit();
            // After those who waited for the commit were woken.
            commits.checkpoint();
            if !commits.release_claim() {
                return;
            }
        }
    }

    /// Waits until a point is durable; the error is the reason why it will not be.
    async fn reached(&self, commits: &CommitQueue, point: Durability) -> Result<(), String> {
        let mut committed = self.committed.subscribe();
        let decided =
            committed.wait_for(|()| commits.is_reached(point) || commits.failure().is_some());
        // The sender lives in the account and outlives the wait.
        let _ = decided.await;
        match commits.failure() {
            Some(reason) if !commits.is_reached(point) => Err(reason.to_owned()),
            _ => Ok(()),
        }
    }

    /// The commit that a response has to wait for; `None` if all that it shows is durable.
    pub(crate) fn durability_of(&self, reply: &Reply) -> Option<Durability> {
        let commits = self.commits()?;
        // A point read knows what it has seen. Everything else waits for whatever is queued by now.
        let point = reply.durability.unwrap_or_else(|| commits.now());
        (!commits.is_reached(point)).then_some(point)
    }

    /// The response, or an error in its place where what it shows will not be durable.
    pub(crate) fn durable_or_failed(&self, response: Response<Bytes>) -> Response<Bytes> {
        let Some(commits) = self.commits() else { return response };
        let Some(point) = response.extensions().get::<Durability>() else { return response };
        match commits.failure() {
            Some(reason) if !commits.is_reached(*point) => failed(reason),
            _ => response,
        }
    }
}

impl AccountEndpoint {
    /// Has what is queued committed: here, so that a lone write waits for no other thread, and what queues
    /// meanwhile by the pool, where there is one.
    pub(crate) fn start_commit(&self) {
        let account = self.account();
        let Some(commits) = account.commits().filter(|commits| commits.claim()) else { return };
        if !self.has_pool() {
            return account.commit_claimed();
        }
        // A runtime of one thread has nobody to take its other tasks over. A checkpoint takes too long for here.
        let queued = !commits.is_reached(commits.now());
        if queued && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread {
            tokio::task::block_in_place(|| account.commit());
            if !commits.release_claim() {
                return;
            }
        }
        let account = Arc::clone(account);
        // Not awaited: a commit belongs to all who wait for it, and none of them ends it by leaving.
        drop(tokio::task::spawn_blocking(move || account.commit_claimed()));
    }

    /// Waits until what an outcome shows is durable.
    pub(crate) async fn durable(&self, outcome: ConnectionOutcome) -> ConnectionOutcome {
        let Some(commits) = self.account().commits() else { return outcome };
        let waits = match &outcome {
            ConnectionOutcome::Response(response) | ConnectionOutcome::ResetMidBody(response) => {
                response.extensions().get::<Durability>().copied()
            }
            ConnectionOutcome::ConnectionRefused | ConnectionOutcome::Reset { .. } => None,
        };
        let Some(point) = waits else { return outcome };
        match self.account().reached(commits, point).await {
            Ok(()) => outcome,
            Err(reason) => ConnectionOutcome::Response(failed(&reason)),
        }
    }
}

fn failed(reason: &str) -> Response<Bytes> {
    let reply = ServiceError::not_durable(reason).into_reply();
    reply.into_response(&http::HeaderValue::from_static("00000000-0000-0000-0000-000000000000"))
}
