//! Which requests read a number of items. Pure.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use serde_json::Value;
use serde_json::value::RawValue;
use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition, PartitionKeyPath,
    PartitionKeyValue, ResourceType, RoutingMap, check_id,
};

use crate::{Error, Result};

/// The most items of one query: its text and its parameters stay far below what the service takes.
pub(super) const MAX_TOGETHER: usize = 100;

/// More rows than a query can have: a page that is full says that there is another, which would be empty.
pub(super) const PAGE_ROWS: u32 = 2 * MAX_TOGETHER as u32;

/// An item, by what it is found by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub(super) key: PartitionKey,
    pub(super) id: String,
}

/// One request, but for pages that do not fit into one.
#[derive(Debug, PartialEq)]
pub(super) enum Ask {
    /// One item alone: a point read is cheaper than any query.
    Read(Name),
    /// Items of one partition range.
    Query { scope: Scope, text: String, parameters: Vec<(String, Value)> },
}

/// The scope of a query: one key, or a partition range.
#[derive(Debug, PartialEq)]
pub(super) enum Scope {
    /// All of its items have this key.
    Key(PartitionKey),
    Range(EffectivePartitionKeyRange),
}

/// The requests that read items, each named once.
///
/// # Errors
///
/// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if a key does not fit the container's definition, or an id is not valid.
pub(super) fn plan<'a>(
    names: impl Iterator<Item = &'a Name>,
    definition: &PartitionKeyDefinition,
    map: &RoutingMap,
) -> Result<Vec<Ask>> {
    let mut by_range: BTreeMap<usize, Vec<&Name>> = BTreeMap::new();
    for name in names {
        check_id(ResourceType::Document, &name.id)?;
        let effective_key = definition.effective_key(&whole_key(name, definition)?)?;
        by_range.entry(map.position(&effective_key)).or_default().push(name);
    }
    let mut asks = Vec::new();
    for (position, names) in by_range {
        let range = map.ranges()[position].range();
        asks.extend(names.chunks(MAX_TOGETHER).map(|chunk| ask(chunk, definition, range)));
    }
    Ok(asks)
}

/// The key with a component for each path.
fn whole_key(name: &Name, definition: &PartitionKeyDefinition) -> Result<PartitionKey> {
    let (given, wanted) = (name.key.components().len(), definition.paths().len());
    if given == wanted || given == 0 {
        return Ok(name.key.clone());
    }
    Err(Error::invalid(format!(
        "the key {} of the item {} has {given} components and the container is partitioned by {wanted}, \
         {definition}: give a component for each",
        name.key, name.id
    )))
}

fn ask(
    names: &[&Name],
    definition: &PartitionKeyDefinition,
    range: &EffectivePartitionKeyRange,
) -> Ask {
    let [first, rest @ ..] = names else {
        // Chunks are not empty.
        return Ask::Query {
            scope: Scope::Range(range.clone()),
            text: String::new(),
            parameters: Vec::new(),
        };
    };
    if rest.is_empty() {
        return Ask::Read((*first).clone());
    }
    let mut filter = Filter { text: String::new(), parameters: Vec::new() };
    let has_one_key = rest.iter().all(|name| name.key == first.key)
        && first.key.components().len() == definition.paths().len();
    let is_by_id = definition.paths().len() == 1 && definition.paths()[0].as_str() == "/id";
    match has_one_key || is_by_id {
        true => filter.ids(names),
        false => filter.pairs(names, definition),
    }
    let scope = match has_one_key {
        true => Scope::Key(first.key.clone()),
        false => Scope::Range(range.clone()),
    };
    let text = format!("SELECT * FROM c WHERE {}", filter.text);
    Ask::Query { scope, text, parameters: filter.parameters }
}

/// The condition of a query, as it is written.
struct Filter {
    text: String,
    parameters: Vec<(String, Value)>,
}

