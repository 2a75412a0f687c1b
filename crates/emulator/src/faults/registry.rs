//! The registry of fault rules: whether one of them applies to a request, and how often each did.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use sidereal_protocol::{RegionName, ResourceType};

use super::generator::Generator;
use super::rule::{FaultCondition, FaultEffect, FaultRule};
use crate::clock::Timestamp;
use crate::operation::Operation;

/// The rules that an account may have at once: every request is compared with each of them under a lock.
const MAX_RULES: usize = 1000;

/// The attributes of a request that rules can match on, known before it is processed.
#[derive(Clone, Debug)]
pub(crate) struct RequestAttributes<'a> {
    pub(crate) region: &'a RegionName,
    pub(crate) operation: Operation,
    pub(crate) resource: Option<ResourceType>,
    /// Database and container.
    pub(crate) container: Option<(&'a str, &'a str)>,
    pub(crate) range: Option<String>,
    pub(crate) item: Option<String>,
    pub(crate) headers: &'a HeaderMap,
}

/// The fault rules of an account, shared by all threads that work for it.
#[derive(Debug, Default)]
pub(crate) struct FaultRegistry {
    /// How many rules there are, readable without the lock: all that a request pays where there are none.
    count: AtomicUsize,
    rules: Mutex<RuleList>,
}

impl FaultRegistry {
    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed: a rule applies to requests that begin after `add` has returned. A client that sends one learnt
        // of that through a channel of its own (a join, a socket), which orders the store before this load.
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The effect of the first rule that applies to a request.
    pub(crate) fn decide(
        &self,
        attributes: &RequestAttributes<'_>,
        now: Timestamp,
    ) -> Option<FaultEffect> {
        self.rules().decide(attributes, now)
    }

    /// Adds a rule and returns its name.
    pub(crate) fn add(&self, rule: FaultRule) -> Result<String, InvalidFault> {
        self.change(|list| list.add(rule))
    }

    /// Removes a rule; `false` where there is none of that name.
    pub(crate) fn remove(&self, name: &str) -> bool {
        self.change(|list| {
            let before = list.rules.len();
            list.rules.retain(|tracked| tracked.rule.name != name);
            list.rules.len() < before
        })
    }

    /// Removes all rules and returns how many there were.
    pub(crate) fn clear(&self) -> usize {
        self.change(|list| list.rules.drain(..).count())
    }

    /// The rules, in the order in which they are evaluated.
    pub(crate) fn reports(&self) -> Vec<FaultReport> {
        self.rules().rules.iter().map(Tracked::report).collect()
    }

    fn change<T>(&self, change: impl FnOnce(&mut RuleList) -> T) -> T {
        let mut list = self.rules();
        let changed = change(&mut list);
        // Stored under the lock, so that the count of the last change is the one that stays.
        // Relaxed: see `is_empty`; readers that need the rules themselves take the lock.
        self.count.store(list.rules.len(), Ordering::Relaxed);
        changed
    }

    fn rules(&self) -> MutexGuard<'_, RuleList> {
        // A panic while rules are evaluated leaves counts at most one short: a poisoned lock is ignored.
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A rule with its statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultReport {
    /// The rule.
    pub rule: FaultRule,
    /// How many requests its condition held for, the occurrence aside, while it applied.
    pub matches: u64,
    /// How often it took effect.
    pub hits: u64,
}

/// A rule that cannot be added; the text says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidFault(pub(crate) String);

impl fmt::Display for InvalidFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for InvalidFault {}

/// The rules, in the order in which they are evaluated.
#[derive(Debug, Default)]
pub(super) struct RuleList {
    rules: Vec<Tracked>,
    /// How many were ever added: the number in the next generated name.
    added: u64,
}

/// A rule, its random number generator and its counts.
#[derive(Debug)]
struct Tracked {
    rule: FaultRule,
    generator: Generator,
    matches: u64,
    hits: u64,
}

impl RuleList {
    /// The effect on a request: the first rule that applies wins. Every rule counts its matches, whichever
    /// takes effect, so the n-th match of a rule does not depend on what other rules there are.
    pub(super) fn decide(
        &mut self,
        attributes: &RequestAttributes<'_>,
        now: Timestamp,
    ) -> Option<FaultEffect> {
        let mut decided = None;
        for tracked in &mut self.rules {
            if tracked.is_due(attributes, now) && decided.is_none() {
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
    /// Whether the rule would take effect on this request; counts the match and draws a random number.
    fn is_due(&mut self, attributes: &RequestAttributes<'_>, now: Timestamp) -> bool {
        let rule = &self.rule;
        let applies = rule.start.is_none_or(|start| start <= now)
            && rule.end.is_none_or(|end| now < end)
            && holds(&rule.condition, attributes);
        if !applies {
            return false;
        }
        // Counted before the draw: the n-th match is the same whatever the probability.
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
fn holds(condition: &FaultCondition, attributes: &RequestAttributes<'_>) -> bool {
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
    let is_metadata = attributes.resource.is_some_and(ResourceType::is_metadata);
    region.as_ref().is_none_or(|region| region == attributes.region)
        && operation.is_none_or(|operation| operation == attributes.operation)
        && resource.is_none_or(|resource| Some(resource) == attributes.resource)
        && metadata.is_none_or(|metadata| metadata == is_metadata)
        && container.as_ref().is_none_or(|wanted| wanted.split_once('/') == attributes.container)
        && range.as_ref().is_none_or(|range| Some(range.as_str()) == attributes.range.as_deref())
        && item.as_ref().is_none_or(|item| Some(item) == attributes.item.as_ref())
        && header.as_ref().is_none_or(|header| {
            attributes.headers.get_all(header.name.as_str()).iter().any(|found| {
                header.value.as_ref().is_none_or(|value| value.as_bytes() == found.as_bytes())
            })
        })
}

/// Checks that a rule means something.
fn check(rule: &FaultRule) -> Result<(), String> {
    if !(0.0..=1.0).contains(&rule.probability) {
        return Err(format!("the probability {} is not between 0 and 1", rule.probability));
    }
    if let FaultEffect::Answer { status, .. } = rule.effect
        // 1xx are interim responses, which HTTP libraries do not hand on.
        && !(200..=599).contains(&status)
    {
        return Err(format!("{status} is not the status of an answer: give one from 200 to 599"));
    }
    if let (Some(start), Some(end)) = (rule.start, rule.end)
        && end <= start
    {
        return Err("the rule ends before it starts: give an end after the start".to_owned());
    }
    // Names are segments of the admin API's paths.
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
