//! The sort position of a row: its sort values, and its document's RID as the tie-breaker.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sidereal_protocol::{ResumeFilter, Rid, SortOrder};

use crate::order::compare;

/// The position of a row in a sorted result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Position {
    /// The sort values; none is undefined.
    #[serde(with = "undefined_as_absent")]
    pub items: Vec<Option<Value>>,
    /// The RID of the row's document.
    pub rid: String,
}

impl Position {
    /// Reads the position of a row of a rewritten query: `{_rid, orderByItems, payload}`.
    ///
    /// None if the row does not have that shape.
    pub fn of_row(row: &Value) -> Option<Self> {
        let items = row.get("orderByItems")?.as_array()?;
        let items = items.iter().map(|item| Some(item.as_object()?.get("item").cloned()));
        let rid = row.get("_rid").and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { items: items.collect::<Option<_>>()?, rid })
    }

    /// The filter that makes a server answer from this row on, the row included.
    pub fn resume_filter(&self) -> ResumeFilter {
        let value = |item: &Option<Value>| item.clone().unwrap_or(Value::Array(Vec::new()));
        ResumeFilter {
            value: self.items.iter().map(value).collect(),
            rid: Some(self.rid.clone()),
            exclude: false,
        }
    }

    /// Reads the position a client asks to resume from.
    ///
    /// An empty array means undefined; the wire has no other word for it.
    pub fn of_filter(filter: &ResumeFilter) -> Self {
        let item = |value: &Value| match value {
            Value::Array(items) if items.is_empty() => None,
            value => Some(value.clone()),
        };
        let items = filter.value.iter().map(item).collect();
        Self { items, rid: filter.rid.clone().unwrap_or_default() }
    }

    /// Compares by the sort values, then by document in the direction of the first of them.
    pub fn compare(&self, other: &Self, orders: &[SortOrder]) -> Ordering {
        let by_items = self.compare_items(other, orders);
        by_items.then_with(|| direct(orders.first(), compare_rids(&self.rid, &other.rid)))
    }

    /// Compares by the sort values alone.
    pub fn compare_items(&self, other: &Self, orders: &[SortOrder]) -> Ordering {
        let pairs = self.items.iter().zip(&other.items).zip(orders);
        let mut each = pairs.map(|((left, right), order)| {
            direct(Some(order), compare(left.as_ref(), right.as_ref()))
        });
        each.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
    }
}

fn direct(order: Option<&SortOrder>, ordering: Ordering) -> Ordering {
    match order {
        Some(SortOrder::Descending) => ordering.reverse(),
        Some(SortOrder::Ascending) | None => ordering,
    }
}

/// Documents come in the order of the numbers in their RIDs; what is no RID sorts as text.
fn compare_rids(left: &str, right: &str) -> Ordering {
    let number = |rid: &str| rid.parse::<Rid>().ok()?.document_order();
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.cmp(right),
    }
}

/// Undefined is written as an absent `item`, as in `orderByItems`.
pub(super) mod undefined_as_absent {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    #[derive(Serialize, Deserialize)]
    struct Item {
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
        item: Option<Value>,
    }

    /// Keeps `null` a value: only what is absent is undefined.
    pub(in crate::merge) fn present<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Value>, D::Error> {
        Value::deserialize(deserializer).map(Some)
    }

    pub(super) fn serialize<S: Serializer>(
        items: &[Option<Value>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(items.iter().map(|item| Item { item: item.clone() }))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<Value>>, D::Error> {
        let items = Vec::<Item>::deserialize(deserializer)?;
        Ok(items.into_iter().map(|item| item.item).collect())
    }
}
