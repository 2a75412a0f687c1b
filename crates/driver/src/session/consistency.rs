//! How reads get their consistency, and which requests carry a session token. Pure.

use sidereal_protocol::{ConsistencyLevel, OperationType, ReadConsistencyStrategy, ResourceType};

/// The inputs of the decision how current a read must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadTerms {
    /// How the call and the settings want reads to get their consistency.
    pub(crate) strategy: Option<ReadConsistencyStrategy>,
    /// The consistency that they ask for.
    pub(crate) level: Option<ConsistencyLevel>,
    /// The account's own.
    pub(crate) account: ConsistencyLevel,
    /// Whether every region accepts writes.
    pub(crate) is_multi_write: bool,
    /// Whether a read that asks for more than the account has reads a local quorum.
    pub(crate) upgrades_to_local_quorum: bool,
}

impl ReadTerms {
    /// The strategy in force: the one that was asked for, or the latest version that the region has
    /// committed, where the settings want that in place of a consistency that the account does not have.
    pub(crate) fn effective_strategy(&self) -> Option<ReadConsistencyStrategy> {
        let is_beyond_account = self.level.is_some_and(|level| level > self.account);
        let upgraded = (self.upgrades_to_local_quorum && is_beyond_account)
            .then_some(ReadConsistencyStrategy::LatestCommitted);
        self.strategy.or(upgraded)
    }
}

/// Whether a request carries the session's token.
///
/// Reads do where session consistency is in force. Writes do in a multi-write account, where the region may
/// be behind what the session has seen, and batches everywhere, for they may read.
pub(crate) fn sends_session_token(
    operation: OperationType,
    resource: ResourceType,
    terms: ReadTerms,
) -> bool {
    resource.is_partitioned()
        && match operation.is_read_only() {
            true => reads_in_session(terms),
            false => terms.is_multi_write || operation == OperationType::Batch,
        }
}

/// A strategy replaces a level, and a level the account's.
fn reads_in_session(terms: ReadTerms) -> bool {
    match terms.effective_strategy() {
        Some(ReadConsistencyStrategy::Session) => true,
        Some(
            ReadConsistencyStrategy::Eventual
            | ReadConsistencyStrategy::LatestCommitted
            | ReadConsistencyStrategy::GlobalStrong,
        ) => false,
        Some(ReadConsistencyStrategy::Default) | None => {
            terms.level.unwrap_or(terms.account) == ConsistencyLevel::Session
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SESSION: ReadTerms = ReadTerms {
        strategy: None,
        level: None,
        account: ConsistencyLevel::Session,
        is_multi_write: false,
        upgrades_to_local_quorum: false,
    };

    fn reads(terms: ReadTerms) -> bool {
        sends_session_token(OperationType::Read, ResourceType::Document, terms)
    }

    #[test]
    fn the_strategy_goes_before_the_level_and_the_level_before_the_account() {
        let (eventual, session) = (ConsistencyLevel::Eventual, ConsistencyLevel::Session);
        assert!(reads(SESSION));
        assert!(!reads(ReadTerms { level: Some(eventual), ..SESSION }));
        assert!(!reads(ReadTerms { account: eventual, ..SESSION }));
        assert!(reads(ReadTerms {
            account: ConsistencyLevel::Strong,
            level: Some(session),
            ..SESSION
        }));
        let with = |strategy| ReadTerms { strategy: Some(strategy), ..SESSION };
        assert!(!reads(with(ReadConsistencyStrategy::LatestCommitted)));
        assert!(!reads(with(ReadConsistencyStrategy::GlobalStrong)));
        assert!(reads(with(ReadConsistencyStrategy::Default)));
        let strategy = Some(ReadConsistencyStrategy::Session);
        assert!(reads(ReadTerms { strategy, level: Some(eventual), ..SESSION }));
    }

    #[test]
    fn a_stronger_level_than_the_account_s_reads_a_local_quorum_by_option() {
        let asked = |level, upgrades_to_local_quorum| ReadTerms {
            level: Some(level),
            upgrades_to_local_quorum,
            ..SESSION
        };
        let strong = ConsistencyLevel::Strong;
        let latest = Some(ReadConsistencyStrategy::LatestCommitted);
        assert_eq!(asked(strong, true).effective_strategy(), latest);
        assert_eq!(asked(strong, false).effective_strategy(), None);
        assert_eq!(asked(ConsistencyLevel::Eventual, true).effective_strategy(), None);
        let own =
            ReadTerms { strategy: Some(ReadConsistencyStrategy::Eventual), ..asked(strong, true) };
        assert_eq!(own.effective_strategy(), Some(ReadConsistencyStrategy::Eventual));
    }

    #[test]
    fn writes_carry_it_in_a_multi_write_account_and_batches_always() {
        let sends = |operation, is_multi_write| {
            let terms = ReadTerms { is_multi_write, ..SESSION };
            sends_session_token(operation, ResourceType::Document, terms)
        };
        assert!(!sends(OperationType::Upsert, false) && sends(OperationType::Upsert, true));
        assert!(sends(OperationType::Batch, false));
    }

    #[test]
    fn what_is_in_no_partition_has_no_session() {
        let container = ResourceType::DocumentCollection;
        assert!(!sends_session_token(OperationType::Read, container, SESSION));
    }
}