impl Filter {
    fn ids(&mut self, names: &[&Name]) {
        self.text.push_str("c.id IN (");
        for (number, name) in names.iter().enumerate() {
            let separator = if number == 0 { "" } else { ", " };
            self.parameter(separator, format!("@i{number}"), Value::String(name.id.clone()));
        }
        self.text.push(')');
    }

    fn pairs(&mut self, names: &[&Name], definition: &PartitionKeyDefinition) {
        for (number, name) in names.iter().enumerate() {
            let opening = if number == 0 { "(c.id = " } else { " OR (c.id = " };
            self.parameter(opening, format!("@i{number}"), Value::String(name.id.clone()));
            let missing = std::iter::repeat(&PartitionKeyValue::Undefined);
            let components = name.key.components().iter().chain(missing);
            for (level, (path, component)) in definition.paths().iter().zip(components).enumerate()
            {
                let property = path.segments().fold("c".to_owned(), |property, segment| {
                    // A JSON string is one of the query language's.
                    format!("{property}[{}]", Value::from(segment))
                });
                match component {
                    PartitionKeyValue::Undefined => {
                        // Writing to a string cannot fail.
                        let _ = write!(self.text, " AND NOT IS_DEFINED({property})");
                    }
                    known => {
                        let value = serde_json::to_value(known).unwrap_or_default();
                        let equals = format!(" AND {property} = ");
                        self.parameter(&equals, format!("@p{number}_{level}"), value);
                    }
                }
            }
            self.text.push(')');
        }
    }

    fn parameter(&mut self, before: &str, name: String, value: Value) {
        self.text.push_str(before);
        self.text.push_str(&name);
        self.parameters.push((name, value));
    }
}

/// The item that a row is, by its text. Of an item only the properties that name it are decoded.
pub(super) fn name_of(row: &str, definition: &PartitionKeyDefinition) -> Option<Name> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(row).ok()?;
    let id = serde_json::from_str(members.get("id")?.get()).ok()?;
    let component = |path: &PartitionKeyPath| {
        let mut segments = path.segments();
        let value = segments.next().and_then(|first| members.get(first));
        let value = value.and_then(|value| serde_json::from_str::<Value>(value.get()).ok());
        let value = segments.try_fold(value?, |value, segment| match value {
            Value::Object(mut members) => members.remove(segment),
            _ => None,
        });
        value.as_ref().map(PartitionKeyValue::from_json)
    };
    let components = definition.paths().iter().map(|path| component(path).unwrap_or_default());
    let key = PartitionKey::new(components).ok()?;
    Some(Name { key, id })
}

