//! The query plan: what is left for a client to do when a query spans partitions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::range::QueryRange;
use crate::wire::{null_as_default, wire_enum};

/// The plan version the service speaks.
pub const PLAN_VERSION: u32 = 2;

/// A query plan: the ranges to ask, the query to ask them, and how to merge their answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionedQueryExecutionInfo {
    /// The version of this form, [`PLAN_VERSION`].
    #[serde(rename = "partitionedQueryExecutionInfoVersion", default = "plan_version")]
    pub version: u32,
    /// How to merge; absent for a hybrid search.
    #[serde(default)]
    pub query_info: Option<QueryInfo>,
    /// The ranges of effective partition keys that can hold results, in order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub query_ranges: Vec<QueryRange>,
    /// The parts of a hybrid search; written as null where there is none, as the gateway does.
    #[serde(default)]
    pub hybrid_search_query_info: Option<HybridSearchQueryInfo>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl PartitionedQueryExecutionInfo {
    /// The plan of an ordinary query.
    pub fn new(query_info: QueryInfo, query_ranges: Vec<QueryRange>) -> Self {
        Self {
            version: PLAN_VERSION,
            query_info: Some(query_info),
            query_ranges,
            hybrid_search_query_info: None,
            other: Map::new(),
        }
    }
}

fn plan_version() -> u32 {
    PLAN_VERSION
}

/// How the answers of the partitions become the answer of the query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryInfo {
    /// Whether duplicates are to be dropped, and whether they come next to each other.
    #[serde(deserialize_with = "null_as_default")]
    pub distinct_type: DistinctType,
    /// How many rows to keep.
    pub top: Option<u64>,
    /// How many rows to skip.
    pub offset: Option<u64>,
    /// How many rows to keep after those skipped.
    pub limit: Option<u64>,
    /// The direction of each sort expression.
    #[serde(deserialize_with = "null_as_default")]
    pub order_by: Vec<SortOrder>,
    /// The text of each sort expression.
    #[serde(deserialize_with = "null_as_default")]
    pub order_by_expressions: Vec<String>,
    /// The text of each grouping expression.
    #[serde(deserialize_with = "null_as_default")]
    pub group_by_expressions: Vec<String>,
    /// The output name of each projected column of a grouped query.
    #[serde(deserialize_with = "null_as_default")]
    pub group_by_aliases: Vec<String>,
    /// The aggregates of a query that yields one value.
    #[serde(deserialize_with = "null_as_default")]
    pub aggregates: Vec<AggregateType>,
    /// The aggregate behind each column of a grouped query; `None` for a plain column.
    #[serde(deserialize_with = "null_as_default")]
    pub group_by_alias_to_aggregate_type: BTreeMap<String, Option<AggregateType>>,
    /// The query to send to each partition; empty if the original will do.
    #[serde(deserialize_with = "null_as_default")]
    pub rewritten_query: String,
    /// Whether the query is a `SELECT VALUE`.
    #[serde(deserialize_with = "null_as_default")]
    pub has_select_value: bool,
    /// The count of distinct values the query asks for.
    pub d_count_info: Option<DistinctCountInfo>,
    /// Whether each partition must be read to its end before the first row can be given.
    #[serde(deserialize_with = "null_as_default")]
    pub has_non_streaming_order_by: bool,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

wire_enum! {
    /// Whether duplicates are dropped, and what the merge may rely on.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub enum DistinctType: "kind of DISTINCT" {
        /// Duplicates stay.
        #[default]
        None = "None",
        /// Duplicates come one after the other.
        Ordered = "Ordered",
        /// Duplicates come anywhere.
        Unordered = "Unordered",
    }
}

wire_enum! {
    /// The direction of a sort expression.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum SortOrder: "sort order" {
        /// Least first.
        Ascending = "Ascending",
        /// Greatest first.
        Descending = "Descending",
    }
}

wire_enum! {
    /// An aggregate function whose partial results a client combines.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum AggregateType: "aggregate" {
        /// `AVG`, as sum and count.
        Average = "Average",
        /// `COUNT`.
        Count = "Count",
        /// `COUNTIF`.
        CountIf = "CountIf",
        /// `MAKELIST`.
        MakeList = "MakeList",
        /// `MAKESET`.
        MakeSet = "MakeSet",
        /// `MAX`.
        Max = "Max",
        /// `MIN`.
        Min = "Min",
        /// `SUM`.
        Sum = "Sum",
    }
}

/// A count of distinct values, `SELECT COUNT(1) FROM (SELECT DISTINCT …)`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DistinctCountInfo {
    /// The output name of the count; empty for a bare value.
    #[serde(default, deserialize_with = "null_as_default")]
    pub d_count_alias: String,
}

/// The parts of a hybrid search: statistics first, then one ranked query per component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HybridSearchQueryInfo {
    /// The query that gathers statistics over all partitions.
    pub global_statistics_query: Option<String>,
    /// One ranked query per component.
    #[serde(deserialize_with = "null_as_default")]
    pub component_query_infos: Vec<QueryInfo>,
    /// The weight of each component in the fused rank; empty for equal weights.
    #[serde(deserialize_with = "null_as_default")]
    pub component_weights: Vec<f64>,
    /// How many rows to skip.
    pub skip: Option<u64>,
    /// How many rows to keep.
    pub take: Option<u64>,
    /// Whether the statistics query must run first.
    #[serde(deserialize_with = "null_as_default")]
    pub requires_global_statistics: bool,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::EffectivePartitionKeyRange;

    #[test]
    fn a_plan_is_read_with_nulls_and_without_fields() {
        let plan: PartitionedQueryExecutionInfo = serde_json::from_value(json!({
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {"distinctType": "Ordered", "top": null, "orderBy": ["Ascending"],
                "groupByAliasToAggregateType": {"n": "Count", "cat": null}, "aggregates": null,
                "rewrittenQuery": null},
            "queryRanges": [{"min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false}],
        }))
        .unwrap();
        let info = plan.query_info.unwrap();
        assert_eq!(info.distinct_type, DistinctType::Ordered);
        assert_eq!(info.order_by, [SortOrder::Ascending]);
        assert_eq!(info.group_by_alias_to_aggregate_type["n"], Some(AggregateType::Count));
        assert_eq!(info.group_by_alias_to_aggregate_type["cat"], None);
        assert_eq!(info.rewritten_query, "");
    }

    #[test]
    fn a_plan_is_written_with_every_field_clients_look_for() {
        let range = QueryRange::from(EffectivePartitionKeyRange::FULL);
        let plan = PartitionedQueryExecutionInfo::new(QueryInfo::default(), vec![range]);
        assert_eq!(
            serde_json::to_value(plan).unwrap(),
            json!({
                "partitionedQueryExecutionInfoVersion": 2,
                "queryInfo": {"distinctType": "None", "top": null, "offset": null, "limit": null,
                    "orderBy": [], "orderByExpressions": [], "groupByExpressions": [],
                    "groupByAliases": [], "aggregates": [], "groupByAliasToAggregateType": {},
                    "rewrittenQuery": "", "hasSelectValue": false, "dCountInfo": null,
                    "hasNonStreamingOrderBy": false},
                "queryRanges": [{"min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false}],
                "hybridSearchQueryInfo": null,
            })
        );
    }

    #[test]
    fn fields_nobody_knows_survive() {
        let json = json!({"hasSelectValue": true, "newer": [1]});
        let info: QueryInfo = serde_json::from_value(json).unwrap();
        assert_eq!(serde_json::to_value(info).unwrap()["newer"], json!([1]));
    }
}
