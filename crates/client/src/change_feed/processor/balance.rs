//! Which leases a worker should take. Pure.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A lease as a worker sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) owner: Option<String>,
    /// It was not renewed for as long as it lasts.
    pub(super) is_expired: bool,
}

impl Seen {
    /// Who has it.
    fn holder(&self) -> Option<&str> {
        self.owner.as_deref().filter(|_| !self.is_expired)
    }
}

/// The ids of the leases that a worker should take now.
///
/// A worker's share is the number of leases by the number of workers that have one, itself included, rounded up: all
/// shares together cover all leases, so none stays free. Free leases are taken up to the share. Where there is none
/// free, one is taken from the worker that has the most, if it has at least two more: fewer would only turn the
/// imbalance around. One at a time, for others may be about to do the same.
pub(super) fn balance(leases: &[Seen], me: &str) -> Vec<String> {
    let mut held: BTreeMap<&str, Vec<&Seen>> = BTreeMap::from([(me, Vec::new())]);
    for lease in leases {
        if let Some(holder) = lease.holder() {
            held.entry(holder).or_default().push(lease);
        }
    }
    let share = leases.len().div_ceil(held.len());
    let mine = held[me].len();
    let mut free: Vec<&Seen> = leases.iter().filter(|it| it.holder().is_none()).collect();
    // Each worker in an order of its own, so that those that look at the same moment do not want the same.
    free.sort_by_key(|lease| rank(me, &lease.id));
    let wanted = share.saturating_sub(mine);
    if wanted == 0 || !free.is_empty() {
        return free.into_iter().take(wanted).map(|it| it.id.clone()).collect();
    }
    let richest = held.iter().filter(|(owner, _)| **owner != me).max_by_key(|(_, held)| held.len());
    let from = richest.filter(|(_, held)| held.len() >= mine + 2);
    let stolen = from.and_then(|(_, held)| held.iter().min_by_key(|it| rank(me, &it.id)));
    stolen.map(|it| it.id.clone()).into_iter().collect()
}

fn rank(me: &str, id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (me, id).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn leases(owners: &[Option<&str>]) -> Vec<Seen> {
        let lease = |(number, owner): (usize, &Option<&str>)| Seen {
            id: format!("lease {number}"),
            owner: owner.map(str::to_owned),
            is_expired: false,
        };
        owners.iter().enumerate().map(lease).collect()
    }

    #[test]
    fn a_worker_alone_takes_all_that_is_free() {
        assert_eq!(balance(&leases(&[None; 5]), "a").len(), 5);
        assert_eq!(balance(&[], "a"), Vec::<String>::new());
    }

    #[test]
    fn a_worker_takes_its_share_of_what_is_free() {
        let seen = leases(&[Some("a"), Some("a"), None, None, None, None]);
        assert_eq!(balance(&seen, "b").len(), 3);
        assert_eq!(balance(&seen, "a").len(), 4, "nobody else has shown up");
    }

    #[test]
    fn a_lease_that_was_not_renewed_is_free_and_its_owner_does_not_count() {
        let mut seen = leases(&[Some("a"), Some("dead"), Some("dead")]);
        assert_eq!(balance(&seen, "a"), Vec::<String>::new());
        seen[1].is_expired = true;
        seen[2].is_expired = true;
        let taken: BTreeSet<String> = balance(&seen, "a").into_iter().collect();
        assert_eq!(taken, BTreeSet::from(["lease 1".to_owned(), "lease 2".to_owned()]));
    }

    #[test]
    fn one_lease_is_taken_from_whoever_has_the_most_if_that_helps() {
        let seen = leases(&[Some("a"), Some("a"), Some("a"), Some("b"), Some("b")]);
        let stolen = balance(&seen, "c");
        assert_eq!(stolen.len(), 1);
        let from = seen.iter().find(|it| it.id == stolen[0]).unwrap();
        assert_eq!(from.owner.as_deref(), Some("a"));
        let even = leases(&[Some("a"), Some("a"), Some("b"), Some("b"), Some("c")]);
        assert_eq!(balance(&even, "c"), Vec::<String>::new());
        assert_eq!(balance(&leases(&[Some("a")]), "b"), Vec::<String>::new());
    }

    proptest! {
        /// However leases are spread, workers that take turns end with all of them held and no two further apart
        /// than one.
        #[test]
        fn workers_that_take_turns_come_to_rest_evenly(
            owners in prop::collection::vec(prop::option::of(0_usize..5), 0..30),
            workers in 1_usize..5,
        ) {
            let name = |number: usize| format!("worker {number}");
            let mut seen: Vec<Seen> = owners.iter().enumerate().map(|(number, owner)| Seen {
                id: format!("lease {number}"),
                owner: owner.map(name),
                // Of workers that are no longer there.
                is_expired: owner.is_some_and(|owner| owner >= workers),
            }).collect();
            for _ in 0..200 {
                for worker in 0..workers {
                    for id in balance(&seen, &name(worker)) {
                        let lease = seen.iter_mut().find(|it| it.id == id).unwrap();
                        (lease.owner, lease.is_expired) = (Some(name(worker)), false);
                    }
                }
            }
            let held = |worker: usize| seen.iter().filter(|it| it.holder() == Some(&name(worker))).count();
            let counts: Vec<usize> = (0..workers).map(held).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), seen.len());
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", counts);
        }
    }
}