/// Where each item is wanted, in the order of the input. A key without components stands for one whose properties
/// the item does not have.
pub(super) fn positions(
    names: Vec<Name>,
    definition: &PartitionKeyDefinition,
) -> HashMap<Name, Vec<usize>> {
    let mut positions: HashMap<Name, Vec<usize>> = HashMap::with_capacity(names.len());
    for (position, mut name) in names.into_iter().enumerate() {
        if name.key.components().is_empty() {
            let undefined = definition.paths().iter().map(|_| PartitionKeyValue::Undefined);
            name.key = PartitionKey::new(undefined).unwrap_or(name.key);
        }
        positions.entry(name).or_default().push(position);
    }
    positions
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::PartitionKeyRange;

    use super::*;

    fn map(bounds: &[&str]) -> RoutingMap {
        let ranges = bounds.windows(2).enumerate().map(|(id, pair)| {
            let (min, max) = (pair[0].parse().unwrap(), pair[1].parse().unwrap());
            PartitionKeyRange::new((id as u32).into(), min, max)
        });
        RoutingMap::build(ranges).unwrap()
    }

    fn by(paths: &[&str]) -> PartitionKeyDefinition {
        PartitionKeyDefinition::new(paths).unwrap()
    }

    fn name(key: impl Into<PartitionKey>, id: &str) -> Name {
        Name { key: key.into(), id: id.to_owned() }
    }

    fn planned(names: &[Name], paths: &[&str], bounds: &[&str]) -> Vec<Ask> {
        plan(names.iter(), &by(paths), &map(bounds)).unwrap()
    }

    #[test]
    fn there_is_at_most_one_request_for_each_range_and_hundred_items() {
        let names: Vec<Name> = (0..1_000).map(|n| name(format!("p{n}"), &n.to_string())).collect();
        let bounds = ["", "0F", "1F", "2F", "FF"];
        let asks = planned(&names, &["/pk"], &bounds);
        assert!(asks.len() <= 4 + 1_000 / MAX_TOGETHER, "{}", asks.len());
        let ids: usize = asks
            .iter()
            .map(|ask| match ask {
                Ask::Read(_) => 1,
                Ask::Query { parameters, .. } => parameters.len() / 2,
            })
            .sum();
        assert_eq!(ids, 1_000);
    }

    #[test]
    fn one_item_alone_is_read_and_items_of_one_key_are_asked_by_id() {
        let whole = ["", "FF"];
        let one = [name("a", "1")];
        assert_eq!(planned(&one, &["/pk"], &whole), [Ask::Read(one[0].clone())]);
        let asks = planned(&[name("a", "1"), name("a", "2")], &["/pk"], &whole);
        let [Ask::Query { scope: Scope::Key(key), text, parameters }] = asks.as_slice() else {
            panic!("{asks:?}")
        };
        assert_eq!((key, parameters.len()), (&PartitionKey::from("a"), 2));
        assert_eq!(text, "SELECT * FROM c WHERE c.id IN (@i0, @i1)");
        let asks = planned(&[name("1", "1"), name("2", "2")], &["/id"], &whole);
        assert!(matches!(&asks[0], Ask::Query { scope: Scope::Range(_), text, .. }
            if text.ends_with("c.id IN (@i0, @i1)")));
    }

    #[test]
    fn keys_of_every_kind_are_compared_as_what_they_are() {
        let names = [
            name(("t", 1), "1"),
            name((None::<&str>, true), "2"),
            name((PartitionKeyValue::Undefined, "x"), "3"),
        ];
        let asks = planned(&names, &["/tenant", "/a b/\"c\""], &["", "FF"]);
        let [Ask::Query { text, parameters, .. }] = asks.as_slice() else { panic!("{asks:?}") };
        assert!(
            text.contains(r#"(c.id = @i0 AND c["tenant"] = @p0_0 AND c["a b"]["c"] = @p0_1)"#),
            "{text}"
        );
        assert!(text.contains(r#"(c.id = @i2 AND NOT IS_DEFINED(c["tenant"]) AND "#), "{text}");
        let value = |name: &str| &parameters.iter().find(|it| it.0 == name).unwrap().1;
        assert_eq!((value("@p1_0"), value("@p1_1")), (&Value::Null, &Value::Bool(true)));
        sidereal_query::parse(text).unwrap();
    }

    #[test]
    fn a_key_or_an_id_that_no_item_can_have_is_refused_by_name() {
        for (bad, expected) in [(name(("a", "b"), "7"), "item 7"), (name("a", "a/b"), "/")] {
            let error = plan([bad].iter(), &by(&["/pk"]), &map(&["", "FF"])).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_row_is_known_by_its_id_and_its_key() {
        let definition = by(&["/tenant", "/a/b"]);
        let row = r#"{"a": {"b": 1.0}, "id": "x", "tenant": "t"}"#;
        assert_eq!(name_of(row, &definition), Some(name(("t", 1), "x")));
        let row = r#"{"id": "x", "tenant": null}"#;
        let expected = name((None::<&str>, PartitionKeyValue::Undefined), "x");
        assert_eq!(name_of(row, &definition), Some(expected));
        assert_eq!(name_of("{}", &definition), None);
    }

    #[test]
    fn an_item_that_is_named_twice_is_wanted_twice() {
        let names = vec![name("a", "1"), name("b", "1"), name("a", "1")];
        let positions = positions(names, &by(&["/pk"]));
        assert_eq!(positions[&name("a", "1")], [0, 2]);
        assert_eq!(positions.len(), 2);
    }
}
