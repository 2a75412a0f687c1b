//! Health checks: which shard is unhealthy or idle, in the order in which the checks count.
//!
//! Pure: numbers in, a status out. All times are durations since the pool was created.

use std::time::Duration;

use super::ShardingConfig;

/// Statistics of a shard's requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// Requests on it now.
    pub inflight: u32,
    /// The last response; for one that never had any, the moment it was made.
    pub last_success: Duration,
    /// When the last request began.
    pub last_request: Duration,
    /// Since when it has never been without a request.
    pub busy_since: Duration,
    /// Failures since the last response.
    pub consecutive_failures: u32,
    /// Requests in all.
    pub total_requests: u64,
    /// Failures in all.
    pub total_failures: u64,
}

/// The health of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardHealthStatus {
    /// It is kept.
    Healthy,
    /// It is evicted.
    Unhealthy {
        /// Why.
        reason: EvictionReason,
    },
    /// It is closed if there are more than the minimum.
    Idle,
}

/// Why a shard is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionReason {
    /// Requests are in flight and no response has come for too long.
    ReadHang,
    /// Its requests fail while those of others succeed: the connection is at fault, not the service.
    ConsecutiveFailuresWithHealthyPeers,
    /// It has not been used for too long.
    IdleTimeout,
}

impl EvictionReason {
    /// The name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ReadHang => "read hang",
            Self::ConsecutiveFailuresWithHealthyPeers => "consecutive failures with healthy peers",
            Self::IdleTimeout => "idle timeout",
        }
    }
}

/// Checks a shard; the first check that applies decides.
///
/// A hang is counted from the later of the last response and the moment since which the shard has been
/// busy: one that was idle for an hour and got a request a second ago does not hang.
#[must_use]
pub fn check_shard_health(
    shard: &ShardStats,
    peers: impl IntoIterator<Item = ShardStats>,
    config: &ShardingConfig,
    now: Duration,
) -> ShardHealthStatus {
    let since_success = now.saturating_sub(shard.last_success);
    // A shard that never had a request carries its creation as its last success, which proves nothing.
    if since_success < config.recent_success_window && shard.total_requests > 0 {
        return ShardHealthStatus::Healthy;
    }
    let silent_since = shard.last_success.max(shard.busy_since);
    if shard.inflight > 0 && now.saturating_sub(silent_since) > config.read_hang_threshold {
        return ShardHealthStatus::Unhealthy { reason: EvictionReason::ReadHang };
    }
    // Only beside a healthier peer: if all fail, the endpoint is at fault, and new connections would
    // fail too.
    if shard.consecutive_failures >= config.consecutive_failure_threshold
        && since_success > config.eviction_grace_period
        && peers.into_iter().any(|peer| is_healthier(&peer, shard))
    {
        return ShardHealthStatus::Unhealthy {
            reason: EvictionReason::ConsecutiveFailuresWithHealthyPeers,
        };
    }
    let unused_for = now.saturating_sub(shard.last_request.max(shard.busy_since));
    if shard.inflight == 0 && unused_for > config.idle_client_timeout {
        return ShardHealthStatus::Idle;
    }
    ShardHealthStatus::Healthy
}

/// Whether a peer fails less and has succeeded later.
fn is_healthier(peer: &ShardStats, shard: &ShardStats) -> bool {
    peer.consecutive_failures < shard.consecutive_failures
        && peer.last_success > shard.last_success
        && peer.total_requests > peer.total_failures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::OptionLayers;

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    fn used(last_success: u64) -> ShardStats {
        ShardStats {
            last_success: seconds(last_success),
            last_request: seconds(last_success),
            total_requests: 100,
            ..ShardStats::default()
        }
    }

    fn check(shard: ShardStats, peers: &[ShardStats], now: u64) -> ShardHealthStatus {
        let config = ShardingConfig::from(OptionLayers::default().sharding());
        check_shard_health(&shard, peers.iter().copied(), &config, seconds(now))
    }

    fn evicted(reason: EvictionReason) -> ShardHealthStatus {
        ShardHealthStatus::Unhealthy { reason }
    }

    #[test]
    fn a_recent_success_goes_before_everything_else() {
        let failing = ShardStats { consecutive_failures: 50, inflight: 9, ..used(100) };
        assert_eq!(check(failing, &[used(101)], 100), ShardHealthStatus::Healthy);
    }

    #[test]
    fn requests_without_any_answer_for_long_are_a_hang() {
        let hanging = ShardStats { inflight: 1, busy_since: seconds(100), ..used(100) };
        assert_eq!(check(hanging, &[], 115), ShardHealthStatus::Healthy);
        assert_eq!(check(hanging, &[], 116), evicted(EvictionReason::ReadHang));
    }

    /// A shard that had been idle was evicted as soon as it got a request.
    #[test]
    fn a_request_on_a_shard_that_had_been_idle_is_no_hang() {
        let woken = ShardStats { inflight: 1, busy_since: seconds(150), ..used(100) };
        assert_eq!(check(woken, &[], 151), ShardHealthStatus::Healthy);
        assert_eq!(check(woken, &[], 166), evicted(EvictionReason::ReadHang));
    }

    #[test]
    fn failures_count_only_while_others_succeed() {
        let failing = ShardStats { consecutive_failures: 5, total_failures: 5, ..used(100) };
        let reason = EvictionReason::ConsecutiveFailuresWithHealthyPeers;
        assert_eq!(check(failing, &[used(104)], 105), evicted(reason));
        assert_eq!(check(failing, &[], 105), ShardHealthStatus::Healthy);
        assert_eq!(check(failing, &[failing, used(99)], 105), ShardHealthStatus::Healthy);
        let four = ShardStats { consecutive_failures: 4, ..failing };
        assert_eq!(check(four, &[used(104)], 105), ShardHealthStatus::Healthy);
    }

    /// A new peer without any answer is no evidence against others.
    #[test]
    fn a_peer_that_never_answered_is_no_proof_of_health() {
        let failing = ShardStats { consecutive_failures: 5, ..used(100) };
        let fresh = ShardStats { last_success: seconds(104), ..ShardStats::default() };
        assert_eq!(check(failing, &[fresh], 105), ShardHealthStatus::Healthy);
    }

    #[test]
    fn a_failing_shard_is_kept_for_the_grace_period() {
        let failing = ShardStats { consecutive_failures: 5, ..used(100) };
        assert_eq!(check(failing, &[used(101)], 102), ShardHealthStatus::Healthy);
        let reason = EvictionReason::ConsecutiveFailuresWithHealthyPeers;
        assert_eq!(check(failing, &[used(102)], 103), evicted(reason));
    }

    #[test]
    fn a_shard_that_is_not_used_becomes_idle_and_one_in_use_does_not() {
        assert_eq!(check(used(100), &[], 160), ShardHealthStatus::Healthy);
        assert_eq!(check(used(100), &[], 161), ShardHealthStatus::Idle);
        let busy = ShardStats { inflight: 1, busy_since: seconds(159), ..used(100) };
        assert_eq!(check(busy, &[], 161), ShardHealthStatus::Healthy);
    }
}
