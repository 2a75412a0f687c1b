//! Partition pruning: which partition keys can hold results, by the filter.
//!
//! The filter is taken in disjunctive normal form: a list of alternatives, each of which fixes some
//! levels of the key to values. What fixes nothing leaves every key open; being wrong in that
//! direction costs requests, in the other it would lose rows.

use serde_json::Value;
use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition, PartitionKeyValue, QueryRange,
};

use super::inspect::{inner_query, path_below};
use crate::eval::Parameters;
use crate::tree::{BinaryOp, Expr, Literal, Query, UnaryOp};

/// More alternatives than this are not worth telling apart.
// Alternatives multiply where AND joins ORs; giving up costs requests, going on would cost memory.
const MAX_ALTERNATIVES: usize = 1000;

/// The keys, or prefixes of hierarchical keys, that can hold results of a query.
///
/// `None` means that any key can.
pub fn partition_keys(
    query: &Query,
    parameters: &Parameters,
    definition: &PartitionKeyDefinition,
) -> Option<Vec<PartitionKey>> {
    let mut keys: Vec<PartitionKey> = Vec::new();
    for alternative in alternatives(query, parameters, definition)? {
        let levels = alternative.into_iter().map_while(|level| level);
        // Without the first level there is no prefix.
        let key = PartitionKey::new(levels).ok()?;
        if !definition.is_hierarchical() && key.components().len() < definition.paths().len() {
            return None;
        }
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    Some(keys)
}

/// The ranges of a query plan: a closed point for each full key, a range for each prefix, or the
/// whole key space.
pub(super) fn query_ranges(
    query: &Query,
    parameters: &Parameters,
    definition: &PartitionKeyDefinition,
) -> Vec<QueryRange> {
    let everything = || vec![QueryRange::from(EffectivePartitionKeyRange::FULL)];
    let Some(keys) = partition_keys(query, parameters, definition) else { return everything() };
    let mut ranges: Vec<(EffectivePartitionKeyRange, QueryRange)> = Vec::new();
    for key in &keys {
        let Ok(range) = definition.effective_range(key) else { return everything() };
        let written = match definition.effective_key(key) {
            Ok(point) => QueryRange::from(point),
            // No key falls on the upper bound of a prefix, and the gateway writes it as inside.
            Err(_) => QueryRange { is_max_inclusive: true, ..QueryRange::from(range.clone()) },
        };
        ranges.push((range, written));
    }
    ranges.sort_by(|(left, _), (right, _)| {
        left.min().cmp(right.min()).then_with(|| right.max().cmp(left.max()))
    });
    // A prefix sorts before the keys below it, which it makes superfluous.
    ranges.dedup_by(|(next, _), (kept, _)| kept.covers(next));
    if ranges.is_empty() {
        return everything();
    }
    ranges.into_iter().map(|(_, written)| written).collect()
}

/// For each level of the key, the value an alternative pins it to.
type Alternative = Vec<Option<PartitionKeyValue>>;

struct Reader<'q> {
    root: &'q str,
    parameters: &'q Parameters,
    definition: &'q PartitionKeyDefinition,
}

/// The alternatives of a query's filter; none if it leaves every key open.
fn alternatives(
    query: &Query,
    parameters: &Parameters,
    definition: &PartitionKeyDefinition,
) -> Option<Vec<Alternative>> {
    if let Some(inner) = inner_query(query) {
        return alternatives(inner, parameters, definition);
    }
    let reader = Reader { root: query.document_alias()?, parameters, definition };
    let found = reader.read(query.filter.as_ref()?)?;
    // A contradiction has no results anywhere; asking any one key finds that out.
    if found.is_empty() {
        let nothing = vec![Some(PartitionKeyValue::Undefined); definition.paths().len()];
        return Some(vec![nothing]);
    }
    Some(found)
}

impl Reader<'_> {
    fn read(&self, expression: &Expr) -> Option<Vec<Alternative>> {
        match expression {
            Expr::Binary(BinaryOp::Equal, left, right) => {
                self.equality(left, right).or_else(|| self.equality(right, left))
            }
            Expr::In { negated: false, value, list } => {
                let each = list.iter().map(|item| self.equality(value, item));
                Some(each.collect::<Option<Vec<_>>>()?.concat())
            }
            Expr::Or(terms) => {
                let each = terms.iter().map(|term| self.read(term));
                let all = each.collect::<Option<Vec<_>>>()?.concat();
                (all.len() <= MAX_ALTERNATIVES).then_some(all)
            }
            Expr::And(terms) => {
                let pinned = terms.iter().filter_map(|term| self.read(term));
                pinned.reduce(|left, right| {
                    // Pinning less is always safe.
                    if left.len() * right.len() > MAX_ALTERNATIVES {
                        left
                    } else {
                        both(&left, &right)
                    }
                })
            }
            _ => None,
        }
    }

    fn equality(&self, path: &Expr, value: &Expr) -> Option<Vec<Alternative>> {
        let names = path_below(path, self.root)?;
        let mut paths = self.definition.paths().iter();
        let level = paths.position(|path| path.segments().eq(names.iter().copied()))?;
        let value = self.constant(value)?;
        let mut alternative = vec![None; self.definition.paths().len()];
        alternative[level] = Some(value);
        Some(vec![alternative])
    }

    fn constant(&self, expression: &Expr) -> Option<PartitionKeyValue> {
        match expression {
            Expr::Literal(Literal::Null) => Some(PartitionKeyValue::Null),
            Expr::Literal(Literal::Bool(value)) => Some((*value).into()),
            Expr::Literal(Literal::String(text)) => Some(text.as_str().into()),
            Expr::Literal(Literal::Number(number)) => number.as_f64()?.try_into().ok(),
            Expr::Unary(UnaryOp::Minus, inner) => match &**inner {
                Expr::Literal(Literal::Number(number)) => (-number.as_f64()?).try_into().ok(),
                _ => None,
            },
            Expr::Parameter(name) => {
                let value = self.parameters.get(name)?;
                let primitive = !matches!(value, Value::Array(_) | Value::Object(_));
                primitive.then(|| PartitionKeyValue::from_json(value))
            }
            _ => None,
        }
    }
}

/// Every way of satisfying both sides.
fn both(left: &[Alternative], right: &[Alternative]) -> Vec<Alternative> {
    let combine = |l: &Alternative, r: &Alternative| {
        let levels = l.iter().zip(r).map(|(l, r)| match (l, r) {
            (Some(l), Some(r)) if l != r => None,
            (Some(value), _) | (None, Some(value)) => Some(Some(value.clone())),
            (None, None) => Some(None),
        });
        levels.collect::<Option<Alternative>>()
    };
    left.iter().flat_map(|l| right.iter().filter_map(move |r| combine(l, r))).collect()
}
