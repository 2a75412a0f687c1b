//! Interleavings: the provider's planning functions, explored on a container that is a value.
//!
//! Two processes fetch, commit, claim, finish and deliver; locks expire, requests and answers are lost, processes die
//! and an instance is deleted, at any step and in any order, to a depth. In every state nothing has happened twice and no
//! turn was committed by a holder that had lost its lock; from every state, once nothing goes wrong any more, everything
//! comes to its end and nothing is lost.

mod container;
mod world;

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

use container::Mutation;
use world::{Action, Fate, Left, RECEIVER, SENDER, World};

/// How far an exploration went.
#[derive(Debug)]
struct Explored {
    states: usize,
    /// How many states were reached by a batch that has locked a turn beside what else it did.
    locked_by_others: usize,
    violation: Option<String>,
}

/// Explores every sequence of a number of steps from the beginning.
fn explore(left: Left, depth: usize, mutation: Mutation) -> Explored {
    explore_from(World::new(left), left, depth, mutation)
}

/// Explores every sequence of steps from a later state.
fn explore_from(from: World, left: Left, depth: usize, mutation: Mutation) -> Explored {
    let hasher = RandomState::new();
    let mut seen = HashSet::new();
    let (mut level, mut settled) = (vec![from], HashSet::new());
    let mut locked_by_others = 0;
    for _ in 0..depth {
        let mut next_level = Vec::new();
        for world in &level {
            for action in world.actions() {
                let Some(next) = world.after(&action, mutation) else { continue };
                if !seen.insert(hasher.hash_one(&next)) {
                    continue;
                }
                // What becomes of a state depends on the container alone.
                let is_new = settled.insert(hasher.hash_one(next.clone().without_trouble()));
                if let Some(violation) = check(&next, is_new, left, mutation) {
                    let violation = Some(format!("{action:?}: {violation}"));
                    return Explored { states: seen.len(), locked_by_others, violation };
                }
                locked_by_others += usize::from(next.goes_on(&action));
                next_level.push(next);
            }
        }
        level = next_level;
    }
    Explored { states: seen.len(), locked_by_others, violation: None }
}

/// The violation of an invariant by a state or its successors.
fn check(world: &World, is_new: bool, left: Left, mutation: Mutation) -> Option<String> {
    if let Some(violation) = world.violation.clone().or_else(|| happened_twice(world)) {
        return Some(violation);
    }
    if !is_new {
        return None;
    }
    let settled = settle(world.clone().without_trouble(), mutation);
    if let Some(violation) = settled.violation.clone().or_else(|| happened_twice(&settled)) {
        return Some(format!("in the end, {violation}"));
    }
    lost(&settled, left.deletions > 0)
}

fn happened_twice(world: &World) -> Option<String> {
    for instance in [SENDER, RECEIVER] {
        let mut noted = world.noted(instance);
        let count = noted.len();
        noted.sort();
        noted.dedup();
        if noted.len() < count {
            return Some(format!(
                "{instance} has noted something twice: {:?}",
                world.noted(instance)
            ));
        }
        let ids = world.event_ids(instance);
        if ids.iter().zip(1..).any(|(id, expected)| *id != expected) {
            return Some(format!("the history of {instance} has a gap: {ids:?}"));
        }
    }
    None
}

/// The violation in a final state, where nothing is left to be done.
fn lost(settled: &World, may_be_deleted: bool) -> Option<String> {
    let (sender, receiver) = (settled.noted(SENDER), settled.noted(RECEIVER));
    let has = |noted: &[String], what: &str| noted.iter().any(|it| it == what);
    if !has(&sender, "started") || !has(&sender, "cancel") {
        return Some(format!("the sender has lost a message: {sender:?}"));
    }
    let is_whole = has(&receiver, "started") && has(&receiver, "sent");
    if !is_whole && !may_be_deleted {
        return Some(format!("the receiver has lost a message: {receiver:?}"));
    }
    (!may_be_deleted && settled.has_work()).then(|| "something is left to be done".to_owned())
}

