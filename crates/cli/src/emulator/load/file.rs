//! The file of `--load`: JSON to databases, containers and items. Pure.
//!
//! A container is what the service calls one, with shorter ways to write what is written most: a partition key as a
//! path or a list of paths, unique keys as lists of paths; beside it, throughput and items. A word that is not known
//! is refused, for it is more often a slip than meant.

use serde_json::{Map, Value, json};
use sidereal::models::{ContainerProperties, ThroughputProperties};

use crate::item::check_item;

/// All that a file describes.
#[derive(Debug, PartialEq)]
pub(in crate::emulator) struct Contents {
    pub(super) databases: Vec<Database>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Database {
    pub(super) id: String,
    pub(super) throughput: Option<ThroughputProperties>,
    pub(super) containers: Vec<Container>,
}

#[derive(Debug, PartialEq)]
pub(super) struct Container {
    pub(super) properties: ContainerProperties,
    pub(super) throughput: Option<ThroughputProperties>,
    pub(super) items: Vec<Value>,
}

/// Settings that a container may have beside its items, as the service names them.
const CONTAINER_WORDS: [&str; 12] = [
    "id",
    "partitionKey",
    "indexingPolicy",
    "uniqueKeyPolicy",
    "conflictResolutionPolicy",
    "vectorEmbeddingPolicy",
    "fullTextPolicy",
    "changeFeedPolicy",
    "defaultTtl",
    "analyticalStorageTtl",
    "geospatialConfig",
    "throughput",
];

impl Contents {
    /// Reads a file's text; the error begins with the place that is wrong.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        let file = Place::root(&value);
        let fields = file.object(&["databases"])?;
        let databases = fields.list("databases", Database::parse)?;
        Ok(Self { databases })
    }
}

impl Database {
    fn parse(place: &Place<'_>) -> Result<Self, String> {
        let fields = place.object(&["id", "throughput", "containers"])?;
        Ok(Self {
            id: fields.id()?,
            throughput: fields.throughput()?,
            containers: fields.list("containers", Container::parse)?,
        })
    }
}

impl Container {
    fn parse(place: &Place<'_>) -> Result<Self, String> {
        let words = [&CONTAINER_WORDS[..], &["uniqueKeys", "items"]].concat();
        let fields = place.object(&words)?;
        fields.id()?;
        let throughput = fields.throughput()?;
        let items = fields.list("items", |item| {
            check_item(item.value).map_err(|why| item.wrong(&why))?;
            Ok(item.value.clone())
        })?;
        Ok(Self { properties: fields.container_properties()?, throughput, items })
    }
}

/// A value and how it is reached, for sentences.
struct Place<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Place<'a> {
    fn root(value: &'a Value) -> Self {
        Self { value, path: String::new() }
    }

    fn wrong(&self, why: &str) -> String {
        if self.path.is_empty() { why.to_owned() } else { format!("{}: {why}", self.path) }
    }

    /// The fields of an object that has no others than these; those of the system, which an export may have, are
    /// passed over.
    fn object(&self, words: &[&str]) -> Result<Fields<'a>, String> {
        let Value::Object(fields) = self.value else {
            return Err(self.wrong("expected an object"));
        };
        let unknown =
            fields.keys().find(|word| !word.starts_with('_') && !words.contains(&word.as_str()));
        match unknown {
            Some(word) => {
                Err(self.wrong(&format!("{word} is not known here; expected {}", words.join(", "))))
            }
            None => Ok(Fields { fields, path: self.path.clone() }),
        }
    }
}

/// The fields of an object.
struct Fields<'a> {
    fields: &'a Map<String, Value>,
    path: String,
}

impl<'a> Fields<'a> {
    fn place(&self, name: &str, value: &'a Value) -> Place<'a> {
        let dot = if self.path.is_empty() { "" } else { "." };
        Place { value, path: format!("{}{dot}{name}", self.path) }
    }

    fn field(&self, name: &str) -> Option<Place<'a>> {
        let value = self.fields.get(name).filter(|value| !value.is_null())?;
        Some(self.place(name, value))
    }

