//! A stream for a request: taken at once, waited for in line, or exchanged for a better one.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use tokio::sync::oneshot;

use super::client_shard::ClientShard;
use super::selection::{Selection, ShardView, select_shard};
use super::shard_pool::EndpointShardPool;
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::transport::counted::Counted;
use crate::transport::{HttpError, HttpErrorKind, RequestSentStatus};

/// What a request asks of the transport beside being sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendTerms {
    /// When the caller will drop the future: a request that is dropped then counts against its shard,
    /// one that is dropped before does not.
    pub deadline: Option<Instant>,
    /// The shard that the request failed on before; another is used if there is or can be one.
    pub avoided_shard: Option<u64>,
}

/// A stream of a shard, held until it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    pool: Arc<EndpointShardPool>,
    pub(super) shard: Arc<ClientShard>,
    /// How many streams of the shard were in use with this one.
    pub(super) in_use: u32,
    is_held: bool,
}

impl Reservation {
    fn release(&self) {
        if self.shard.slots.release() {
            self.shard.drained.notify_one();
        }
    }

    /// Gives the stream back without looking at the line; the caller does.
    fn release_quietly(mut self) {
        self.is_held = false;
        self.release();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_held {
            self.release();
            self.pool.serve_line();
            self.pool.tell_of_free_stream();
        }
    }
}

/// Which shards may be used.
#[derive(Clone, Copy)]
enum Wanted {
    /// Any, a new one included; one is avoided if that is possible.
    Any { avoided: Option<u64> },
    /// One that has its connection and whose requests succeed, but not the avoided one.
    Ready { avoided: Option<u64> },
}

impl EndpointShardPool {
    /// A stream of a connection that is there.
    pub(super) async fn reserve_connected(
        self: &Arc<Self>,
        diagnostics: &mut RequestDiagnostics,
        avoided: Option<u64>,
    ) -> Result<Reservation, HttpError> {
        loop {
            let reservation = self.reserve(diagnostics, avoided).await?;
            match self.until_connected(reservation, diagnostics, avoided).await {
                // Other connections serve: the request need not pay for one that could not be added.
                Err(error) if error.is_about_connecting() && self.has_ready_shard() => {}
                settled => return settled,
            }
        }
    }

    async fn reserve(
        self: &Arc<Self>,
        diagnostics: &mut RequestDiagnostics,
        avoided: Option<u64>,
    ) -> Result<Reservation, HttpError> {
        // Those who wait go first.
        if self.line.is_empty()
            && let Some(reservation) = self.try_reserve(Wanted::Any { avoided })
        {
            return Ok(reservation);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(self.no_longer_here());
        }
        diagnostics.record(RequestEventKind::Queued);
        let (turn, comes) = oneshot::channel();
        if self.line.join(turn, oneshot::Sender::is_closed).is_err() {
            return Err(self.queue_full());
        }
        self.serve_line();
        if self.closed.load(Ordering::Acquire) {
            // The pool was closed while this one joined.
            self.dismiss_line();
        }
        comes.await.map_err(|_| self.no_longer_here())
    }

    /// Waits until the shard of a reservation has its connection. Should a stream of another become free
    /// meanwhile, that one is taken: a new connection is for those who come after a spike, not for those
    /// who happened to ask for it.
    async fn until_connected(
        self: &Arc<Self>,
        reservation: Reservation,
        diagnostics: &mut RequestDiagnostics,
        avoided: Option<u64>,
    ) -> Result<Reservation, HttpError> {
        if reservation.shard.is_ready() {
            return Ok(reservation);
        }
        diagnostics.record(RequestEventKind::Connecting);
        let _waiting = Counted::begin(&self.waiting_for_connection);
        loop {
            // Also before the first wait: a stream may have become free since this one was reserved.
            if let Some(ready) = self.try_reserve(Wanted::Ready { avoided }) {
                return Ok(ready);
            }
            tokio::select! {
                settled = reservation.shard.settled() => return settled.map(|()| reservation),
                () = self.freed.notified() => {}
            }
        }
    }

