//! How many hedges a driver may send: a token bucket that requests fill and hedges empty.
//!
//! A region that turns slow makes every request a candidate. The bucket bounds what hedges add to the load of
//! the others: a share of all requests in the long run, and a burst on top so that a quiet application can hedge
//! at all.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::options::Ratio;

/// A whole token, in the thousandths that requests earn.
const TOKEN: u64 = 1_000;

/// The hedges that are left. No lock: a number.
#[derive(Debug)]
pub(crate) struct HedgingBudget {
    thousandths: AtomicU64,
}

impl HedgingBudget {
    /// A full token bucket: an application may hedge from its first request on.
    pub(crate) fn full(burst: u32) -> Self {
        Self { thousandths: AtomicU64::new(u64::from(burst) * TOKEN) }
    }

    /// Adds the share of a token that one request earns.
    pub(crate) fn earn(&self, ratio: Ratio, burst: u32) {
        let most = u64::from(burst) * TOKEN;
        // Only read in the usual case, when it is full: requests on several cores do not contend for it.
        if self.thousandths.load(Ordering::Relaxed) >= most {
            return;
        }
        let earned = (ratio.value() * TOKEN as f64) as u64;
        // Relaxed: a number by itself. Several at once may overfill it by as many requests, once.
        self.thousandths.fetch_add(earned, Ordering::Relaxed);
    }

    /// Takes a token for a hedge, if there is one.
    pub(crate) fn spend(&self) -> bool {
        let take = |left: u64| left.checked_sub(TOKEN);
        self.thousandths.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Ratio = Ratio::constant(0.1);

    #[test]
    fn hedges_are_a_share_of_the_requests_and_a_burst() {
        let budget = HedgingBudget::full(3);
        let mut sent = 0;
        for _ in 0..1_000 {
            budget.earn(TENTH, 3);
            sent += u32::from(budget.spend());
        }
        // The first request found the bucket full.
        assert_eq!(sent, 102);
    }

    #[test]
    fn what_is_not_spent_does_not_add_up_beyond_the_burst() {
        let budget = HedgingBudget::full(2);
        (0..10_000).for_each(|_| budget.earn(TENTH, 2));
        let sent = (0..10).filter(|_| budget.spend()).count();
        assert_eq!(sent, 2);
    }

    #[test]
    fn without_a_share_and_a_burst_nothing_is_hedged() {
        let budget = HedgingBudget::full(0);
        budget.earn(Ratio::constant(0.0), 0);
        assert!(!budget.spend());
    }
}