    fn id(&self) -> Result<String, String> {
        match self.field("id").map(|id| (id.value.as_str().map(str::to_owned), id)) {
            Some((Some(id), _)) => Ok(id),
            Some((None, id)) => Err(id.wrong("expected text")),
            None => Err(self.place("id", &Value::Null).wrong("it is missing")),
        }
    }

    /// A list, each element of it read by `parse`; none where there is no such field.
    fn list<T>(
        &self,
        name: &str,
        parse: impl Fn(&Place<'a>) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let Some(place) = self.field(name) else { return Ok(Vec::new()) };
        let elements = place.value.as_array().ok_or_else(|| place.wrong("expected a list"))?;
        let element = |(index, value)| Place { value, path: format!("{}[{index}]", place.path) };
        elements.iter().enumerate().map(element).map(|element| parse(&element)).collect()
    }

    /// Manual throughput as a number, or `{"autoscale": number}`.
    fn throughput(&self) -> Result<Option<ThroughputProperties>, String> {
        let Some(place) = self.field("throughput") else { return Ok(None) };
        let number = |value: &Value| value.as_u64().and_then(|number| u32::try_from(number).ok());
        let autoscale = place.value.get("autoscale").and_then(number);
        let manual = number(place.value).or_else(|| place.value.get("manual").and_then(number));
        let throughput = autoscale.map(|max| ThroughputProperties::autoscale(max, None));
        let throughput = throughput.or_else(|| manual.map(ThroughputProperties::manual));
        let expected = "expected a number of RU/s, or {\"autoscale\": number}";
        throughput.map(Some).ok_or_else(|| place.wrong(expected))
    }

    /// A container's properties, each read by itself so that a wrong one is named.
    fn container_properties(&self) -> Result<ContainerProperties, String> {
        let mut whole = Map::new();
        whole.insert("id".to_owned(), json!(self.id()?));
        let missing = || {
            self.place("partitionKey", &Value::Null).wrong("it is missing, such as \"/customer\"")
        };
        let key = self.field("partitionKey").ok_or_else(missing)?;
        whole.insert("partitionKey".to_owned(), partition_key(&key)?);
        check(&whole).map_err(|why| key.wrong(&why))?;
        if let Some(place) = self.field("uniqueKeys") {
            whole.insert("uniqueKeyPolicy".to_owned(), unique_keys(&place)?);
        }
        for name in CONTAINER_WORDS.iter().filter(|name| **name != "throughput") {
            if let (false, Some(place)) = (whole.contains_key(*name), self.field(name)) {
                whole.insert((*name).to_owned(), place.value.clone());
                check(&whole).map_err(|why| place.wrong(&why))?;
            }
        }
        check(&whole)
            .map_err(|why| Place { value: &Value::Null, path: self.path.clone() }.wrong(&why))
    }
}

fn check(properties: &Map<String, Value>) -> Result<ContainerProperties, String> {
    serde_json::from_value(Value::Object(properties.clone())).map_err(|error| error.to_string())
}

/// A path, a list of paths, or what the service writes.
fn partition_key(place: &Place<'_>) -> Result<Value, String> {
    let paths = match place.value {
        Value::String(paths) => paths.split(',').map(|path| json!(path.trim())).collect(),
        Value::Array(paths) => paths.clone(),
        Value::Object(_) => return Ok(place.value.clone()),
        _ => return Err(place.wrong("expected a path such as \"/customer\", or a list of paths")),
    };
    let kind = if paths.len() == 1 { "Hash" } else { "MultiHash" };
    Ok(json!({ "paths": paths, "kind": kind, "version": 2 }))
}

/// Lists of paths, each unique together.
fn unique_keys(place: &Place<'_>) -> Result<Value, String> {
    let wrong = || place.wrong("expected lists of paths, such as [[\"/email\"]]");
    let keys = place.value.as_array().ok_or_else(wrong)?;
    let keys = keys.iter().map(|paths| match paths {
        Value::Array(_) => Ok(json!({ "paths": paths })),
        Value::String(_) => Ok(json!({ "paths": [paths] })),
        _ => Err(wrong()),
    });
    Ok(json!({ "uniqueKeys": keys.collect::<Result<Vec<Value>, String>>()? }))
}

#[cfg(test)]
mod tests {
    use sidereal::models::TimeToLive;

