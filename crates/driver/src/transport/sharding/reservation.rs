//! Reserving a stream for a request: immediately, by waiting in the queue, or by exchange for one that is ready.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::client_shard::ClientShard;
use super::selection::{Selection, ShardView, select_shard};
use super::send_terms::SendTerms;
use super::shard_pool::{EndpointShardPool, Reservation, Waiter};
use super::wait_queue::ExceededLimit;
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{HttpError, HttpErrorKind, RequestSentStatus};
use crate::system::Clock;

/// The size that a waiting request is counted with beside its body: its memory on the heap, rounded up. The
/// benchmark `burst` prints how much it is.
const BYTES_PER_WAITER: usize = 2 * 1024;

/// The wait of a request in the queue.
struct Waiting<'a> {
    pool: &'a EndpointShardPool,
    reserved: oneshot::Receiver<Reservation>,
    is_over: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // In this order: who takes the mark must find the waiter cancelled.
            self.reserved.close();
            self.pool.queue().mark_cancelled();
        }
    }
}

/// A stream that is reserved for a request: see [`EndpointShardPool::send_over`].
#[derive(Debug)]
pub(in crate::transport) struct ReservedStream {
    pub(super) reservation: Reservation,
    /// When it was reserved.
    pub(super) at: Instant,
    pub(super) has_waited: bool,
}

impl ReservedStream {
    /// Whether the request had to wait for it: for its turn, or for a connection.
    pub(in crate::transport) fn has_waited(&self) -> bool {
        self.has_waited
    }
}

/// Which shards may be used.
#[derive(Clone, Copy)]
enum ShardFilter {
    /// Any, a new one included; one is avoided if that is possible.
    Any { avoided: Option<u64> },
    /// One that has its connection and does not keep failing, but not the avoided one.
    Ready { avoided: Option<u64> },
}

