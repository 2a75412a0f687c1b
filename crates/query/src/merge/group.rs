//! Merging partial aggregates and groups.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use sidereal_protocol::{AggregateType, QueryInfo};

use super::{MAX_MERGED_ROWS, MergeError};
use crate::aggregate::{self, Accumulator};
use crate::order::identity;

/// Groups being merged; a query without `GROUP BY` is one group.
#[derive(Debug)]
pub(super) struct Groups {
    shape: GroupShape,
    index: HashMap<Vec<u8>, usize>,
    groups: Vec<Group>,
    finished: bool,
}

/// What a group's result looks like.
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
    /// The same in every row of the group.
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
        Some(Self { shape, index: HashMap::new(), groups: Vec::new(), finished: false })
    }

    /// Merges a row of a rewritten query.
    pub(super) fn add(&mut self, mut row: Value) -> Result<(), MergeError> {
        let (GroupShape::Value { grouped, .. } | GroupShape::Members { grouped, .. }) = self.shape;
        let key = match grouped {
            true => group_key(&row)?,
            false => Vec::new(),
        };
        let payload = match &self.shape {
            GroupShape::Value { grouped: false, .. } => Some(row),
            _ => row.as_object_mut().and_then(|row| row.swap_remove("payload")),
        };
        let at = match self.index.get(&key) {
            Some(at) => *at,
            None => {
                if self.groups.len() == MAX_MERGED_ROWS {
                    return Err(MergeError::TooManyRows);
                }
                self.groups.push(self.shape.start(payload.as_ref())?);
                self.index.insert(key, self.groups.len() - 1);
                self.groups.len() - 1
            }
        };
        self.groups[at].add(payload)
    }

    /// The results, once, in the order in which groups first appeared.
    pub(super) fn finish(&mut self) -> Vec<Value> {
        if std::mem::replace(&mut self.finished, true) {
            return Vec::new();
        }
        let mut groups = std::mem::take(&mut self.groups);
        if groups.is_empty()
            && let GroupShape::Value { aggregate: Some(kind), grouped: false } = &self.shape
        {
            // Nothing came, so nothing was counted.
            groups.push(Group::Value(Column::Aggregate(aggregate::start(*kind))));
        }
        groups.into_iter().filter_map(Group::finish).collect()
    }
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
