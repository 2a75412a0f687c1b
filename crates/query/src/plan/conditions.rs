//! Index conditions: the conditions on single paths that a filter implies.
//!
//! A condition holds for every document that the filter accepts, and for others. An index narrows the candidates
//! by it and the filter is still evaluated, so a condition that is too wide costs time and never a row. What
//! cannot be told from an index is left out of an `AND`, and makes an `OR` say nothing.

use std::ops::Bound;

use serde_json::{Number, Value};

use super::inspect::{inner_query, path_below};
use crate::eval::Parameters;
use crate::order::{sort_key_type, write_sort_key, write_sort_prefix};
use crate::tree::{BinaryOp, Expr, Literal, Query, UnaryOp};

/// A condition on the values at paths of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexCondition {
    /// The value at a path lies in one of the ranges.
    Path {
        /// The value that is looked at.
        path: IndexPath,
        /// Where it lies.
        ranges: Vec<KeyRange>,
    },
    /// All of them hold.
    All(Vec<IndexCondition>),
    /// One of them holds.
    Any(Vec<IndexCondition>),
}

/// A value of a document, or the elements of an array in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IndexPath {
    /// The names from the document down.
    pub segments: Vec<String>,
    /// Whether the elements of the array there are meant, rather than the value.
    pub elements: bool,
}

/// A range of [sort keys](crate::order::write_sort_key).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub from: Bound<Vec<u8>>,
    /// Where it ends.
    pub to: Bound<Vec<u8>>,
}

/// The condition that a query's filter puts on its documents; none if an index cannot tell anything.
pub fn index_condition(query: &Query, parameters: &Parameters) -> Option<IndexCondition> {
    if let Some(inner) = inner_query(query) {
        return index_condition(inner, parameters);
    }
    let reader = Reader { root: query.document_alias()?, parameters };
    reader.read(query.filter.as_ref()?)
}

impl IndexCondition {
    /// The paths that the condition looks at, each once.
    pub fn paths(&self) -> Vec<&IndexPath> {
        let mut paths = match self {
            Self::Path { path, .. } => vec![path],
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().flat_map(Self::paths).collect()
            }
        };
        paths.sort();
        paths.dedup();
        paths
    }
}

struct Reader<'q> {
    root: &'q str,
    parameters: &'q Parameters,
}

impl Reader<'_> {
    fn read(&self, expression: &Expr) -> Option<IndexCondition> {
        match expression {
            Expr::And(terms) => {
                let mut known: Vec<_> = terms.iter().filter_map(|term| self.read(term)).collect();
                match known.len() {
                    0 | 1 => known.pop(),
                    _ => Some(IndexCondition::All(known)),
                }
            }
            Expr::Or(terms) => {
                let known = terms.iter().map(|term| self.read(term)).collect::<Option<_>>()?;
                Some(IndexCondition::Any(known))
            }
            Expr::Binary(op, left, right) => {
                let (op, path, value) = match self.path(left) {
                    Some(path) => (*op, path, self.constant(right)?),
                    None => (mirrored(*op)?, self.path(right)?, self.constant(left)?),
                };
                self.condition(path, vec![comparison(op, &value)?])
            }
            Expr::Between { negated: false, operands } => {
                let [value, low, high] = &**operands;
                let range = between(&self.constant(low)?, &self.constant(high)?)?;
                self.condition(self.path(value)?, vec![range])
            }
            Expr::In { negated: false, value, list } => {
                let point = |item| self.constant(item).map(|value| KeyRange::point(&value));
                let points = list.iter().map(point).collect::<Option<_>>()?;
                self.condition(self.path(value)?, points)
            }
            Expr::Call { name, arguments } => self.call(&name.to_ascii_uppercase(), arguments),
            // A path by itself is a condition that holds where it is `true`.
            path => self.condition(self.path(path)?, vec![KeyRange::point(&Value::Bool(true))]),
        }
    }

    fn call(&self, name: &str, arguments: &[Expr]) -> Option<IndexCondition> {
        match (name, arguments) {
            ("IS_DEFINED", [path]) => self.condition(self.path(path)?, vec![KeyRange::defined()]),
            ("STARTSWITH" | "STRINGEQUALS", [path, text]) => {
                let Value::String(text) = self.constant(text)? else { return None };
                let range = match name {
                    "STARTSWITH" => KeyRange::prefix(&text),
                    _ => KeyRange::point(&Value::String(text)),
                };
                self.condition(self.path(path)?, vec![range])
            }
            ("ARRAY_CONTAINS", [path, value]) => {
                let path = IndexPath { elements: true, ..self.path(path)? };
                self.condition(path, vec![KeyRange::point(&self.constant(value)?)])
            }
            _ => None,
        }
    }

    fn condition(&self, path: IndexPath, ranges: Vec<KeyRange>) -> Option<IndexCondition> {
        Some(IndexCondition::Path { path, ranges })
    }

    fn path(&self, expression: &Expr) -> Option<IndexPath> {
        let names = path_below(expression, self.root)?;
        // The document itself has no index.
        let segments: Vec<String> = names.into_iter().map(str::to_owned).collect();
        (!segments.is_empty()).then_some(IndexPath { segments, elements: false })
    }

    fn constant(&self, expression: &Expr) -> Option<Value> {
        Some(match expression {
            Expr::Literal(Literal::Null) => Value::Null,
            Expr::Literal(Literal::Bool(value)) => Value::Bool(*value),
            Expr::Literal(Literal::String(text)) => Value::String(text.to_string()),
            Expr::Literal(Literal::Number(number)) => Value::Number((**number).clone()),
            Expr::Unary(UnaryOp::Minus, inner) => match &**inner {
                Expr::Literal(Literal::Number(number)) => {
                    Value::Number(Number::from_f64(-number.as_f64()?)?)
                }
                _ => return None,
            },
            Expr::Parameter(name) => self.parameters.get(name)?.clone(),
            _ => return None,
        })
    }
}