/// Lets everything come to its end: one process does what there is, and nothing goes wrong.
fn settle(mut world: World, mutation: Mutation) -> World {
    for _ in 0..12 {
        let mut actions = vec![
            Action::Tell,
            Action::Deliver(0, Fate::Answered),
            Action::Forget(0),
            Action::Claim(0, Fate::Answered),
            Action::Finish(0, Fate::Answered),
        ];
        for instance in [SENDER, RECEIVER] {
            actions.push(Action::View(0, instance));
            actions.push(Action::Lock(0, Fate::Answered));
            actions.push(Action::Commit(0, Fate::Answered));
        }
        for action in actions {
            world = world.after(&action, mutation).unwrap_or(world);
        }
        if world.is_quiet() && !world.has_work() {
            break;
        }
    }
    world
}

/// How many steps more are explored with `SIDEREAL_EXHAUSTIVE`, which takes minutes.
fn further() -> usize {
    if std::env::var_os("SIDEREAL_EXHAUSTIVE").is_some() { 2 } else { 0 }
}

#[test]
fn nothing_is_lost_and_nothing_happens_twice_in_any_order_of_events() {
    for (left, depth) in [
        (Left { expiries: 1, losses: 1, deletions: 0 }, 6),
        (Left { expiries: 2, losses: 2, deletions: 0 }, 5),
        (Left { expiries: 1, losses: 1, deletions: 1 }, 5),
    ] {
        let depth = depth + further();
        let explored = explore(left, depth, Mutation::None);
        println!("{left:?}, {depth} steps: {} states", explored.states);
        assert_eq!(explored.violation, None);
    }
}

/// Explores from the end of a failure-free prefix, with a turn that another batch has locked.
fn explore_after(prefix: &[Action]) {
    let depth = 4 + further();
    for left in [
        Left { expiries: 1, losses: 1, deletions: 0 },
        Left { expiries: 1, losses: 0, deletions: 1 },
    ] {
        let from = prefix.iter().fold(World::new(left), |world, action| {
            world.after(action, Mutation::None).expect("the prefix can happen")
        });
        let explored = explore_from(from, left, depth, Mutation::None);
        let Explored { states, locked_by_others, violation } = explored;
        println!("{left:?}: {states} states, {locked_by_others} of them locked by another batch");
        assert_eq!(violation, None);
        assert!(locked_by_others > 0);
    }
}

#[test]
fn a_commit_that_locks_the_next_turn_loses_nothing_and_does_nothing_twice() {
    // Each process works on an instance, and the receiver's has been told something meanwhile.
    let prefix = [
        Action::View(1, RECEIVER),
        Action::Lock(1, Fate::Answered),
        Action::View(0, SENDER),
        Action::Lock(0, Fate::Answered),
        Action::Commit(0, Fate::Answered),
        Action::Deliver(0, Fate::Answered),
    ];
    explore_after(&prefix);
}

#[test]
fn an_end_that_locks_its_turn_loses_and_repeats_nothing() {
    // The sender runs, and a worker has its activity.
    let prefix = [
        Action::View(0, SENDER),
        Action::Lock(0, Fate::Answered),
        Action::Commit(0, Fate::Answered),
        Action::Claim(1, Fate::Answered),
    ];
    explore_after(&prefix);
}

#[test]
fn commits_without_a_condition_on_the_etag_are_found_out() {
    let left = Left { expiries: 1, losses: 0, deletions: 0 };
    let explored = explore(left, 7, Mutation::NoIfMatch);
    println!("{} states: {:?}", explored.states, explored.violation);
    assert!(explored.violation.is_some());
}

#[test]
fn messages_that_leave_no_tombstone_are_found_out() {
    let left = Left { expiries: 0, losses: 0, deletions: 0 };
    let explored = explore(left, 10, Mutation::NoTombstone);
    println!("{} states: {:?}", explored.states, explored.violation);
    assert!(explored.violation.is_some());
}
