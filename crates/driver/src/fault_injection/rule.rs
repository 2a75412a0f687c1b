//! A rule, and which of several applies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::{FaultInjectionCondition, FaultInjectionResult, RequestView};
use crate::options::Ratio;
use crate::system::Clock;

/// The rule that applies: the first that is switched on, within its time and below its limit, is about
/// this, and is drawn.
///
/// Nothing changes by asking. The same random number gives the same answer; each rule with a probability
/// below one makes a draw of its own from it, so that the probability of one does not depend on another's.
#[must_use]
pub fn decide<'a>(
    rules: &'a [Arc<FaultInjectionRule>],
    view: &RequestView<'_>,
    now: Instant,
    random: u64,
) -> Option<&'a Arc<FaultInjectionRule>> {
    // Seeded by the request: the same number draws the same, whatever other requests did.
    let mut draws = fastrand::Rng::with_seed(random);
    rules.iter().find(|rule| rule.applies(view, now) && rule.is_drawn(&mut draws))
}

/// Injects a fault into the requests that meet a condition: with a probability, up to a number, in a time window.
#[derive(Debug)]
pub struct FaultInjectionRule {
    id: String,
    condition: FaultInjectionCondition,
    result: FaultInjectionResult,
    probability: Ratio,
    hit_limit: Option<u64>,
    start: Option<Instant>,
    end: Option<Instant>,
    enabled: AtomicBool,
    hits: AtomicU64,
}

impl FaultInjectionRule {
    /// A rule that applies to every request, always.
    #[must_use]
    pub fn new(id: impl Into<String>, result: FaultInjectionResult) -> Self {
        Self {
            id: id.into(),
            condition: FaultInjectionCondition::any(),
            result,
            probability: Ratio::constant(1.0),
            hit_limit: None,
            start: None,
            end: None,
            enabled: AtomicBool::new(true),
            hits: AtomicU64::new(0),
        }
    }

    /// Restricts the rule to requests that meet a condition.
    #[must_use]
    pub fn when(mut self, condition: FaultInjectionCondition) -> Self {
        self.condition = condition;
        self
    }

    /// Applies the rule to a share of the matching requests.
    #[must_use]
    pub fn with_probability(mut self, probability: Ratio) -> Self {
        self.probability = probability;
        self
    }

    /// Ends the rule after this many faults.
    #[must_use]
    pub fn with_hit_limit(mut self, limit: u64) -> Self {
        self.hit_limit = Some(limit);
        self
    }