    use super::*;

    fn why(value: &Value) -> String {
        Contents::parse(&value.to_string()).unwrap_err()
    }

    fn container(fields: Value) -> Value {
        let mut container = json!({ "id": "orders", "partitionKey": "/customer" });
        container.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({ "databases": [{ "id": "shop", "containers": [container] }] })
    }

    #[test]
    fn a_file_has_databases_with_containers_with_items() {
        let file = json!({ "databases": [{ "id": "shop", "throughput": 500, "containers": [{
            "id": "orders",
            "partitionKey": ["/tenant", "/user"],
            "throughput": { "autoscale": 4000 },
            "defaultTtl": 60,
            "uniqueKeys": ["/email", ["/first", "/last"]],
            "indexingPolicy": { "indexingMode": "none", "automatic": false },
            "items": [{ "id": "1" }],
            "_rid": "passed over",
        }] }, { "id": "empty" }] });
        let contents = Contents::parse(&file.to_string()).unwrap();
        let [shop, empty] = contents.databases.as_slice() else { panic!("{contents:?}") };
        assert_eq!(
            (shop.throughput, empty.containers.len()),
            (Some(ThroughputProperties::manual(500)), 0)
        );
        let orders = &shop.containers[0];
        assert_eq!(orders.properties.partition_key.to_string(), "/tenant,/user");
        assert_eq!(orders.properties.default_ttl, Some(TimeToLive::Seconds(60)));
        let keys = orders.properties.unique_key_policy.as_ref().unwrap();
        assert_eq!(keys.unique_keys[1].paths, ["/first", "/last"]);
        assert_eq!(orders.throughput, Some(ThroughputProperties::autoscale(4000, None)));
        assert_eq!(orders.items, [json!({ "id": "1" })]);
    }

    #[test]
    fn a_container_may_be_written_as_the_service_does() {
        let key = json!({ "paths": ["/a"], "kind": "Hash", "version": 1 });
        let contents =
            Contents::parse(&container(json!({ "partitionKey": key })).to_string()).unwrap();
        let properties = &contents.databases[0].containers[0].properties;
        assert_eq!(serde_json::to_value(&properties.partition_key).unwrap(), key);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        let at = "databases[0].containers[0]";
        for (file, place, reason) in [
            (json!([]), "", "expected an object"),
            (json!({ "database": [] }), "", "database is not known here; expected databases"),
            (json!({ "databases": {} }), "databases", "expected a list"),
            (json!({ "databases": [{}] }), "databases[0].id", "missing"),
            (json!({ "databases": [{ "id": 7 }] }), "databases[0].id", "expected text"),
            (container(json!({ "partitionKey": "customer" })), ".partitionKey", "/"),
            (container(json!({ "partitionKey": null })), ".partitionKey", "missing"),
            (container(json!({ "partitionKey": 7 })), ".partitionKey", "/customer"),
            (container(json!({ "throughput": "fast" })), ".throughput", "RU/s"),
            (container(json!({ "defaultTtl": 0 })), ".defaultTtl", "greater than 0"),
            (container(json!({ "uniqueKeys": [7] })), ".uniqueKeys", "/email"),
            (
                container(json!({ "indexingPolicy": { "indexingMode": "often" } })),
                ".indexingPolicy",
                "often",
            ),
            (container(json!({ "partitonKey": "/a" })), at, "partitonKey is not known"),
            (container(json!({ "items": [{ "id": "1" }, {}] })), ".items[1]", "no id"),
        ] {
            let place =
                if place.starts_with('.') { format!("{at}{place}") } else { place.to_owned() };
            let said = why(&file);
            assert!(said.starts_with(&place) && said.contains(reason), "{said}");
        }
        let said = Contents::parse("{\n  oops").unwrap_err();
        assert!(said.contains("line 2"), "{said}");
    }
}
