//! The terms of a dispatcher, and the turn that it is given.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{DispatcherCapabilityFilter, OrchestrationItem};

/// The versions that dispatchers can replay, shared by those that agree.
pub(crate) type SharedFilter = Arc<Option<DispatcherCapabilityFilter>>;

/// The terms of one fetch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) lock_timeout: Duration,
    pub(crate) filter: Option<&'a DispatcherCapabilityFilter>,
    /// The terms of the dispatcher, if it polls again and again.
    pub(crate) terms: Option<&'a TurnTerms>,
}

/// Owned terms of one fetch.
#[derive(Clone, Debug)]
pub(crate) struct KeptAsked {
    lock_timeout: Duration,
    filter: SharedFilter,
    terms: Option<TurnTerms>,
}

impl Asked<'_> {
    pub(crate) fn kept(self) -> KeptAsked {
        let shared = self.terms.map(|terms| Arc::clone(&terms.filter));
        KeptAsked {
            lock_timeout: self.lock_timeout,
            filter: shared.unwrap_or_else(|| Arc::new(self.filter.cloned())),
            terms: self.terms.cloned(),
        }
    }
}

impl KeptAsked {
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked {
            lock_timeout: self.lock_timeout,
            filter: self.filter.as_ref().as_ref(),
            terms: self.terms.as_ref(),
        }
    }
}

/// The terms of a dispatcher that polls, the same at each fetch.
#[derive(Clone, Debug)]
pub(crate) struct TurnTerms {
    pub(crate) lock_timeout: Duration,
    pub(crate) filter: SharedFilter,
}

impl TurnTerms {
    pub(crate) fn asked(&self) -> Asked<'_> {
        Asked {
            lock_timeout: self.lock_timeout,
            filter: self.filter.as_ref().as_ref(),
            terms: Some(self),
        }
    }
}

impl PartialEq for TurnTerms {
    fn eq(&self, other: &Self) -> bool {
        self.lock_timeout == other.lock_timeout && Arc::ptr_eq(&self.filter, &other.filter)
    }
}

/// A turn that is locked for a dispatcher.
#[derive(Debug)]
pub(crate) struct LockedTurn {
    pub(crate) item: OrchestrationItem,
    pub(crate) token: String,
    /// How often it was tried, this time included.
    pub(crate) attempts: u32,
    /// Its number.
    pub(crate) turn: u64,
    /// Until when.
    pub(crate) locked_until: i64,
}