impl EndpointShardPool {
    /// Reserves a stream of a shard that has its connection. Where none is free, the request waits in the
    /// FIFO queue, up to its deadline.
    ///
    /// # Errors
    ///
    /// [`HttpErrorKind::QueueFull`] if no more requests may wait; [`HttpErrorKind::Timeout`] at the deadline,
    /// or if no request at the endpoint was answered for as long as one may take; [`HttpErrorKind::Connect`],
    /// [`HttpErrorKind::Tls`] or [`HttpErrorKind::Proxy`] if no connection could be made.
    pub(in crate::transport) async fn reserve_stream(
        self: &Arc<Self>,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<ReservedStream, HttpError> {
        // FIFO: waiters go first.
        let first = match self.queue().is_empty() {
            true => self.try_reserve(ShardFilter::Any { avoided: terms.avoided_shard }),
            false => None,
        };
        match first {
            // A request that need not wait has just begun: the clock is not read again.
            Some(reservation) if reservation.shard().is_ready() => {
                Ok(ReservedStream { reservation, at: diagnostics.started, has_waited: false })
            }
            first => {
                let reservation = self.wait_for_stream(first, diagnostics, terms).await?;
                Ok(ReservedStream { reservation, at: Clock::now(), has_waited: true })
            }
        }
    }

    /// Waits for a stream up to the deadline, in rounds of the timeout: the wait goes on for as long as
    /// requests are answered, however long the queue is.
    async fn wait_for_stream(
        self: &Arc<Self>,
        first: Option<Reservation>,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<Reservation, HttpError> {
        let outcome = {
            let waiting = self.reserve_connected(first, diagnostics, terms);
            let mut waiting = std::pin::pin!(waiting);
            loop {
                let round = terms.timeout.and_then(|timeout| Clock::now().checked_add(timeout));
                let Some(end) = [round, terms.deadline].into_iter().flatten().min() else {
                    break Some(waiting.await);
                };
                let outcome = tokio::time::timeout_at(end.into(), waiting.as_mut()).await;
                let is_over = terms.deadline.is_some_and(|deadline| deadline <= Clock::now());
                let stands_still = || terms.timeout.is_some_and(|it| !self.has_answered_within(it));
                match outcome {
                    Ok(outcome) => break Some(outcome),
                    Err(_) if is_over || stands_still() => break None,
                    Err(_) => {}
                }
            }
        };
        outcome.unwrap_or_else(|| Err(self.timed_out(diagnostics, terms)))
    }

    /// Whether some request was answered in a time that ends now.
    pub(super) fn has_answered_within(&self, time: Duration) -> bool {
        let since = self.age().saturating_sub(time);
        self.shards().load().iter().any(|shard| shard.has_answered_since(since))
    }

    /// The error of a request whose time is over.
    pub(super) fn timed_out(
        &self,
        diagnostics: &RequestDiagnostics,
        terms: &SendTerms,
    ) -> HttpError {
        let (endpoint, phase) = (self.endpoint(), diagnostics.phase());
        let sentence = match terms.timeout {
            Some(limit) => format!("no answer came within {limit:?} ({endpoint}): {phase}"),
            None => format!("no answer came before the deadline ({endpoint}): {phase}"),
        };
        HttpError::new(HttpErrorKind::Timeout, diagnostics.request_sent, sentence)
    }

    /// A stream of a shard that has its connection.
    async fn reserve_connected(
        self: &Arc<Self>,
        mut first: Option<Reservation>,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<Reservation, HttpError> {
        loop {
            let reservation = match first.take() {
                Some(reservation) => reservation,
                None => self.reserve(diagnostics, terms).await?,
            };
            match self.until_connected(reservation, diagnostics, terms.avoided_shard).await {
                // Other connections serve: the request must not fail for one that could not be added.
                Err(error) if error.is_about_connecting() && self.shards().has_ready() => {}
                outcome => return outcome,
            }
        }
    }

    async fn reserve(
        self: &Arc<Self>,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<Reservation, HttpError> {
        let avoided = terms.avoided_shard;
        // FIFO: waiters go first.
        if self.queue().is_empty()
            && let Some(reservation) = self.try_reserve(ShardFilter::Any { avoided })
        {
            return Ok(reservation);
        }
        if self.is_closed() {
            return Err(self.closed_error());
        }
        if self.is_handed_over() {
            return Err(self.protocol_changed("HTTP/1.1"));
        }
        diagnostics.record(RequestEventKind::Queued);
        let (sender, reserved) = oneshot::channel();
        let waiter = Waiter { reserved: sender, avoided };
        let bytes = BYTES_PER_WAITER.saturating_add(terms.body_bytes);
        let enqueued = self.queue().enqueue(waiter, bytes, Waiter::is_cancelled);
        // A stream may have been released between the attempt above and the enqueuing, or while the queue
        // was cleaned up.
        self.serve_queue();
        if let Err(full) = enqueued {
            return Err(self.queue_full(full));
        }
        self.widen_while_requests_wait();
        let mut waiting = Waiting { pool: self, reserved, is_over: false };
        if self.is_closed() {
            // The pool was closed while this one was enqueued, perhaps after the queue was emptied.
            self.reject_waiters();
        }
        let reserved = (&mut waiting.reserved).await;
        waiting.is_over = true;
        reserved.map_err(|_| self.closed_error())
    }

    /// Waits until the shard of a reservation has its connection. Should a stream of another become free
    /// meanwhile, that one is taken: the request that caused growth need not wait for it.
    async fn until_connected(
        self: &Arc<Self>,
        reservation: Reservation,
        diagnostics: &mut RequestDiagnostics,
        avoided: Option<u64>,
    ) -> Result<Reservation, HttpError> {
        if reservation.shard().is_ready() {
            return Ok(reservation);
        }
        diagnostics.record(RequestEventKind::Connecting);
        // Counted before the first look, so that a stream released after the look is announced.
        let _waiting = self.connect_waiters().enter();
        loop {
            // Also before the first wait: a stream may have become free since this one was reserved.
            if let Some(ready) = self.try_reserve(ShardFilter::Ready { avoided }) {
                return Ok(ready);
            }
            tokio::select! {
                // The own connection first: taking another's stream would waste it. It ends the loop, so it
                // cannot starve the other branch.
                biased;
                outcome = reservation.shard().connect_outcome() => {
                    return outcome.map(|()| reservation);
                }
                () = self.connect_waiters().stream_freed() => {}
            }
        }
    }

    /// A stream of some shard, if there is one or a shard can be made.
    fn try_reserve(self: &Arc<Self>, filter: ShardFilter) -> Option<Reservation> {
        loop {
            if self.is_closed() || self.is_handed_over() {
                return None;
            }
            let shards = self.shards().load();
            match self.select(&shards, filter) {
                Selection::Use(index) => {
                    let shard = &shards[index];
                    // Optimistic: another thread may have reserved the last stream; then select again.
                    if let Some(in_use) = shard.try_reserve(self.config()) {
                        let (pool, shard) = (Arc::clone(self), Arc::clone(shard));
                        return Some(Reservation::new(pool, shard, in_use));
                    }
                }
                Selection::Grow => self.grow(),
                Selection::Full if self.remove_closed(&shards) => {}
                Selection::Full => return None,
            }
        }
    }

    fn select(&self, shards: &[Arc<ClientShard>], filter: ShardFilter) -> Selection {
        let config = self.config();
        let ratio = self.load().spread_ratio();
        match filter {
            ShardFilter::Any { avoided } => {
                let views = shards.iter().map(|shard| shard.view(config));
                let avoided = avoided.and_then(|id| shards.iter().position(|it| it.id() == id));
                select_shard(views, avoided, ratio, self.may_grow(shards))
            }
            ShardFilter::Ready { avoided } => {
                let views = shards.iter().map(|shard| {
                    let view = shard.view(config);
                    let is_usable =
                        view.is_ready && !view.is_failing && avoided != Some(shard.id());
                    // Without room it is never selected.
                    ShardView { limit: if is_usable { view.limit } else { 0 }, ..view }
                });
                select_shard(views, None, ratio, false)
            }
        }
    }

    /// Gives free streams to waiters, in FIFO order.
    pub(super) fn serve_queue(self: &Arc<Self>) {
        while self.queue().has_waiters() {
            let Some(reservation) = self.try_reserve(ShardFilter::Any { avoided: None }) else {
                return;
            };
            if let Some(unwanted) = self.hand_over(reservation) {
                // Other threads served the waiters. One that enqueued while the stream was held here has
                // found none free, so the queue is looked at once more: else its wakeup would be lost.
                unwanted.release_unserved();
            }
        }
    }

    /// Gives a stream to the first waiter that is not cancelled; returns it if every waiter is.
    fn hand_over(self: &Arc<Self>, mut reservation: Reservation) -> Option<Reservation> {
        while let Some(first) = self.queue().dequeue() {
            self.note_turn();
            if let Some(other) = self.preferred_by(&first, &reservation) {
                // The stream in hand goes to the next one.
                if let Err(cancelled) = first.reserved.send(other) {
                    cancelled.release_unserved();
                }
                continue;
            }
            match first.reserved.send(reservation) {
                Ok(()) => return None,
                // Cancelled: the stream goes to the next one.
                Err(back) => reservation = back,
            }
        }
        Some(reservation)
    }

    /// A stream of another shard, for a waiter that avoids the one in hand, if there is or can be one.
    fn preferred_by(
        self: &Arc<Self>,
        waiter: &Waiter,
        in_hand: &Reservation,
    ) -> Option<Reservation> {
        let avoided = waiter.avoided.filter(|id| *id == in_hand.shard().id())?;
        if waiter.is_cancelled() {
            return None;
        }
        let other = self.try_reserve(ShardFilter::Any { avoided: Some(avoided) })?;
        match other.shard().id() == avoided {
            true => {
                other.release_unserved();
                None
            }
            false => Some(other),
        }
    }

    /// Fails every waiter: dropping a sender tells its receiver.
    pub(super) fn reject_waiters(&self) {
        while self.queue().dequeue().is_some() {}
    }

    fn queue_full(&self, full: ExceededLimit) -> HttpError {
        let (config, endpoint) = (self.config(), self.endpoint());
        let sentence = match (full, config.max_queued_requests) {
            (ExceededLimit::Waiters, Some(most)) => format!(
                "the wait queue of {endpoint} is full: {most} requests wait for a stream, as many as \
                 sharding.max_queued_requests allows; send fewer at once, or raise the setting"
            ),
            (ExceededLimit::Waiters, None) => format!(
                "the wait queue of {endpoint} is full: it holds as many requests as it can count; send \
                 fewer at once"
            ),
            (ExceededLimit::Bytes, _) => format!(
                "the wait queue of {endpoint} is full: requests that wait for a stream hold {} bytes, as \
                 many as sharding.max_queued_bytes allows; send fewer at once, or raise the setting",
                config.max_queued_bytes
            ),
        };
        HttpError::new(HttpErrorKind::QueueFull, RequestSentStatus::NotSent, sentence)
    }

    /// The error of a closed pool: the driver shuts down, or another pool has replaced it.
    pub(super) fn closed_error(&self) -> HttpError {
        let (kind, what) = match self.tasks().is_shutting_down() {
            true => (HttpErrorKind::Closed, "are being closed"),
            false => (HttpErrorKind::ProtocolChanged, "have changed"),
        };
        let sentence = format!("the connections to {} {what}", self.endpoint());
        HttpError::new(kind, RequestSentStatus::NotSent, sentence)
    }
}
