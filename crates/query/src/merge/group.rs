//! Merging partial aggregates and groups.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use sidereal_protocol::{AggregateType, QueryInfo, SortOrder};

use super::MergeError;
use crate::aggregate::{self, Accumulator};
use crate::order::{compare, identity};
use crate::tree::{Expr, Projection};

/// Groups being merged; a query without `GROUP BY` is one group.
#[derive(Debug)]
pub(super) struct Groups {
    shape: GroupShape,
    order: Vec<GroupOrder>,
    index: HashMap<Vec<u8>, usize>,
    groups: Vec<Entry>,
    finished: bool,
}

/// One sort key of groups: its direction, and the aggregate that it is, if it is one.
#[derive(Clone, Copy, Debug)]
struct GroupOrder {
    direction: SortOrder,
    aggregate: Option<AggregateType>,
}

/// A group, with what it is sorted by; both lists are empty where groups are not sorted.
#[derive(Debug)]
struct Entry {
    keys: Vec<Option<Value>>,
    sort: Vec<Column>,
    group: Group,
}

/// The form of a group's result.
#[derive(Clone, Debug)]
enum GroupShape {
    /// `SELECT VALUE aggregate`, or a plain expression if there is no aggregate.
    Value { aggregate: Option<AggregateType>, grouped: bool },
    /// A select list: the aggregate behind each member.
    Members { aggregates: BTreeMap<String, Option<AggregateType>>, grouped: bool },
}

#[derive(Debug)]
enum Group {
    Value(Column),
    Members(Vec<(String, Column)>),
}

#[derive(Debug)]
enum Column {
    Aggregate(Accumulator),
    /// A value that is equal in every row of the group.
    Plain(Option<Value>),
}

impl Groups {
    /// The groups a plan asks for, if it does.
    pub(super) fn of(info: &QueryInfo) -> Option<Self> {
        let grouped = !info.group_by_expressions.is_empty();
        let aggregates = &info.group_by_alias_to_aggregate_type;
        let shape = match info.aggregates.first() {
            Some(kind) => GroupShape::Value { aggregate: Some(*kind), grouped },
            None if !aggregates.is_empty() && !info.has_select_value => {
                GroupShape::Members { aggregates: aggregates.clone(), grouped }
            }
            None if grouped => GroupShape::Value { aggregate: None, grouped },
            None => return None,
        };
        let order = if grouped { group_order(info) } else { Vec::new() };
        Some(Self { shape, order, index: HashMap::new(), groups: Vec::new(), finished: false })
    }