impl KeyRange {
    fn point(value: &Value) -> Self {
        let key = key_of(value);
        Self { from: Bound::Included(key.clone()), to: Bound::Included(key) }
    }

    /// Every value but undefined, whose key is a single zero.
    fn defined() -> Self {
        Self { from: Bound::Excluded(vec![0]), to: Bound::Unbounded }
    }

    /// The texts that begin with `text`.
    fn prefix(text: &str) -> Self {
        let mut from = vec![sort_key_type(&Value::String(String::new()))];
        write_sort_prefix(text, &mut from);
        let mut to = from.clone();
        // The next key that does not begin so: no byte of UTF-8 or of an escape is followed by a carry, for the
        // type's own byte is small.
        while let Some(last) = to.pop() {
            if last < u8::MAX {
                to.push(last + 1);
                break;
            }
        }
        Self { from: Bound::Included(from), to: Bound::Excluded(to) }
    }
}

fn key_of(value: &Value) -> Vec<u8> {
    let mut key = Vec::new();
    write_sort_key(Some(value), &mut key);
    key
}

/// `value op path` as `path op value`.
fn mirrored(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Equal => BinaryOp::Equal,
        BinaryOp::Less => BinaryOp::Greater,
        BinaryOp::LessOrEqual => BinaryOp::GreaterOrEqual,
        BinaryOp::Greater => BinaryOp::Less,
        BinaryOp::GreaterOrEqual => BinaryOp::LessOrEqual,
        _ => return None,
    })
}

/// The range of `path op value`; an order exists only among values of one type.
fn comparison(op: BinaryOp, value: &Value) -> Option<KeyRange> {
    let kind = sort_key_type(value);
    let type_begins = || Bound::Included(vec![kind]);
    let type_ends = || Bound::Excluded(vec![kind + 1]);
    let key = key_of(value);
    let (from, to) = match op {
        BinaryOp::Equal => return Some(KeyRange::point(value)),
        BinaryOp::Less => (type_begins(), Bound::Excluded(key)),
        BinaryOp::LessOrEqual => (type_begins(), Bound::Included(key)),
        BinaryOp::Greater => (Bound::Excluded(key), type_ends()),
        BinaryOp::GreaterOrEqual => (Bound::Included(key), type_ends()),
        _ => return None,
    };
    Some(KeyRange { from, to })
}

fn between(low: &Value, high: &Value) -> Option<KeyRange> {
    let (from, to) = (key_of(low), key_of(high));
    // An empty range is one too, but it has to begin before it ends.
    let ordered = sort_key_type(low) == sort_key_type(high) && from <= to;
    ordered.then_some(KeyRange { from: Bound::Included(from), to: Bound::Included(to) })
}

#[cfg(test)]
mod tests {
    use std::ops::RangeBounds;

    use serde_json::json;

    use super::*;
    use crate::{Context, Program, parse};

    fn condition(filter: &str) -> Option<IndexCondition> {
        let parameters = Parameters::from([("@p".to_owned(), json!("b"))]);
        let query = parse(&format!("SELECT * FROM c WHERE {filter}")).unwrap();
        index_condition(&query, &parameters)
    }

