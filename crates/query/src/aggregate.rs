//! Aggregate functions and their accumulators; partial results of partitions are merged here too.
//!
//! Undefined values never count. What cannot be aggregated (a string in a sum, an object in a
//! minimum) makes the whole result undefined rather than being passed over.

use std::collections::HashSet;

use serde_json::Value;
use sidereal_protocol::AggregateType;

use crate::order::{compare_views, write_identity};
use crate::value::{Datum, View, double};

/// The aggregate of this name, in any case.
pub(crate) fn by_name(name: &str) -> Option<AggregateType> {
    const NAMES: [(&str, AggregateType); 8] = [
        ("AVG", AggregateType::Average),
        ("COUNT", AggregateType::Count),
        ("COUNTIF", AggregateType::CountIf),
        ("MAKELIST", AggregateType::MakeList),
        ("MAKESET", AggregateType::MakeSet),
        ("MAX", AggregateType::Max),
        ("MIN", AggregateType::Min),
        ("SUM", AggregateType::Sum),
    ];
    let found = NAMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, kind)| *kind)
}

/// An accumulator that has seen nothing.
pub(crate) fn start(kind: AggregateType) -> Accumulator {
    match kind {
        AggregateType::Average => Accumulator::Average { sum: Some(0.0), count: 0 },
        AggregateType::Count => Accumulator::Count(0),
        AggregateType::CountIf => Accumulator::CountIf(0),
        AggregateType::MakeList => Accumulator::List { items: Vec::new(), size: 0 },
        AggregateType::MakeSet => {
            Accumulator::Set { items: Vec::new(), seen: HashSet::new(), size: 0 }
        }
        AggregateType::Max => Accumulator::Extreme { largest: true, state: Extreme::Empty },
        AggregateType::Min => Accumulator::Extreme { largest: false, state: Extreme::Empty },
        AggregateType::Sum => Accumulator::Sum(Some(0.0)),
    }
}

/// The accumulator of an aggregate.
#[derive(Clone, Debug)]
pub(crate) enum Accumulator {
    /// `None` once a value that is no number was added: the result is undefined.
    Average {
        sum: Option<f64>,
        count: u64,
    },
    Count(u64),
    CountIf(u64),
    Extreme {
        largest: bool,
        state: Extreme,
    },
    List {
        items: Vec<Value>,
        size: usize,
    },
    Set {
        items: Vec<Value>,
        seen: HashSet<Vec<u8>>,
        size: usize,
    },
    Sum(Option<f64>),
}

/// The smallest or largest value so far.
#[derive(Clone, Debug)]
pub(crate) enum Extreme {
    Empty,
    Value(Value),
    /// Something without an order was among the values.
    Undefined,
}

impl Accumulator {
    /// Accumulates the value of one row.
    pub(crate) fn add(&mut self, value: Datum<'_>) {
        if value.is_undefined() {
            return;
        }
        match self {
            Self::Count(count) => *count += 1,
            Self::CountIf(count) => *count += u64::from(value.as_bool() == Some(true)),
            Self::Sum(sum) => *sum = plus(*sum, value.as_f64()),
            Self::Average { sum, count } => {
                *sum = plus(*sum, value.as_f64());
                *count += 1;
            }
            Self::Extreme { largest, state } => state.add(*largest, value),
            Self::List { items, size } => {
                *size += value.size();
                items.extend(value.into_value());
            }
            Self::Set { items, seen, size } => {
                let mut key = Vec::new();
                write_identity(value.view(), &mut key);
                if seen.insert(key) {
                    *size += value.size();
                    items.extend(value.into_value());
                }
            }
        }
    }

