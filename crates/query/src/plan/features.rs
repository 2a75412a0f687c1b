//! Features of query plans that a client supports.

use std::fmt;

/// A set of query features, as listed in `x-ms-cosmos-supported-query-features`.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Features(u32);

macro_rules! features {
    ($($(#[$doc:meta])* $constant:ident $name:literal $bit:literal,)*) => {
        impl Features {
            $($(#[$doc])* pub const $constant: Self = Self(1 << $bit);)*

            /// Every feature there is.
            pub const ALL: Self = Self($(1 << $bit |)* 0);

            const NAMES: &[(&'static str, Self)] = &[$(($name, Self::$constant),)*];
        }
    };
}

features! {
    /// One aggregate, as a value.
    AGGREGATE "Aggregate" 0,
    /// Aggregates inside expressions.
    COMPOSITE_AGGREGATE "CompositeAggregate" 1,
    /// `COUNTIF`.
    COUNT_IF "CountIf" 2,
    /// Counting distinct rows.
    D_COUNT "DCount" 3,
    /// `DISTINCT`.
    DISTINCT "Distinct" 4,
    /// `GROUP BY`.
    GROUP_BY "GroupBy" 5,
    /// Full-text and vector search together.
    HYBRID_SEARCH "HybridSearch" 6,
    /// Hybrid search whose component queries need no rewriting.
    HYBRID_SEARCH_SKIP_ORDER_BY_REWRITE "HybridSearchSkipOrderByRewrite" 7,
    /// `MAKELIST` and `MAKESET`.
    LIST_AND_SET_AGGREGATE "ListAndSetAggregate" 8,
    /// Several aggregates side by side.
    MULTIPLE_AGGREGATES "MultipleAggregates" 9,
    /// `ORDER BY` with several keys.
    MULTIPLE_ORDER_BY "MultipleOrderBy" 10,
    /// `ORDER BY` that each partition cannot serve from an index.
    NON_STREAMING_ORDER_BY "NonStreamingOrderBy" 11,
    /// Aggregates as members of an object.
    NON_VALUE_AGGREGATE "NonValueAggregate" 12,
    /// `OFFSET … LIMIT …`.
    OFFSET_AND_LIMIT "OffsetAndLimit" 13,
    /// `ORDER BY` with one key.
    ORDER_BY "OrderBy" 14,
    /// `TOP`.
    TOP "Top" 15,
    /// Weights in hybrid search.
    WEIGHTED_RANK_FUSION "WeightedRankFusion" 16,
    /// Groups sorted by their aggregates. Ours alone: a client that does not sort whole groups would
    /// give them in the wrong order, so it must be refused.
    GROUP_BY_AGGREGATE_ORDER "GroupByAggregateOrder" 17,
}

impl Features {
    /// No features.
    pub const NONE: Self = Self(0);

    /// Reads a list of names separated by commas, passing over names it does not know.
    pub fn parse(list: &str) -> Self {
        let names = list.split(',').map(str::trim);
        let known = names.filter_map(|name| {
            Self::NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name))
        });
        known.fold(Self::NONE, |all, (_, feature)| all.with(*feature))
    }

    /// These features and `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// These features without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of these features.
    pub fn names(self) -> Vec<&'static str> {
        let held = Self::NAMES.iter().filter(|(_, feature)| self.contains(*feature));
        held.map(|(name, _)| *name).collect()
    }
}

impl fmt::Debug for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Features").field(&self.names().join(",")).finish()
    }
}