    /// Merges a row of a rewritten query. At most so many groups are held.
    pub(super) fn add(&mut self, mut row: Value, max_rows: usize) -> Result<(), MergeError> {
        let mut sort_values = Vec::new();
        if !self.order.is_empty() {
            (sort_values, row) = unwrap_sorted(row)?;
        }
        let (GroupShape::Value { grouped, .. } | GroupShape::Members { grouped, .. }) = self.shape;
        let key = match grouped {
            true => group_key(&row)?,
            false => Vec::new(),
        };
        let group_keys = match self.order.is_empty() {
            true => Vec::new(),
            false => items_of(row.get("groupByItems"))?,
        };
        let payload = match &self.shape {
            GroupShape::Value { grouped: false, .. } => Some(row),
            _ => row.as_object_mut().and_then(|row| row.swap_remove("payload")),
        };
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None => {
                if self.groups.len() >= max_rows {
                    return Err(MergeError::TooManyRows);
                }
                let group = self.shape.start(payload.as_ref())?;
                let sort = self.order.iter().map(|order| Column::start(order.aggregate)).collect();
                self.groups.push(Entry { keys: Vec::new(), sort, group });
                self.index.insert(key, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        let entry = &mut self.groups[at];
        if entry.keys.is_empty() && !self.order.is_empty() {
            entry.keys = group_keys;
        }
        for (column, value) in entry.sort.iter_mut().zip(sort_values) {
            column.add(value);
        }
        entry.group.add(payload)
    }

    /// The results, once: sorted if the query sorts its groups, else in the order in which they first
    /// appeared.
    pub(super) fn finish(&mut self) -> Vec<Value> {
        if std::mem::replace(&mut self.finished, true) {
            return Vec::new();
        }
        let mut groups = std::mem::take(&mut self.groups);
        if groups.is_empty()
            && let GroupShape::Value { aggregate: Some(kind), grouped: false } = &self.shape
        {
            // Nothing came, so nothing was counted.
            let group = Group::Value(Column::Aggregate(aggregate::start(*kind)));
            groups.push(Entry { keys: Vec::new(), sort: Vec::new(), group });
        }
        if self.order.is_empty() {
            return groups.into_iter().filter_map(|entry| entry.group.finish()).collect();
        }
        self.sorted(groups)
    }

    /// Ties go by the groups' keys, as they do within one partition.
    fn sorted(&self, groups: Vec<Entry>) -> Vec<Value> {
        let mut rows: Vec<_> = groups
            .into_iter()
            .filter_map(|entry| {
                let sort: Vec<_> = entry.sort.into_iter().map(Column::finish).collect();
                Some((sort, entry.keys, entry.group.finish()?))
            })
            .collect();
        rows.sort_by(|(left, left_keys, _), (right, right_keys, _)| {
            let pairs = left.iter().zip(right).zip(&self.order);
            let mut by_values = pairs.map(|((left, right), order)| {
                let ordering = compare(left.as_ref(), right.as_ref());
                match order.direction {
                    SortOrder::Ascending => ordering,
                    SortOrder::Descending => ordering.reverse(),
                }
            });
            let by_values = by_values.find(|ordering| ordering.is_ne());
            by_values.unwrap_or_else(|| compare_keys(left_keys, right_keys))
        });
        rows.into_iter().map(|(.., row)| row).collect()
    }
}

fn compare_keys(left: &[Option<Value>], right: &[Option<Value>]) -> Ordering {
    let mut pairs = left.iter().zip(right).map(|(l, r)| compare(l.as_ref(), r.as_ref()));
    pairs.find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

/// The sort keys of a plan that groups.
fn group_order(info: &QueryInfo) -> Vec<GroupOrder> {
    let keys = info.order_by.iter().zip(&info.order_by_expressions);
    keys.map(|(direction, text)| GroupOrder {
        direction: *direction,
        aggregate: aggregate_of(text),
    })
    .collect()
}

/// The aggregate that an expression of a plan is, if it is one.
fn aggregate_of(expression: &str) -> Option<AggregateType> {
    let query = crate::parser::parse(&format!("SELECT VALUE {expression}")).ok()?;
    match query.select.projection {
        Projection::Value(Expr::Call { name, .. }) => aggregate::by_name(&name),
        _ => None,
    }
}

/// The sort values of a row of sorted groups, and the row of a grouped query that it wraps.
fn unwrap_sorted(mut row: Value) -> Result<(Vec<Option<Value>>, Value), MergeError> {
    let members = row.as_object_mut().ok_or(MergeError::UnexpectedRow)?;
    let items = members.swap_remove("orderByItems");
    let payload = members.swap_remove("payload").ok_or(MergeError::UnexpectedRow)?;
    Ok((items_of(items.as_ref())?, payload))
}

/// The values of a list of `{"item": value}`; one that is absent is undefined.
fn items_of(items: Option<&Value>) -> Result<Vec<Option<Value>>, MergeError> {
    let items = items.and_then(Value::as_array).ok_or(MergeError::UnexpectedRow)?;
    Ok(items.iter().map(|item| item.get("item").cloned()).collect())
}

/// A key that rows of one group share.
fn group_key(row: &Value) -> Result<Vec<u8>, MergeError> {
    let items = row.get("groupByItems").and_then(Value::as_array);
    let items = items.ok_or(MergeError::UnexpectedRow)?;
    Ok(items.iter().flat_map(|item| identity(item.get("item"))).collect())
}

impl GroupShape {
    fn start(&self, payload: Option<&Value>) -> Result<Group, MergeError> {
        match self {
            Self::Value { aggregate, .. } => Ok(Group::Value(Column::start(*aggregate))),
            Self::Members { aggregates, .. } => {
                let payload =
                    payload.and_then(Value::as_object).ok_or(MergeError::UnexpectedRow)?;
                let kind = |name: &String| aggregates.get(name).copied().flatten();
                let column = |name: &String| (name.clone(), Column::start(kind(name)));
                Ok(Group::Members(payload.keys().map(column).collect()))
            }
        }
    }
}

impl Group {
    fn add(&mut self, payload: Option<Value>) -> Result<(), MergeError> {
        match self {
            Self::Value(Column::Aggregate(accumulator)) => {
                let partial = payload.as_ref().and_then(|payload| payload.get(0));
                accumulator.merge(partial.ok_or(MergeError::UnexpectedRow)?);
            }
            Self::Value(column) => column.add(payload),
            Self::Members(columns) => {
                let Some(Value::Object(mut members)) = payload else {
                    return Err(MergeError::UnexpectedRow);
                };
                for (name, column) in columns {
                    column.add(members.swap_remove(name));
                }
            }
        }
        Ok(())
    }

    fn finish(self) -> Option<Value> {
        match self {
            Self::Value(column) => column.finish(),
            Self::Members(columns) => {
                let members = columns
                    .into_iter()
                    .filter_map(|(name, column)| Some((name, column.finish()?)))
                    .collect::<Map<_, _>>();
                Some(Value::Object(members))
            }
        }
    }
}

impl Column {
    fn start(kind: Option<AggregateType>) -> Self {
        kind.map_or(Self::Plain(None), |kind| Self::Aggregate(aggregate::start(kind)))
    }

    fn add(&mut self, value: Option<Value>) {
        match (self, value) {
            (Self::Aggregate(accumulator), Some(partial)) => accumulator.merge(&partial),
            (Self::Plain(known @ None), value) => *known = value,
            _ => {}
        }
    }

    fn finish(self) -> Option<Value> {
        match self {
            Self::Aggregate(accumulator) => accumulator.finish().into_value(),
            Self::Plain(value) => value,
        }
    }
}
