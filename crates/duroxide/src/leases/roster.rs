//! Group membership by heartbeats: which processes there are, and which slots are whose. Pure: the time comes in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sidereal_protocol::Etag;

use super::{ALL_SLOTS, Slots};
use crate::documents::kinds;

/// The partition and the id of the document that the processes of a container meet in.
pub(crate) const PARTITION: &str = crate::ids::LEASES_PARTITION;
pub(crate) const ID: &str = "roster";

/// Processes by their names.
pub(crate) type Members = BTreeMap<String, Member>;

/// A process that looks after slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Member {
    /// When its lease ends, in milliseconds since 1970.
    pub(crate) until: i64,
    /// The kinds of work that it does.
    #[serde(flatten)]
    pub(crate) roles: Roles,
}

/// The kinds of work that a process does: one without workers leaves activities to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Roles {
    pub(crate) orchestrations: bool,
    pub(crate) activities: bool,
}

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Orchestrations,
    Activities,
}

impl Roles {
    pub(crate) fn has(self, role: Role) -> bool {
        match role {
            Role::Orchestrations => self.orchestrations,
            Role::Activities => self.activities,
        }
    }

    pub(crate) fn with(mut self, role: Role) -> Self {
        match role {
            Role::Orchestrations => self.orchestrations = true,
            Role::Activities => self.activities = true,
        }
        self
    }
}

/// The processes that look after a container's slots, each until a time that it keeps extending.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RosterDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) members: Members,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

impl RosterDocument {
    /// With one process.
    pub(crate) fn of(name: &str, member: Member) -> Self {
        Self {
            id: ID.to_owned(),
            instance_id: PARTITION.to_owned(),
            kind: kinds::LEASES.to_owned(),
            members: Members::from([(name.to_owned(), member)]),
            etag: None,
        }
    }
}

/// The view of a process of the others.
#[derive(Clone, Debug, Default)]
pub(crate) struct RosterView {
    members: Members,
    shares: [Shares; 2],
}

/// The shares of a process in one role.
#[derive(Clone, Debug, Default)]
struct Shares {
    current: Option<Slots>,
    /// Those that it has given up lately, and until when it still looks after them: the others may not have heard
    /// yet that they are theirs.
    given_up: Vec<(Slots, i64)>,
}

impl RosterView {
    /// Takes note of who there is.
    pub(crate) fn learn(&mut self, members: Members) {
        self.members = members;
    }

    /// The slots that a process looks after in a role. Those that it had before it still does for a while.
    pub(crate) fn slots(&mut self, me: &str, role: Role, now: i64, overlap: i64) -> Slots {
        let share = share(&self.members, me, role, now);
        let shares = &mut self.shares[role as usize];
        if let Some(before) = shares.current.filter(|before| *before != share) {
            shares.given_up.push((before, now.saturating_add(overlap)));
        }
        shares.current = Some(share);
        shares.given_up.retain(|(_, until)| *until > now);
        shares.given_up.iter().fold(share, |all, (slots, _)| all.union(*slots))
    }

    /// Whether others have leases.
    pub(crate) fn has_others(&self, me: &str, now: i64) -> bool {
        self.members.iter().any(|(name, member)| name != me && member.until > now)
    }

    /// Members whose leases ended long ago: they can be left out.
    pub(crate) fn gone(&self, now: i64, lease: i64) -> impl Iterator<Item = &str> {
        let is_gone =
            move |(_, member): &(&String, &Member)| member.until.saturating_add(lease) < now;
        self.members.iter().filter(is_gone).map(|(name, _)| name.as_str())
    }
}