    /// Starts the rule at a moment.
    #[must_use]
    pub fn starting_at(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// Ends the rule at a moment (exclusive).
    #[must_use]
    pub fn ending_at(mut self, end: Instant) -> Self {
        self.end = Some(end);
        self
    }

    /// Ends the rule after a duration, counted from its start if it has one, else from now.
    #[must_use]
    pub fn lasting(self, duration: Duration) -> Self {
        let start = self.start.unwrap_or_else(|| Clock::now().into());
        self.starting_at(start).ending_at(start + duration)
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The fault that the rule injects.
    #[must_use]
    pub fn result(&self) -> &FaultInjectionResult {
        &self.result
    }

    /// How often it was applied.
    #[must_use]
    pub fn hits(&self) -> u64 {
        // Acquire: pairs with the claim, so a test that sees a hit sees what led to it.
        self.hits.load(Ordering::Acquire)
    }

    /// Whether it is switched on.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        // Acquire, with the Release below: what was set up before the switch is seen after it.
        self.enabled.load(Ordering::Acquire)
    }

    /// Switches it on.
    pub fn enable(&self) {
        self.enabled.store(true, Ordering::Release);
    }

    /// Switches it off. Requests that it holds already stay held.
    pub fn disable(&self) {
        self.enabled.store(false, Ordering::Release);
    }

    fn applies(&self, view: &RequestView<'_>, now: Instant) -> bool {
        self.is_enabled()
            && self.result.concerns_connections() == view.request.is_none()
            && self.start.is_none_or(|start| now >= start)
            && self.end.is_none_or(|end| now < end)
            && self.hit_limit.is_none_or(|limit| self.hits() < limit)
            && self.condition.matches(view)
    }

    fn is_drawn(&self, draws: &mut fastrand::Rng) -> bool {
        // Certain rules draw nothing, so adding one does not change the draws of the others.
        self.probability.value() >= 1.0 || draws.f64() < self.probability.value()
    }

    /// Takes one of the faults that the limit leaves; fails if others took them since the decision.
    pub(super) fn claim_hit(&self) -> bool {
        let limit = self.hit_limit.unwrap_or(u64::MAX);
        let another = |hits| (hits < limit).then_some(hits + 1);
        // One read-modify-write: however many claim at once, the limit holds.
        self.hits.fetch_update(Ordering::AcqRel, Ordering::Acquire, another).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::CosmosStatus;

    use super::super::ConnectFault;
    use super::*;
    use crate::transport::HttpRequest;

    fn throttling(id: &str) -> FaultInjectionRule {
        FaultInjectionRule::new(id, FaultInjectionResult::status(CosmosStatus::new(429)))
    }

    fn a_share(probability: f64) -> FaultInjectionRule {
        throttling("sometimes").with_probability(Ratio::try_from(probability).unwrap())
    }

    /// The id of the rule that a plain request meets.
    fn met(rules: &[Arc<FaultInjectionRule>], now: Instant, random: u64) -> Option<&str> {
        let endpoint = "https://contoso.com".parse().unwrap();
        let request = HttpRequest::default();
        let request = Some(&request);
        let view = RequestView { endpoint: &endpoint, client: 0, request, region: None };
        decide(rules, &view, now, random).map(|rule| rule.id())
    }

    fn one(rule: FaultInjectionRule) -> [Arc<FaultInjectionRule>; 1] {
        [Arc::new(rule)]
    }

    #[test]
    fn the_first_rule_that_applies_wins() {
        let elsewhere = FaultInjectionCondition::any().host("elsewhere");
        let rules = ["first", "second", "third"].map(throttling);
        let [first, second, third] = rules;
        let rules = [first.when(elsewhere), second, third].map(Arc::new);
        assert_eq!(met(&rules, Instant::now(), 0), Some("second"));
        assert_eq!(met(&[], Instant::now(), 0), None);
    }

    #[test]
    fn a_rule_that_is_switched_off_is_passed_over() {
        let rules = one(throttling("toggled"));
        rules[0].disable();
        assert_eq!(met(&rules, Instant::now(), 0), None);
        rules[0].enable();
        assert_eq!(met(&rules, Instant::now(), 0), Some("toggled"));
    }

    #[test]
    fn a_rule_applies_from_its_start_until_just_before_its_end() {
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        let rules = one(throttling("timed").starting_at(start + minute).lasting(minute));
        let at = |seconds| met(&rules, start + Duration::from_secs(seconds), 0).is_some();
        assert_eq!([59, 60, 119, 120].map(at), [false, true, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_duration_without_a_start_counts_from_now() {
        let rules = one(throttling("brief").lasting(Duration::from_secs(1)));
        assert!(met(&rules, Instant::now(), 0).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(met(&rules, Instant::now(), 0).is_none());
    }

    #[test]
    fn deciding_takes_no_hit_and_a_used_up_rule_is_passed_over() {
        let rules = [throttling("twice").with_hit_limit(2), throttling("then")].map(Arc::new);
        let now = Instant::now();
        for _ in 0..10 {
            assert_eq!(met(&rules, now, 0), Some("twice"));
        }
        assert_eq!(rules[0].hits(), 0);
        assert!(rules[0].claim_hit() && rules[0].claim_hit() && !rules[0].claim_hit());
        assert_eq!(met(&rules, now, 0), Some("then"));
        assert_eq!(rules[0].hits(), 2);
    }

    #[test]
    fn the_limit_holds_however_many_claim_at_once() {
        let rule = throttling("scarce").with_hit_limit(100);
        let claimed = AtomicU64::new(0);
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    let own = (0..50).filter(|_| rule.claim_hit()).count();
                    claimed.fetch_add(own as u64, Ordering::Relaxed);
                });
            }
        });
        assert_eq!((claimed.into_inner(), rule.hits()), (100, 100));
    }

    #[test]
    fn the_same_number_draws_the_same_and_many_numbers_draw_the_share() {
        let now = Instant::now();
        let rules = one(a_share(0.3));
        let drawn = |random| met(&rules, now, random).is_some();
        assert!((0..100).all(|random| drawn(random) == drawn(random)));
        let count =
            (0..10_000_u64).filter(|n| drawn(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).count();
        assert!((2_800..3_200).contains(&count), "{count}");
        assert!((0..100).all(|random| met(&one(a_share(0.0)), now, random).is_none()));
    }

    #[test]
    fn a_rule_s_probability_does_not_depend_on_the_rule_before_it() {
        let now = Instant::now();
        let rules = [a_share(0.5), throttling("b").with_probability(Ratio::constant(0.5))];
        let rules = rules.map(Arc::new);
        let second = |n: &u64| met(&rules, now, n.wrapping_mul(0x9e37_79b9_7f4a_7c15)) == Some("b");
        let count = (0..10_000_u64).filter(second).count();
        assert!((2_300..2_700).contains(&count), "{count}");
    }

    #[test]
    fn rules_for_connections_leave_requests_alone_and_the_other_way_round() {
        let endpoint = "https://contoso.com".parse().unwrap();
        let hang = FaultInjectionResult::Connect(ConnectFault::Hang);
        let rules = [FaultInjectionRule::new("connect", hang), throttling("request")].map(Arc::new);
        let request = HttpRequest::default();
        let chosen = |request| {
            let view = RequestView { endpoint: &endpoint, client: 0, request, region: None };
            decide(&rules, &view, Instant::now(), 0).map(|rule| rule.id())
        };
        assert_eq!(chosen(None), Some("connect"));
        assert_eq!(chosen(Some(&request)), Some("request"));
    }
}