    /// The answer of an index for a document.
    fn may_hold(condition: &IndexCondition, document: &Value) -> bool {
        match condition {
            IndexCondition::All(all) => all.iter().all(|one| may_hold(one, document)),
            IndexCondition::Any(any) => any.iter().any(|one| may_hold(one, document)),
            IndexCondition::Path { path, ranges } => {
                let descend = |value: &'_ Value, name: &String| value.get(name).cloned();
                let mut value = Some(document.clone());
                for name in &path.segments {
                    value = value.and_then(|value| descend(&value, name));
                }
                let values = match (&value, path.elements) {
                    (Some(Value::Array(items)), true) => items.iter().cloned().map(Some).collect(),
                    (_, true) => Vec::new(),
                    (_, false) => vec![value],
                };
                values.iter().any(|value| {
                    let mut key = Vec::new();
                    write_sort_key(value.as_ref(), &mut key);
                    ranges.iter().any(|range| (range.from.clone(), range.to.clone()).contains(&key))
                })
            }
        }
    }

    #[test]
    fn a_condition_holds_for_every_document_that_the_filter_accepts() {
        let values = [
            json!(null),
            json!(true),
            json!(false),
            json!(-1),
            json!(0),
            json!(5),
            json!(5.5),
            json!(1e300),
            json!(""),
            json!("a"),
            json!("ab"),
            json!("b"),
            json!("b\u{0}"),
            json!([]),
            json!([5]),
            json!(["a", 5]),
            json!({}),
            json!({"d": 5}),
        ];
        let mut documents: Vec<Value> = values.iter().map(|value| json!({ "a": value })).collect();
        documents.push(json!({}));
        for filter in [
            "c.a = 5",
            "5 = c.a",
            "c.a > 0",
            "0 < c.a",
            "c.a >= -1",
            "c.a <= 5",
            "c.a < 'b'",
            "c.a > null",
            "c.a = 'b'",
            "c.a = @p",
            "c.a IN (5, 'a', null)",
            "c.a BETWEEN 0 AND 5.5",
            "c.a BETWEEN 'a' AND 'b'",
            "IS_DEFINED(c.a)",
            "STARTSWITH(c.a, 'a')",
            "StartsWith(c.a, '')",
            "STARTSWITH(c.a, 'b')",
            "ARRAY_CONTAINS(c.a, 5)",
            "c.a.d = 5",
            "c.a",
            "c.a = 5 OR c.a = 'a'",
            "c.a = 5 AND c.b != 1",
            "c.a = 5 AND c.a > 0",
            "(c.a > 0 OR c.a = 'a') AND IS_DEFINED(c.a)",
            "c['a'] = true",
            "c.a = {'d': 5}",
            "c.a = [5]",
            "StringEquals(c.a, 'ab')",
        ] {
            let found = condition(filter);
            let text = format!("SELECT * FROM c WHERE {filter}");
            let parameters = Parameters::from([("@p".to_owned(), json!("b"))]);
            let program = Program::new(&parse(&text).unwrap(), &parameters).unwrap();
            let mut excluded = 0;
            for document in &documents {
                let accepted = !program.run([document], &Context::new(0, 0)).unwrap().is_empty();
                let candidate = found.as_ref().is_none_or(|found| may_hold(found, document));
                assert!(candidate || !accepted, "{filter}: {document}");
                excluded += usize::from(!candidate);
            }
            let computed = filter.contains('{') || filter.contains('[') && !filter.contains('\'');
            assert!(computed || excluded > 0, "{filter} narrows nothing");
        }
    }

    #[test]
    fn what_an_index_cannot_tell_is_no_condition() {
        for filter in [
            "c.a != 5",
            "NOT c.a = 5",
            "c.a = c.b",
            "c.a + 1 = 5",
            "c.a = 5 OR c.b != 5",
            "CONTAINS(c.a, 'x')",
            "STARTSWITH(c.a, 'x', true)",
            "ARRAY_CONTAINS(c.a, {'x': 1}, true)",
            "c.a NOT IN (1)",
            "c[0] = 1",
            "c.a IN (1, c.b)",
            "c.a BETWEEN 1 AND 'x'",
            "c = 5",
            "c.a = undefined",
            "c.a = @missing",
        ] {
            assert_eq!(condition(filter), None, "{filter}");
        }
        let known = condition("c.a != 5 AND c.b = 1 AND c.x.y = 2").unwrap();
        let names: Vec<_> = known.paths().iter().map(|path| path.segments.join("/")).collect();
        assert_eq!(names, ["b", "x/y"]);
    }
}