/// The share of a process in a role: slots are dealt out to those that have it and whose leases have not ended, in the
/// order of their names. One that the others do not know yet looks after everything.
fn share(members: &Members, me: &str, role: Role, now: i64) -> Slots {
    let is_live = |(name, member): &(&String, &Member)| {
        member.roles.has(role) && (member.until > now || name.as_str() == me)
    };
    let live: Vec<&str> = members.iter().filter(is_live).map(|(name, _)| name.as_str()).collect();
    match live.iter().position(|name| *name == me) {
        Some(index) => ALL_SLOTS.share(index, live.len()),
        None => ALL_SLOTS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: i64 = 30_000;
    const BEAT: i64 = 10_000;
    const OVERLAP: i64 = 15_000;

    const BOTH: Roles = Roles { orchestrations: true, activities: true };

    fn members(of: &[(&str, i64)]) -> Members {
        let member = |(name, until): &(&str, i64)| {
            ((*name).to_owned(), Member { until: *until, roles: BOTH })
        };
        of.iter().map(member).collect()
    }

    fn share_of(members: &Members, me: &str, now: i64) -> Slots {
        share(members, me, Role::Orchestrations, now)
    }

    #[test]
    fn slots_are_dealt_out_evenly_to_those_whose_leases_last() {
        let all = members(&[("a", 100), ("b", 100), ("c", 50)]);
        let sizes = ["a", "b", "c"].map(|me| share_of(&all, me, 10).iter().count());
        assert_eq!(sizes, [86, 85, 85]);
        let left = ["a", "b"].map(|me| share_of(&all, me, 50).iter().count());
        assert_eq!(left, [128, 128], "the lease of c has ended");
        assert!(share_of(&all, "new", 10).is_all(), "it is not known yet");
    }

    #[test]
    fn a_process_without_workers_leaves_activities_to_the_others() {
        let mut all = members(&[("a", 100), ("b", 100)]);
        all.get_mut("b").unwrap().roles.activities = false;
        assert!(share(&all, "a", Role::Activities, 10).is_all());
        assert_eq!(share(&all, "a", Role::Orchestrations, 10).iter().count(), 128);
    }

    #[test]
    fn what_ended_long_ago_is_left_out() {
        let mut view = RosterView::default();
        view.learn(members(&[("a", 100_000), ("b", 100), ("c", 60_000)]));
        assert_eq!(view.gone(61_000, LEASE).collect::<Vec<_>>(), ["b"]);
    }

    /// A process of the model: it hears of the others at its heartbeats.
    struct Process {
        name: &'static str,
        view: RosterView,
        next_beat: i64,
        is_alive: bool,
    }

    /// Runs processes that come, go and die at any time of a script, and heartbeat at any phase.
    fn run(phases: [i64; 3], second_joins: i64, third_joins: i64, dies: Option<(usize, i64)>) {
        let mut roster = Members::new();
        let joins = [0, second_joins, third_joins];
        let mut processes: Vec<Process> = Vec::new();
        for now in (0..120_000).step_by(500) {
            for (index, name) in ["a", "b", "c"].into_iter().enumerate() {
                if joins[index] == now {
                    let next_beat = now;
                    processes.push(Process {
                        name,
                        view: RosterView::default(),
                        next_beat,
                        is_alive: true,
                    });
                }
            }
            if let Some((index, at)) = dies
                && at == now
                && let Some(process) = processes.get_mut(index)
            {
                process.is_alive = false;
            }
            for (process, phase) in processes.iter_mut().zip(phases).filter(|(it, _)| it.is_alive) {
                if now >= process.next_beat {
                    roster.insert(
                        process.name.to_owned(),
                        Member { until: now + LEASE, roles: BOTH },
                    );
                    process.view.learn(roster.clone());
                    process.next_beat = now + BEAT - phase;
                }
            }
            let attended = processes.iter_mut().filter(|it| it.is_alive).fold(
                Slots::default(),
                |all, process| {
                    all.union(process.view.slots(process.name, Role::Orchestrations, now, OVERLAP))
                },
            );
            // A process that died is missed when its lease ends.
            let is_missed = dies.is_some_and(|(_, at)| (at..=at + LEASE).contains(&now));
            assert!(
                attended.is_all() || is_missed,
                "{now}: {phases:?}, {second_joins}, {third_joins}, {dies:?}"
            );
        }
    }

    #[test]
    fn every_slot_is_attended_however_processes_come_and_learn_of_each_other() {
        for phases in [[0, 0, 0], [0, 3_000, 6_000], [6_000, 0, 3_000], [1_500, 500, 0]] {
            for second_joins in (500..20_000).step_by(1_500) {
                for third_joins in (1_000..20_000).step_by(3_500) {
                    run(phases, second_joins, third_joins, None);
                }
            }
        }
    }

    #[test]
    fn the_slots_of_a_process_that_dies_are_attended_within_its_lease() {
        for dies in (30_000..50_000).step_by(2_500) {
            for index in 0..3 {
                run([0, 3_000, 6_000], 500, 1_000, Some((index, dies)));
            }
        }
    }
}
