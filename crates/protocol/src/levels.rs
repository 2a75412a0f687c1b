//! The enumerations a caller can choose from: consistency, priority, indexing.
//!
//! Only the words and their order. Which of them an account allows, and what a read then does, is
//! decided where requests are made.

use std::cmp::Ordering;

use crate::wire::wire_enum;

wire_enum! {
    /// How current a read must be, from strongest to weakest.
    ///
    /// Ordered by strength: `Strong` is the greatest. A request may ask for a level no stronger
    /// than its account's.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ConsistencyLevel: "consistency level" {
        /// Reads see the latest committed write of every region.
        Strong = "Strong",
        /// Reads lag by at most a bounded number of versions or an interval.
        BoundedStaleness = "BoundedStaleness",
        /// A session reads its own writes.
        Session = "Session",
        /// Consistent prefix: reads never see writes out of order.
        ConsistentPrefix = "ConsistentPrefix",
        /// Reads converge eventually.
        Eventual = "Eventual",
    }
}

impl Ord for ConsistencyLevel {
    fn cmp(&self, other: &Self) -> Ordering {
        // Declared from the strongest down, so the later variant is the lesser one.
        (*other as u8).cmp(&(*self as u8))
    }
}

impl PartialOrd for ConsistencyLevel {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

wire_enum! {
    /// How a read relates to the account's consistency; replaces the consistency level when set.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum ReadConsistencyStrategy: "read consistency strategy" {
        /// The account's default, or the consistency level's. Sends no header.
        #[default]
        Default = "Default",
        /// Any replica answers.
        Eventual = "Eventual",
        /// The session reads its own writes.
        Session = "Session",
        /// The latest version committed in the region that answers.
        LatestCommitted = "LatestCommitted",
        /// The latest version committed in every region; needs an account with strong consistency.
        GlobalStrong = "GlobalStrong",
    }
}

impl ReadConsistencyStrategy {
    /// The word to send, or `None` where the absence of the header says it.
    pub const fn header_value(self) -> Option<&'static str> {
        match self {
            Self::Default => None,
            other => Some(other.as_str()),
        }
    }
}

wire_enum! {
    /// Which requests the service throttles first when a partition runs out of throughput.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum PriorityLevel: "priority level" {
        /// Throttled last.
        High = "High",
        /// Throttled first.
        Low = "Low",
    }
}

wire_enum! {
    /// Whether one write is indexed, where the container indexes on demand.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum IndexingDirective: "indexing directive" {
        /// As the container's indexing policy says.
        #[default]
        Default = "Default",
        /// Index this item.
        Include = "Include",
        /// Leave this item out of the index.
        Exclude = "Exclude",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consistency_levels_are_ordered_by_strength() {
        let mut levels = ConsistencyLevel::ALL.to_vec();
        levels.sort_unstable();
        levels.reverse();
        assert_eq!(levels, ConsistencyLevel::ALL);
        assert!(ConsistencyLevel::Strong > ConsistencyLevel::Session);
    }

    #[test]
    fn a_word_is_read_in_any_case_and_written_in_one() {
        let level: ConsistencyLevel = "boundedSTALENESS".parse().unwrap();
        assert_eq!(level.to_string(), "BoundedStaleness");
        assert_eq!(serde_json::to_string(&level).unwrap(), "\"BoundedStaleness\"");
        assert_eq!(
            serde_json::from_str::<ConsistencyLevel>("\"session\"").unwrap(),
            ConsistencyLevel::Session
        );
    }

    #[test]
    fn a_refusal_says_what_was_expected() {
        let error = "Stong".parse::<ConsistencyLevel>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "\"Stong\" is not a consistency level: expected one of \
             Strong, BoundedStaleness, Session, ConsistentPrefix, Eventual"
        );
    }

    #[test]
    fn the_default_read_strategy_sends_no_header() {
        assert_eq!(ReadConsistencyStrategy::Default.header_value(), None);
        assert_eq!(ReadConsistencyStrategy::GlobalStrong.header_value(), Some("GlobalStrong"));
    }
}