    /// Lets one who waits for a connection have a stream that nobody in line wants.
    fn tell_of_free_stream(&self) {
        if self.waiting_for_connection.load(Ordering::Relaxed) > 0 {
            self.freed.notify_one();
        }
    }

    /// A stream of some shard, if there is one or a shard can be made.
    fn try_reserve(self: &Arc<Self>, wanted: Wanted) -> Option<Reservation> {
        let config = &self.context.sharding;
        loop {
            if self.closed.load(Ordering::Acquire) {
                return None;
            }
            let shards = self.shards.load();
            match self.select(&shards, wanted) {
                Selection::Use(index) => {
                    let shard = &shards[index];
                    let limit = shard.client.stream_limit().within(config.max_streams_per_client);
                    // Somebody else may have taken the last stream: look again.
                    if let Ok(in_use) = shard.slots.try_reserve(limit) {
                        let (pool, shard) = (Arc::clone(self), Arc::clone(shard));
                        return Some(Reservation { pool, shard, in_use, is_held: true });
                    }
                }
                Selection::Grow => self.grow(),
                Selection::Full if self.retire_ended(&shards) => {}
                Selection::Full => return None,
            }
        }
    }

    fn select(&self, shards: &[Arc<ClientShard>], wanted: Wanted) -> Selection {
        let config = &self.context.sharding;
        let ratio = self.spread.load().ratio();
        match wanted {
            Wanted::Any { avoided } => {
                let views = shards.iter().map(|shard| shard.view(config));
                let avoided = avoided.and_then(|id| shards.iter().position(|it| it.id == id));
                select_shard(views, avoided, ratio, self.may_grow(shards))
            }
            Wanted::Ready { avoided } => {
                let views = shards.iter().map(|shard| {
                    let view = shard.view(config);
                    let is_good = view.is_ready && !view.is_doubtful && avoided != Some(shard.id);
                    ShardView { limit: if is_good { view.limit } else { 0 }, ..view }
                });
                select_shard(views, None, ratio, false)
            }
        }
    }

    /// Gives free streams to those who wait, first come, first served.
    pub(super) fn serve_line(self: &Arc<Self>) {
        while self.line.is_anyone_waiting() {
            let Some(reservation) = self.try_reserve(Wanted::Any { avoided: None }) else { return };
            if let Some(unwanted) = self.hand_over(reservation) {
                // Others were quicker. Whoever joined while the stream was held here has found none, so
                // the line is looked at once more.
                unwanted.release_quietly();
            }
        }
    }

    /// Gives a stream to the first in line who still waits; gives it back if nobody does.
    fn hand_over(&self, mut reservation: Reservation) -> Option<Reservation> {
        while let Some(first) = self.line.next() {
            match first.send(reservation) {
                Ok(()) => return None,
                Err(back) => reservation = back,
            }
        }
        Some(reservation)
    }

    fn queue_full(&self) -> HttpError {
        let most = self.context.sharding.max_queued_requests;
        HttpError::new(
            HttpErrorKind::QueueFull,
            RequestSentStatus::NotSent,
            format!(
                "{most} requests wait for a connection to {} already: send fewer at once, or raise \
                 max_clients_per_endpoint or max_queued_requests",
                self.endpoint
            ),
        )
    }

    /// Why a pool that is closed does nothing: the driver ends, or another pool has taken its place.
    pub(super) fn no_longer_here(&self) -> HttpError {
        let (kind, what) = match self.context.tasks.is_shutting_down() {
            true => (HttpErrorKind::Closed, "are being closed"),
            false => (HttpErrorKind::ProtocolChanged, "have changed"),
        };
        let sentence = format!("the connections to {} {what}", self.endpoint);
        HttpError::new(kind, RequestSentStatus::NotSent, sentence)
    }
}
