//! Which processes are gone, as far as this one has seen for itself. Pure: the time comes in.
//!
//! A lease that was not extended proves nothing while the account does not answer: a process is gone only if this one has
//! extended its own lease all the while, for a whole lease, and did not see the other do so.

use std::collections::HashMap;

use super::roster::Members;

/// How long processes that are gone are remembered after they were left out of the roster: longer than their locks last.
const REMEMBERED_MS: i64 = 600_000;

/// The most processes that are remembered as gone.
const MAX_GONE: usize = 100;

/// The leases of other processes, as this one has seen them.
#[derive(Debug, Default)]
pub(super) struct Witness {
    others: HashMap<String, Seen>,
}

/// The lease of another process.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Its end, as the other has written it.
    until: i64,
    /// Since when it was seen unchanged, with every heartbeat of this process in between; none after a failed one.
    since: Option<i64>,
    is_gone: bool,
    /// When it was in the roster last.
    last: i64,
}

impl Witness {
    /// Records the roster that a heartbeat of this process was answered with.
    pub(super) fn saw(&mut self, me: &str, members: &Members, now: i64, lease: i64) {
        for (name, member) in members.iter().filter(|(name, _)| *name != me) {
            let new = Seen { until: member.until, since: Some(now), is_gone: false, last: now };
            let seen = self.others.entry(name.clone()).or_insert(new);
            if seen.until != member.until {
                *seen = new;
                continue;
            }
            seen.last = now;
            let since = *seen.since.get_or_insert(now);
            seen.is_gone |= now >= since.saturating_add(lease) && now >= seen.until;
        }
        self.others.retain(|_, seen| {
            let is_remembered = seen.is_gone && now < seen.last.saturating_add(REMEMBERED_MS);
            is_remembered || seen.last == now
        });
    }

    /// Records that a heartbeat of this process has failed: others may have failed too.
    pub(super) fn missed(&mut self) {
        self.others.values_mut().for_each(|seen| seen.since = None);
    }

    /// The processes that are gone.
    pub(super) fn gone(&self) -> Vec<String> {
        let mut gone: Vec<(&String, i64)> = self
            .others
            .iter()
            .filter(|(_, seen)| seen.is_gone)
            .map(|(name, seen)| (name, seen.last))
            .collect();
        // The last ones have locks that last longest.
        gone.sort_unstable_by_key(|(_, last)| std::cmp::Reverse(*last));
        gone.into_iter().take(MAX_GONE).map(|(name, _)| name.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::roster::{Member, Roles};
    use super::*;

    const LEASE: i64 = 9_000;

    fn members(of: &[(&str, i64)]) -> Members {
        let member = |until| Member { until, roles: Roles::default() };
        of.iter().map(|(name, until)| ((*name).to_owned(), member(*until))).collect()
    }

    #[test]
    fn a_process_is_gone_that_was_not_seen_for_a_whole_lease() {
        let mut witness = Witness::default();
        let roster = members(&[("me", 0), ("other", 10_000)]);
        for now in [1_000, 4_000, 7_000] {
            witness.saw("me", &roster, now, LEASE);
            assert!(witness.gone().is_empty(), "{now}");
        }
        witness.saw("me", &roster, 10_000, LEASE);
        assert_eq!(witness.gone(), ["other"]);
        witness.saw("me", &members(&[("me", 0)]), 20_000, LEASE);
        assert_eq!(witness.gone(), ["other"], "it was left out of the roster, and has locks still");
        witness.saw("me", &members(&[("me", 0)]), 20_000 + REMEMBERED_MS, LEASE);
        assert!(witness.gone().is_empty());
    }

    #[test]
    fn a_process_that_extends_its_lease_or_left_is_not_gone() {
        let mut witness = Witness::default();
        for now in (0..60_000).step_by(3_000) {
            witness.saw("me", &members(&[("other", now + LEASE)]), now, LEASE);
        }
        assert!(witness.gone().is_empty());
        for now in (60_000..90_000).step_by(3_000) {
            witness.saw("me", &Members::new(), now, LEASE);
        }
        assert!(witness.gone().is_empty(), "it has left");
    }

    /// An outage frees no locks: no process could extend its lease.
    #[test]
    fn no_process_is_gone_because_of_an_outage() {
        let mut witness = Witness::default();
        let roster = members(&[("other", 5_000)]);
        witness.saw("me", &roster, 1_000, LEASE);
        witness.missed();
        witness.missed();
        witness.saw("me", &roster, 31_000, LEASE);
        assert!(witness.gone().is_empty(), "it has a whole lease to show itself");
        witness.saw("me", &roster, 39_000, LEASE);
        assert!(witness.gone().is_empty());
        witness.saw("me", &roster, 40_000, LEASE);
        assert_eq!(witness.gone(), ["other"]);
    }

    #[test]
    fn a_process_that_comes_back_is_not_gone_any_more() {
        let mut witness = Witness::default();
        witness.saw("me", &members(&[("other", 5_000)]), 1_000, LEASE);
        witness.saw("me", &members(&[("other", 5_000)]), 10_000, LEASE);
        assert_eq!(witness.gone(), ["other"]);
        witness.saw("me", &members(&[("other", 22_000)]), 13_000, LEASE);
        assert!(witness.gone().is_empty());
    }
}
