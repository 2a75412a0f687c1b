//! One attempt, in values: where it goes, and what it came to.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::routing::CosmosEndpoint;
use crate::transport::TransportResult;

/// The route of an attempt: its endpoint, and whether it is a probe or waits first.
#[derive(Debug)]
pub(super) struct AttemptRoute {
    pub(super) endpoint: CosmosEndpoint,
    /// For a probe of a region that its partition has left: the endpoint that serves the partition meanwhile.
    pub(super) probe: Option<CosmosEndpoint>,
    /// The pause before the request, after which its region is likely to have the session.
    pub(super) pause: Duration,
    /// Whether it was diverted to the region that has its session, away from the preferred one.
    pub(super) is_diverted: bool,
}

impl AttemptRoute {
    pub(super) fn to(endpoint: CosmosEndpoint) -> Self {
        Self { endpoint, probe: None, pause: Duration::ZERO, is_diverted: false }
    }
}

/// The outcome of an attempt, with that of the hedge that may have joined it.
#[derive(Debug)]
pub(super) struct RaceOutcome<'a> {
    /// The outcome that counts.
    pub(super) result: TransportResult,
    /// The endpoint of that outcome: the attempt's own, unless a hedge has won.
    pub(super) endpoint: Cow<'a, CosmosEndpoint>,
    /// When the request with that outcome was sent.
    pub(super) started: Instant,
    /// Whether it is the hedge's.
    pub(super) is_hedge: bool,
    /// The other leg, if there was a race.
    // On the heap: few attempts are hedged, and all of them would be larger by it.
    pub(super) other: Option<Box<OtherLeg>>,
}

/// The leg of a race that does not count.
#[derive(Debug)]
pub(super) struct OtherLeg {
    pub(super) endpoint: CosmosEndpoint,
    /// `None` if it was cancelled because the other leg had answered.
    pub(super) result: Option<TransportResult>,
}

impl<'a> RaceOutcome<'a> {
    /// An attempt that no hedge has joined.
    #[inline] // So that the outcome is not copied once more.
    pub(super) fn unhedged(
        result: TransportResult,
        route: &'a AttemptRoute,
        started: Instant,
    ) -> Self {
        let endpoint = Cow::Borrowed(&route.endpoint);
        Self { result, endpoint, started, is_hedge: false, other: None }
    }
}
