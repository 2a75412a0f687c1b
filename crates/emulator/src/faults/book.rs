//! The rules in force: whether one of them applies to a request, and how often each did.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use sidereal_protocol::{RegionName, ResourceType};

use super::generator::Generator;
use super::rule::{FaultCondition, FaultEffect, FaultRule};
use crate::clock::Timestamp;
use crate::operation::Operation;

/// The rules that an account may have at once.
const MAX_RULES: usize = 1000;

/// What is known of a request before it is worked on.
#[derive(Clone, Debug)]
pub(crate) struct Facts<'a> {
    pub(crate) region: &'a RegionName,
    pub(crate) operation: Operation,
    pub(crate) resource: Option<ResourceType>,
    /// `database/container`.
    pub(crate) container: Option<String>,
    pub(crate) range: Option<String>,
    pub(crate) item: Option<String>,
    pub(crate) headers: &'a HeaderMap,
}

/// The rules of an account, shared by all that work for it.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Whether there are rules at all: all that a request pays where there are none.
    any: AtomicBool,
    book: Mutex<RuleBook>,
}

impl Faults {
    /// Whether a request has to be looked at.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// What happens to a request, if anything does.
    pub(crate) fn decide(&self, facts: &Facts<'_>, now: Timestamp) -> Option<FaultEffect> {
        self.book().decide(facts, now)
    }

    /// Puts a rule in force; answers with its name.
    pub(crate) fn add(&self, rule: FaultRule) -> Result<String, InvalidFault> {
        self.change(|book| book.add(rule))
    }

    /// Takes a rule out; `false` where there is none of that name.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.change(|book| {
            let before = book.rules.len();
            book.rules.retain(|tracked| tracked.rule.name != name);
            book.rules.len() < before
        })
    }

    /// Takes all rules out; answers with how many there were.
    pub(crate) fn clear(&self) -> usize {
        self.change(|book| book.rules.drain(..).count())
    }

    /// The rules, in the order in which they are asked.
    pub(crate) fn reports(&self) -> Vec<FaultReport> {
        self.book().rules.iter().map(Tracked::report).collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut RuleBook) -> T) -> T {
        let mut book = self.book();
        let changed = change(&mut book);
        self.any.store(!book.rules.is_empty(), Ordering::Relaxed);
        changed
    }

    fn book(&self) -> MutexGuard<'_, RuleBook> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rule and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// The rule.
    pub rule: FaultRule,
    /// How many requests its condition held for, the occurrence aside, while it applied.
    pub matches: u64,
    /// How often it took effect.
    pub hits: u64,
}

/// A rule that cannot be put in force; the text says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFault(String);

impl fmt::Display for InvalidFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidFault {}

/// The rules, in the order in which they are asked.
#[derive(Debug, Default)]
pub(super) struct RuleBook {
    rules: Vec<Tracked>,
    /// How many were ever added: the next made-up name.
    added: u64,
}

/// A rule, its draws and its counts.
#[derive(Debug)]
struct Tracked {
    rule: FaultRule,
    generator: Generator,
    matches: u64,
    hits: u64,
}

impl RuleBook {
    /// What happens to a request. Every rule counts its matches, whichever takes effect: the n-th match
    /// of a rule does not depend on what other rules there are. The first that takes effect wins.
    pub(super) fn decide(&mut self, facts: &Facts<'_>, now: Timestamp) -> Option<FaultEffect> {
        let mut decided = None;
        for tracked in &mut self.rules {
            if tracked.is_due(facts, now) && decided.is_none() {
                tracked.hits += 1;
                decided = Some(tracked.rule.effect.clone());
            }
        }
        decided
    }

    fn add(&mut self, mut rule: FaultRule) -> Result<String, InvalidFault> {
        check(&rule).map_err(InvalidFault)?;
        if self.rules.len() >= MAX_RULES {
            return Err(InvalidFault(format!("there are {MAX_RULES} rules: remove one first")));
        }
        self.added += 1;
        if rule.name.is_empty() {
            rule.name = format!("fault-{}", self.added);
        }
        if self.rules.iter().any(|tracked| tracked.rule.name == rule.name) {
            let message = format!("there is a rule {}: remove it, or name another", rule.name);
            return Err(InvalidFault(message));
        }
        let name = rule.name.clone();
        let generator = Generator::new(rule.seed);
        self.rules.push(Tracked { rule, generator, matches: 0, hits: 0 });
        Ok(name)
    }
}

impl Tracked {
    /// Whether the rule would take effect on this request; counts the match and draws.
    fn is_due(&mut self, facts: &Facts<'_>, now: Timestamp) -> bool {
        let rule = &self.rule;
        let applies = rule.start.is_none_or(|start| start <= now)
            && rule.end.is_none_or(|end| now < end)
            && holds(&rule.condition, facts);
        if !applies {
            return false;
        }
        self.matches += 1;
        rule.condition.occurrence.is_none_or(|which| which.includes(self.matches))
            && self.generator.fraction() < rule.probability
            && rule.hit_limit.is_none_or(|limit| self.hits < limit)
    }

    fn report(&self) -> FaultReport {
        FaultReport { rule: self.rule.clone(), matches: self.matches, hits: self.hits }
    }
}

/// Whether every part that a condition gives holds, the occurrence aside.
fn holds(condition: &FaultCondition, facts: &Facts<'_>) -> bool {
    let FaultCondition {
        region,
        operation,
        resource,
        metadata,
        container,
        range,
        item,
        header,
        occurrence: _,
    } = condition;
    let is_metadata = facts.resource.is_some_and(ResourceType::is_metadata);
    let names = |wanted: &Option<String>, found: &Option<String>| {
        wanted.is_none() || wanted.as_deref() == found.as_deref()
    };
    region.as_ref().is_none_or(|region| region == facts.region)
        && operation.is_none_or(|operation| operation == facts.operation)
        && resource.is_none_or(|resource| Some(resource) == facts.resource)
        && metadata.is_none_or(|metadata| metadata == is_metadata)
        && names(container, &facts.container)
        && range.as_ref().is_none_or(|range| Some(range.as_str()) == facts.range.as_deref())
        && names(item, &facts.item)
        && header.as_ref().is_none_or(|header| {
            facts.headers.get_all(header.name.as_str()).iter().any(|found| {
                header.value.as_ref().is_none_or(|value| value.as_bytes() == found.as_bytes())
            })
        })
}

/// What a rule must be for it to mean anything.
fn check(rule: &FaultRule) -> Result<(), String> {
    if !(0.0..=1.0).contains(&rule.probability) {
        return Err(format!("the probability {} is not between 0 and 1", rule.probability));
    }
    if let FaultEffect::Answer { status, .. } = rule.effect
        && !(200..=599).contains(&status)
    {
        return Err(format!("{status} is not the status of an answer: give one from 200 to 599"));
    }
    if let (Some(start), Some(end)) = (rule.start, rule.end)
        && end <= start
    {
        return Err("the rule ends before it starts: give an end after the start".to_owned());
    }
    if rule.name.contains('/') {
        return Err("a rule's name cannot contain a slash".to_owned());
    }
    if let Some(container) = &rule.condition.container
        && container.split('/').filter(|name| !name.is_empty()).count() != 2
    {
        return Err(format!("\"{container}\" is not a container: write database/container"));
    }
    if let Some(header) = &rule.condition.header
        && HeaderName::try_from(&header.name).is_err()
    {
        return Err(format!("\"{}\" is not the name of a header", header.name));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