    /// How large the result has become, for aggregates that grow with their rows.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::List { size, .. } | Self::Set { size, .. } => *size,
            Self::Extreme { state: Extreme::Value(Value::String(text)), .. } => text.len(),
            _ => 0,
        }
    }

    /// The result.
    pub(crate) fn finish(self) -> Datum<'static> {
        match self {
            Self::Count(count) | Self::CountIf(count) => Datum::Number(count.into()),
            Self::Sum(sum) => sum.map_or(Datum::Undefined, Datum::number),
            Self::Average { count: 0, .. } | Self::Average { sum: None, .. } => Datum::Undefined,
            Self::Average { sum: Some(sum), count } => Datum::number(sum / count as f64),
            Self::Extreme { state: Extreme::Value(value), .. } => Datum::owned(value),
            Self::Extreme { .. } => Datum::Undefined,
            Self::List { items, .. } | Self::Set { items, .. } => Datum::owned(Value::Array(items)),
        }
    }

    /// Merges the partial aggregate of another partition, as the rewritten query reports it: a
    /// member `item`, for `MIN` and `MAX` also `item2` with the count of the values.
    pub(crate) fn merge(&mut self, partial: &Value) {
        let item = partial.get("item");
        match self {
            Self::Count(count) | Self::CountIf(count) => {
                *count += item.map_or(0, as_count);
            }
            Self::Sum(sum) => *sum = plus(*sum, item.and_then(as_double)),
            Self::Average { sum, count } => {
                let part = |name| item.and_then(|item| item.get(name));
                *sum = plus(*sum, part("sum").and_then(as_double));
                *count += part("count").map_or(0, as_count);
            }
            Self::Extreme { largest, state } => merge_extreme(*largest, state, partial),
            Self::List { .. } | Self::Set { .. } => {
                let items = item.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                items.iter().for_each(|item| self.add(Datum::of(item)));
            }
        }
    }
}

impl Extreme {
    fn add(&mut self, largest: bool, value: Datum<'_>) {
        if !value.view().is_primitive() {
            *self = Self::Undefined;
        }
        let better = match self {
            Self::Undefined => false,
            Self::Empty => true,
            Self::Value(best) => {
                let order = compare_views(value.view(), View::of(best));
                if largest { order.is_gt() } else { order.is_lt() }
            }
        };
        if better {
            *self = value.into_value().map_or(Self::Undefined, Self::Value);
        }
    }
}

fn merge_extreme(largest: bool, state: &mut Extreme, partial: &Value) {
    let Some(detail) = partial.get("item2") else {
        if let Some(item) = partial.get("item") {
            state.add(largest, Datum::of(item));
        }
        return;
    };
    if detail.get("count").map(as_count) == Some(0) {
        return;
    }
    match detail.get(if largest { "max" } else { "min" }) {
        Some(item) => state.add(largest, Datum::of(item)),
        // There were values, and they had no order among them.
        None => *state = Extreme::Undefined,
    }
}

fn plus(sum: Option<f64>, value: Option<f64>) -> Option<f64> {
    Some(sum? + value?)
}

fn as_double(value: &Value) -> Option<f64> {
    value.as_number().map(double)
}

/// A count, which the service may write as a double.
fn as_count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| as_double(value).unwrap_or(0.0) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Merges the partial aggregates of partitions.
    fn merged(kind: AggregateType, partials: &[Value]) -> Option<Value> {
        let mut accumulator = start(kind);
        partials.iter().for_each(|partial| accumulator.merge(partial));
        accumulator.finish().into_value()
    }

    #[test]
    fn partial_results_combine_in_any_spelling() {
        use AggregateType as A;
        let average = |sum: f64, count: u64| json!({"item": {"sum": sum, "count": count}});
        let low = |min: Value| json!({"item": min, "item2": {"min": min, "count": 1}});
        let cases = [
            (A::Count, vec![json!({"item": 2}), json!({"item": 3.0})], Some(json!(5))),
            (A::Sum, vec![json!({"item": 2}), json!({"item": 0.5})], Some(json!(2.5))),
            (A::Sum, vec![json!({"item": 2}), json!({})], None),
            (A::Average, vec![average(4.0, 1), average(2.0, 2)], Some(json!(2))),
            (A::Average, vec![average(0.0, 0)], None),
            (A::Average, vec![average(1.0, 1), json!({"item": {"count": 1}})], None),
            (A::Min, vec![low(json!(2)), low(json!("a")), low(json!(true))], Some(json!(true))),
            (A::Min, vec![json!({"item": 3}), json!({"item": 2})], Some(json!(2))),
            (A::Min, vec![low(json!(1)), json!({"item2": {"count": 0}})], Some(json!(1))),
            (A::Min, vec![low(json!(1)), json!({"item2": {"count": 2.0}})], None),
            (
                A::Max,
                vec![
                    json!({"item2": {"max": 1, "count": 1}}),
                    json!({"item2": {"max": 7, "count": 1}}),
                ],
                Some(json!(7)),
            ),
            (
                A::MakeSet,
                vec![json!({"item": [1, 2]}), json!({"item": [2.0, 3]})],
                Some(json!([1, 2, 3])),
            ),
            (A::MakeList, vec![json!({"item": [1]}), json!({"item": [1]})], Some(json!([1, 1]))),
        ];
        for (kind, partials, expected) in cases {
            assert_eq!(merged(kind, &partials), expected, "{kind} of {partials:?}");
        }
    }
}
