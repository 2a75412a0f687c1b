//! One attempt, in values: where it goes, and what it came to.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use crate::routing::CosmosEndpoint;
use crate::transport::TransportResult;

/// Where an attempt goes.
#[derive(Debug)]
pub(super) struct AttemptRoute {
    pub(super) endpoint: CosmosEndpoint,
    /// If it is a probe of a region that its partition has left: where the partition is served.
    pub(super) probe: Option<CosmosEndpoint>,
    /// How long it waits before it is made: its region is likely to have the session by then.
    pub(super) pause: Duration,
    /// Whether it goes to the region that has its session, instead of the one that serves such reads otherwise.
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
    /// Where it comes from: where the attempt went, unless a hedge has won.
    pub(super) endpoint: Cow<'a, CosmosEndpoint>,
    /// When the request that has it was made.
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
    /// None if it was left because the other one had answered.
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
