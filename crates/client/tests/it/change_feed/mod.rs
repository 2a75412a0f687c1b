//! The change feed, on accounts in this process and a paused clock; over sockets where that is what is tested.

mod hostile;
mod partitions;
mod processor;
mod reading;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sidereal::change_feed::ChangeFeed;
use sidereal::prelude::*;

use crate::query::Partitioned;

/// A version of an item; `v` counts its versions.
pub(crate) fn version(id: usize, v: usize) -> Value {
    json!({"id": id.to_string(), "pk": format!("p{id}"), "v": v})
}

/// Writes the next version of each of a number of items.
pub(crate) async fn write(items: &ContainerClient, ids: std::ops::Range<usize>, v: usize) {
    let operations = ids.map(|id| BulkOperation::upsert_item(format!("p{id}"), version(id, v)));
    let report = items.bulk().execute(operations).await.unwrap();
    assert!(report.is_success(), "{report:?}");
}

/// All changes until the feed has caught up, as ids and versions.
pub(crate) async fn changes(feed: &ChangeFeed) -> Vec<(usize, usize)> {
    let (mut stream, mut found) = (feed.items::<Value>(), Vec::new());
    while let Some(item) = stream.next().await {
        found.push(named(&item.unwrap()));
    }
    found
}

pub(crate) fn named(item: &Value) -> (usize, usize) {
    let id = item["id"].as_str().unwrap().parse().unwrap();
    (id, item["v"].as_u64().unwrap() as usize)
}

pub(crate) fn sorted(mut changes: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    changes.sort_unstable();
    changes
}

/// The versions of each item, in the order in which they came.
pub(crate) fn by_item(changes: &[(usize, usize)]) -> BTreeMap<usize, Vec<usize>> {
    let mut items: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (id, v) in changes {
        items.entry(*id).or_default().push(*v);
    }
    items
}

/// Every item with one version.
pub(crate) fn each(ids: std::ops::Range<usize>, v: usize) -> Vec<(usize, usize)> {
    ids.map(|id| (id, v)).collect()
}
