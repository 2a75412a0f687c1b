//! Which requests may be sent to two regions at once. Pure.

use crate::retry::RequestKind;

/// The inputs of the decision whether a request may be hedged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HedgingTerms {
    /// Whether the settings and the call allow it.
    pub(crate) is_enabled: bool,
    /// Whether the settings and the call allow it for writes too.
    pub(crate) hedges_writes: bool,
    /// Whether the account turns hedging off.
    pub(crate) is_disabled_by_account: bool,
    /// Whether every region of the account accepts writes.
    pub(crate) is_multi_write: bool,
    /// Whether the request has a precondition.
    pub(crate) is_conditional: bool,
}

/// Whether a request may be hedged: reads, and, if the settings say so, in a multi-write account unconditional writes
/// that do no harm when they are applied twice.
///
/// A conditional write that is applied twice refuses itself: the second application meets the version that the
/// first one made.
pub(crate) fn may_be_hedged(kind: RequestKind, terms: HedgingTerms) -> bool {
    let is_allowed = terms.is_enabled && !terms.is_disabled_by_account;
    is_allowed
        && match kind {
            RequestKind::Read => true,
            RequestKind::IdempotentWrite => {
                terms.hedges_writes && terms.is_multi_write && !terms.is_conditional
            }
            RequestKind::Write => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: HedgingTerms = HedgingTerms {
        is_enabled: true,
        hedges_writes: true,
        is_disabled_by_account: false,
        is_multi_write: false,
        is_conditional: false,
    };

    #[test]
    fn reads_are_hedged_unless_the_settings_or_the_account_say_no() {
        assert!(may_be_hedged(RequestKind::Read, TERMS));
        assert!(!may_be_hedged(RequestKind::Read, HedgingTerms { is_enabled: false, ..TERMS }));
        let disabled = HedgingTerms { is_disabled_by_account: true, ..TERMS };
        assert!(!may_be_hedged(RequestKind::Read, disabled));
        let conditional = HedgingTerms { is_conditional: true, ..TERMS };
        assert!(may_be_hedged(RequestKind::Read, conditional), "If-None-Match changes nothing");
    }

    #[test]
    fn only_idempotent_writes_of_multi_write_accounts_are_hedged() {
        let multi_write = HedgingTerms { is_multi_write: true, ..TERMS };
        assert!(may_be_hedged(RequestKind::IdempotentWrite, multi_write));
        let reads_alone = HedgingTerms { hedges_writes: false, ..multi_write };
        assert!(!may_be_hedged(RequestKind::IdempotentWrite, reads_alone));
        assert!(may_be_hedged(RequestKind::Read, reads_alone));
        assert!(!may_be_hedged(RequestKind::Write, multi_write));
        assert!(!may_be_hedged(RequestKind::IdempotentWrite, TERMS));
        let conditional = HedgingTerms { is_conditional: true, ..multi_write };
        assert!(!may_be_hedged(RequestKind::IdempotentWrite, conditional));
    }
}
