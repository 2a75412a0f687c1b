//! Shard selection: which shard gets the next request, or whether there should be another.
//!
//! Pure functions over what the shards look like at the moment. Load is concentrated on the oldest
//! shards (the active set), so that after a spike the younger ones drain and can be closed.

/// A shard as selection sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardView {
    /// Streams in use.
    pub(super) in_use: u32,
    /// Streams that may be.
    pub(super) limit: u32,
    /// Whether its connection is made.
    pub(super) is_ready: bool,
    /// Whether its last requests all failed.
    pub(super) is_failing: bool,
}

impl ShardView {
    fn has_room(&self) -> bool {
        self.in_use < self.limit
    }
}

/// The decision for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Selection {
    /// Give it to the shard at this index.
    Use(usize),
    /// Make another shard first.
    Grow,
    /// Let it wait.
    Full,
}

/// Selects among shards that are given from the oldest to the youngest; `avoided` is the index of one
/// that the request has failed on.
///
/// In this order: the least loaded of the active set; the oldest of the others, which had begun to
/// drain; one that is still connecting; a new one, if there may be; one whose requests keep failing,
/// since a request that is tried there learns more than one that is not tried; at last the avoided one.
pub(super) fn select_shard(
    shards: impl ExactSizeIterator<Item = ShardView>,
    avoided: Option<usize>,
    load_spread_ratio: f64,
    may_grow: bool,
) -> Selection {
    // One pass without an allocation: this runs for every request.
    let active_size = active_set_size(shards.len(), load_spread_ratio);
    let mut seen_ready = 0;
    let mut active: Option<(usize, u32)> = None;
    let mut draining = None;
    let mut connecting = None;
    let mut failing: Option<(usize, u32)> = None;
    let mut last_resort = None;
    for (index, shard) in shards.enumerate() {
        if avoided == Some(index) {
            last_resort = shard.has_room().then_some(index);
        } else if shard.is_failing {
            keep_least_loaded(&mut failing, index, &shard);
        } else if !shard.is_ready {
            connecting = connecting.or(shard.has_room().then_some(index));
        } else {
            // By age, not by load: sorted by load the emptiest shards would be the active set, and none
            // would ever become idle.
            seen_ready += 1;
            if seen_ready <= active_size {
                keep_least_loaded(&mut active, index, &shard);
            } else if shard.has_room() {
                draining = draining.or(Some(index));
            }
        }
    }
    let best = active.map(|(index, _)| index).or(draining).or(connecting);
    let worst = failing.map(|(index, _)| index).or(last_resort);
    match (best, may_grow, worst) {
        (Some(index), _, _) => Selection::Use(index),
        (None, true, _) => Selection::Grow,
        (None, false, Some(index)) => Selection::Use(index),
        (None, false, None) => Selection::Full,
    }
}

/// Keeps the shard with the fewest streams in use; of equals, the oldest.
fn keep_least_loaded(best: &mut Option<(usize, u32)>, index: usize, shard: &ShardView) {
    if shard.has_room() && best.is_none_or(|(_, load)| shard.in_use < load) {
        *best = Some((index, shard.in_use));
    }
}

/// How many of the oldest shards take new requests.
pub(super) fn active_set_size(shards: usize, load_spread_ratio: f64) -> usize {
    let size = (shards as f64 * load_spread_ratio).ceil();
    // A ratio is at most 1, so the size fits.
    (size as usize).clamp(1, shards.max(1))
}

