//! Index utilization metrics: which indexes a query uses, and which would help it, as SDKs print them.
//!
//! Told from what the access paths are chosen by: the filter's conditions and the order, under the container's
//! policy.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sidereal_query::IndexPath;

use super::parsed_query::ParsedQuery;
use crate::error::Result;
use crate::store::{Definition, OrderByPath};

/// What the service says, under its names.
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

/// The value of `x-ms-cosmos-index-utilization`: JSON in base64.
pub(super) fn of(query: &ParsedQuery, definition: &Definition) -> Result<String> {
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
    Ok(STANDARD.encode(serde_json::to_vec(&utilization).unwrap_or_default()))
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
