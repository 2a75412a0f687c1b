//! Index utilization metrics: which indexes a query uses, and which would help it, as SDKs print them.
//!
//! Told from what the access paths are chosen by: the filter's conditions and the order, under the container's
//! policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde_json::{Value, json};
use sidereal_query::IndexPath;

use super::parsed_query::ParsedQuery;
use crate::error::Result;
use crate::store::{Definition, OrderByPath};

/// The index metrics, under the service's names.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
struct IndexUtilization {
    utilized_single_indexes: Vec<SingleIndex>,
    potential_single_indexes: Vec<SingleIndex>,
    utilized_composite_indexes: Vec<CompositeIndex>,
    potential_composite_indexes: Vec<CompositeIndex>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct SingleIndex {
    filter_expression: String,
    index_spec: String,
    filter_precise_set: bool,
    index_precise_set: bool,
    index_impact_score: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct CompositeIndex {
    filter_expressions: Vec<String>,
    index_specs: Vec<String>,
    index_precise_set: bool,
    index_impact_score: &'static str,
}

/// The index metrics in the service's second form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct IndexMetrics {
    utilized: IndexLists,
    potential: IndexLists,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct IndexLists {
    single_indexes: Vec<Value>,
    composite_indexes: Vec<Value>,
}

impl IndexLists {
    /// A list says how much an index would help, if it is not there.
    fn new(single: &[SingleIndex], composite: &[CompositeIndex], is_potential: bool) -> Self {
        let entry = |name: &str, specs: Value, score: &str| match is_potential {
            true => json!({ name: specs, "IndexImpactScore": score }),
            false => json!({ name: specs }),
        };
        let single = single.iter();
        let composite = composite.iter();
        Self {
            single_indexes: single
                .map(|it| entry("IndexSpec", json!(it.index_spec), it.index_impact_score))
                .collect(),
            composite_indexes: composite
                .map(|it| entry("IndexSpecs", json!(it.index_specs), it.index_impact_score))
                .collect(),
        }
    }
}

/// The value of `x-ms-cosmos-index-utilization`: JSON in base64.
pub(super) fn in_base64(query: &ParsedQuery, definition: &Definition) -> Result<String> {
    let utilization = utilization_of(query, definition)?;
    Ok(STANDARD.encode(serde_json::to_vec(&utilization).unwrap_or_default()))
}

/// The value of `x-ms-cosmos-populateindexmetrics-V2`: percent-encoded JSON.
pub(super) fn percent_encoded(query: &ParsedQuery, definition: &Definition) -> Result<String> {
    let told = utilization_of(query, definition)?;
    let metrics = IndexMetrics {
        utilized: IndexLists::new(
            &told.utilized_single_indexes,
            &told.utilized_composite_indexes,
            false,
        ),
        potential: IndexLists::new(
            &told.potential_single_indexes,
            &told.potential_composite_indexes,
            true,
        ),
    };
    let text = serde_json::to_string(&metrics).unwrap_or_default();
    Ok(utf8_percent_encode(&text, NON_ALPHANUMERIC).to_string())
}

fn utilization_of(query: &ParsedQuery, definition: &Definition) -> Result<IndexUtilization> {
    let mut utilization = IndexUtilization::default();
    let condition = query.index_condition();
    let mut paths: Vec<IndexPath> =
        condition.iter().flat_map(|condition| condition.paths()).cloned().collect();
    let order = query.order_by_paths()?;
    match order.as_slice() {
        [] => {}
        [only] => paths.push(IndexPath { segments: only.segments.clone(), elements: false }),
        // Served at all, so there is a composite index.
        several => utilization.utilized_composite_indexes.push(CompositeIndex {
            filter_expressions: Vec::new(),
            index_specs: several.iter().map(composite_spec).collect(),
            index_precise_set: true,
            index_impact_score: "High",
        }),
    }
    paths.sort();
    paths.dedup();
    for path in paths {
        let list = match definition.index.indexes(&path) {
            true => &mut utilization.utilized_single_indexes,
            false => &mut utilization.potential_single_indexes,
        };
        list.push(SingleIndex {
            filter_expression: format!("ROOT.{}", path.segments.join(".")),
            index_spec: spec(&path),
            filter_precise_set: true,
            index_precise_set: true,
            index_impact_score: "High",
        });
    }
    Ok(utilization)
}

/// A path as indexing policies write it.
fn spec(path: &IndexPath) -> String {
    let elements = if path.elements { "/[]" } else { "" };
    format!("/{}{elements}/?", path.segments.join("/"))
}

fn composite_spec(path: &OrderByPath) -> String {
    let direction = if path.descending { "DESC" } else { "ASC" };
    format!("/{} {direction}", path.segments.join("/"))
}
