//! The rules of a factory, as its clients see them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;

use super::{FaultInjectionRule, RequestView, decide};
use crate::system::Clock;

/// The rules, shared by all clients of a factory.
#[derive(Debug)]
pub(super) struct Faults {
    pub(super) rules: ArcSwap<Vec<Arc<FaultInjectionRule>>>,
    random: AtomicU64,
}

impl Faults {
    /// No rules yet; the same seed draws the same numbers.
    pub(super) fn with_seed(seed: u64) -> Self {
        Self { rules: ArcSwap::from_pointee(Vec::new()), random: AtomicU64::new(seed) }
    }

    /// The step of a Weyl sequence, 2⁶⁴ over the golden ratio: odd, so that all numbers come up, and far
    /// enough apart that consecutive seeds are not alike.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The rule that this meets, with the hit taken.
    pub(super) fn hit(&self, view: &RequestView<'_>) -> Option<Arc<FaultInjectionRule>> {
        let rules = self.rules.load();
        if rules.is_empty() {
            return None;
        }
        // Relaxed: every request needs a number of its own, in no order.
        let random = self.random.fetch_add(Self::STEP, Ordering::Relaxed);
        let now = Clock::now().into();
        loop {
            let rule = decide(&rules, view, now, random)?;
            if rule.claim_hit() {
                tracing::debug!(rule = rule.id(), "a fault is injected");
                return Some(Arc::clone(rule));
            }
            // Other requests took its last hits since the decision; it does not apply any more.
        }
    }
}