/// Whether streams are used so heavily that another shard is made ahead of need.
pub(super) fn should_scale_up(
    shards: impl Iterator<Item = ShardView>,
    threshold_ratio: f64,
) -> bool {
    let (in_use, room) = shards.fold((0_u64, 0_u64), |(in_use, room), shard| {
        (in_use + u64::from(shard.in_use), room + u64::from(shard.limit))
    });
    room > 0 && in_use as f64 > room as f64 * threshold_ratio
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(in_use: u32) -> ShardView {
        ShardView { in_use, limit: 16, is_ready: true, is_failing: false }
    }

    fn connecting(in_use: u32) -> ShardView {
        ShardView { is_ready: false, ..ready(in_use) }
    }

    fn failing(in_use: u32) -> ShardView {
        ShardView { is_failing: true, ..ready(in_use) }
    }

    fn select(shards: &[ShardView], may_grow: bool) -> Selection {
        select_shard(shards.iter().copied(), None, 0.5, may_grow)
    }

    #[test]
    fn the_least_loaded_of_the_active_set_is_used() {
        let shards = [ready(10), ready(9), ready(0), ready(0)];
        assert_eq!(select(&shards, true), Selection::Use(1));
    }

    #[test]
    fn of_equals_the_oldest_is_used_so_that_the_others_drain() {
        assert_eq!(select(&[ready(0), ready(0), ready(0)], true), Selection::Use(0));
    }

    #[test]
    fn a_draining_shard_is_used_before_a_new_one_is_made() {
        let shards = [ready(16), ready(16), ready(3), ready(0)];
        assert_eq!(select(&shards, true), Selection::Use(2));
    }

    #[test]
    fn a_connection_that_is_ready_goes_before_one_that_is_not() {
        assert_eq!(select(&[connecting(0), ready(15)], true), Selection::Use(1));
        assert_eq!(select(&[connecting(3), ready(16)], true), Selection::Use(0));
    }

    #[test]
    fn another_shard_is_made_when_all_are_full_and_not_beyond_the_most() {
        assert_eq!(select(&[ready(16), ready(16)], true), Selection::Grow);
        assert_eq!(select(&[ready(16), ready(16)], false), Selection::Full);
        assert_eq!(select(&[], true), Selection::Grow);
        assert_eq!(select(&[], false), Selection::Full);
    }

    #[test]
    fn a_peer_that_lowers_its_limit_is_full_sooner() {
        let lowered = ShardView { limit: 4, ..ready(6) };
        assert_eq!(select(&[lowered], true), Selection::Grow);
        let closing = ShardView { limit: 0, ..ready(0) };
        assert_eq!(select(&[closing], false), Selection::Full);
    }

    #[test]
    fn a_shard_that_keeps_failing_is_used_only_when_nothing_else_can_be() {
        assert_eq!(select(&[failing(0), ready(15)], true), Selection::Use(1));
        assert_eq!(select(&[failing(0), failing(0)], true), Selection::Grow);
        assert_eq!(select(&[failing(5), failing(2)], false), Selection::Use(1));
    }

    /// Where all shards kept failing, a request was tried a second time on the one it had failed on.
    #[test]
    fn the_shard_that_a_request_failed_on_is_its_last_resort() {
        let select = |shards: &[ShardView], may_grow| {
            select_shard(shards.iter().copied(), Some(0), 0.5, may_grow)
        };
        assert_eq!(select(&[ready(0), ready(15)], true), Selection::Use(1));
        assert_eq!(select(&[ready(0), ready(16)], true), Selection::Grow);
        assert_eq!(select(&[failing(0), failing(9)], false), Selection::Use(1));
        assert_eq!(select(&[ready(0), failing(16)], false), Selection::Use(0));
        assert_eq!(select(&[ready(16)], false), Selection::Full);
    }

    #[test]
    fn at_least_one_shard_is_active_and_at_most_all() {
        assert_eq!(active_set_size(10, 0.5), 5);
        assert_eq!(active_set_size(4, 0.5), 2);
        assert_eq!(active_set_size(3, 0.5), 2);
        assert_eq!(active_set_size(1, 0.0), 1);
        assert_eq!(active_set_size(0, 0.5), 1);
        assert_eq!(active_set_size(7, 1.0), 7);
    }

    #[test]
    fn three_quarters_in_use_ask_for_another_shard() {
        assert!(!should_scale_up([ready(12), ready(12)].into_iter(), 0.75));
        assert!(should_scale_up([ready(12), ready(13)].into_iter(), 0.75));
        assert!(!should_scale_up(std::iter::empty(), 0.75));
    }
}
