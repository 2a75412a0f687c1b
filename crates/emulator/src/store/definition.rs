//! The definition of a container: what a client sends, checked and completed as the service does it.

use serde_json::{Map, Value, json};
use sidereal_protocol::{Etag, PartitionKeyDefinition, PartitionKeyPath, ResourceType, check_id};

use super::{IndexPolicy, UniqueKeys, parse_ttl};
use crate::clock::Timestamp;

/// The definition that a container was created or last replaced with, read once.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The container as clients see it, without system properties.
    pub(super) properties: Map<String, Value>,
    pub(crate) key: PartitionKeyDefinition,
    pub(crate) index: IndexPolicy,
    pub(crate) default_ttl: Option<i32>,
    pub(super) unique_keys: UniqueKeys,
    pub(crate) etag: Etag,
    pub(super) changed_at: u64,
}

/// Limits of the service: unique keys of a container, and paths of one of them.
const UNIQUE_KEY_LIMIT: usize = 10;
const UNIQUE_KEY_PATH_LIMIT: usize = 16;

/// The path that the service leaves out of every index: no query filters by it.
const ETAG_PATH: &str = "/\"_etag\"/?";

impl Definition {
    /// Reads a container as a client sends it; the error is a sentence about what to change.
    pub(crate) fn parse(body: Value, etag: Etag, now: Timestamp) -> Result<Self, String> {
        let Value::Object(mut properties) = body else {
            return Err("The container must be a JSON object.".to_owned());
        };
        // System properties of a container that was read, changed and sent back.
        properties.retain(|name, _| !name.starts_with('_'));
        let id = properties.get("id").and_then(Value::as_str).ok_or(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )?;
        check_id(ResourceType::DocumentCollection, id).map_err(|error| error.to_string())?;
        let key = parse_partition_key(&mut properties)?;
        let index = parse_indexing_policy(&mut properties)?;
        let default_ttl = parse_default_ttl(&properties)?;
        let unique_keys = parse_unique_keys(properties.get("uniqueKeyPolicy"))?;
        properties.entry("conflictResolutionPolicy").or_insert_with(|| {
            json!({
                "mode": "LastWriterWins",
                "conflictResolutionPath": "/_ts",
                "conflictResolutionProcedure": "",
            })
        });
        complete_geospatial(&mut properties)?;
        check_vector_indexes(&properties)?;
        let changed_at = now.seconds();
        Ok(Self { properties, key, index, default_ttl, unique_keys, etag, changed_at })
    }

    /// The definition as JSON.
    pub(super) fn properties_text(&self) -> String {
        serde_json::to_string(&self.properties).unwrap_or_default()
    }

    /// Seconds since the epoch.
    pub(super) fn changed_at(&self) -> u64 {
        self.changed_at
    }

    pub(crate) fn id(&self) -> &str {
        self.properties.get("id").and_then(Value::as_str).unwrap_or_default()
    }
}

fn parse_partition_key(
    properties: &mut Map<String, Value>,
) -> Result<PartitionKeyDefinition, String> {
    let value = properties.get("partitionKey").filter(|value| !value.is_null()).ok_or(
        "A container needs a partition key; send partitionKey with its paths, \
         such as {\"paths\":[\"/pk\"],\"kind\":\"Hash\",\"version\":2}.",
    )?;
    let names_version = value.get("version").is_some_and(|version| !version.is_null());
    check_key_paths(value.get("paths").and_then(Value::as_array).map_or(&[], Vec::as_slice))?;
    let key: PartitionKeyDefinition = serde_json::from_value(value.clone())
        .map_err(|error| format!("The partition key definition is invalid: {error}"))?;
    // Stored as parsed, so that the default of its kind is visible to readers.
    let mut written = serde_json::to_value(&key).map_err(|error| error.to_string())?;
    if let Some(fields) = written.as_object_mut().filter(|_| !names_version) {
        // A container that was created without a version says none: that is version 1.
        fields.shift_remove("version");
    }
    properties.insert("partitionKey".to_owned(), written);
    Ok(key)
}

/// Paths that the service refuses: with characters that need quotes, with wildcards, or given twice.
fn check_key_paths(paths: &[Value]) -> Result<(), String> {
    for (index, path) in paths.iter().enumerate() {
        let Some(text) = path.as_str() else { continue };
        let repeated = paths[..index].contains(path).then_some(0);
        if let Some(position) = unacceptable_at(text).or(repeated) {
            return Err(format!(
                "The partition key component definition path '{text}' could not be accepted, failed near position \
                 '{position}'. Partition key paths must contain only valid characters and not contain a trailing \
                 slash or wildcard character."
            ));
        }
    }
    Ok(())
}

/// Where a path stops being one; none if it is one.
fn unacceptable_at(path: &str) -> Option<usize> {
    const NEEDS_QUOTES: &[char] = &['*', '?', '[', ']', '(', ')', '{', '}', ',', ';', '\\'];
    if !path.starts_with('/') {
        return Some(0);
    }
    let mut quote = None;
    for (position, character) in path.char_indices() {
        match (quote, character) {
            (None, '"' | '\'') => quote = Some(character),
            (Some(open), character) if open == character => quote = None,
            (None, character) if character.is_whitespace() || NEEDS_QUOTES.contains(&character) => {
                return Some(position);
            }
            _ => {}
        }
    }
    (quote.is_some() || path.ends_with('/')).then(|| path.len() - 1)
}

fn parse_indexing_policy(properties: &mut Map<String, Value>) -> Result<IndexPolicy, String> {
    let absent = properties.get("indexingPolicy").is_none_or(Value::is_null);
    if absent {
        properties.insert("indexingPolicy".to_owned(), json!({}));
    }
    let policy = properties.get_mut("indexingPolicy").and_then(Value::as_object_mut);
    let Some(policy) = policy else {
        return Err("The indexing policy must be an object.".to_owned());
    };
    complete_indexing_policy(policy);
    IndexPolicy::parse(&Value::Object(policy.clone()))
}

/// Fills in what a client leaves out of a policy, as the service does.
fn complete_indexing_policy(policy: &mut Map<String, Value>) {
    policy.entry("indexingMode").or_insert_with(|| json!("consistent"));
    policy.entry("automatic").or_insert_with(|| json!(true));
    let off = policy["indexingMode"].as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("none"));
    if !off {
        // Only without an index can items be left out of it by default.
        policy.insert("automatic".to_owned(), json!(true));
    }
    if !off && !policy.contains_key("includedPaths") && !policy.contains_key("excludedPaths") {
        policy.insert("includedPaths".to_owned(), json!([{ "path": "/*" }]));
    }
    policy.entry("includedPaths").or_insert_with(|| json!([]));
    policy.entry("excludedPaths").or_insert_with(|| json!([]));
    let names_etag = |paths: &Value| {
        let paths = paths.as_array().map_or(&[][..], Vec::as_slice);
        paths.iter().any(|entry| entry["path"] == ETAG_PATH)
    };
    if !off && !names_etag(&policy["includedPaths"]) && !names_etag(&policy["excludedPaths"]) {
        // Last, as the service has it. What is no list is refused when the policy is parsed.
        if let Some(excluded) = policy["excludedPaths"].as_array_mut() {
            excluded.push(json!({ "path": ETAG_PATH }));
        }
    }
}

/// A vector index is on a path whose vectors the embedding policy describes.
fn check_vector_indexes(properties: &Map<String, Value>) -> Result<(), String> {
    let list = |policy: &str, name: &str| {
        let list = properties.get(policy).and_then(|policy| policy.get(name));
        list.and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let embeddings = list("vectorEmbeddingPolicy", "vectorEmbeddings");
    for index in list("indexingPolicy", "vectorIndexes") {
        if !embeddings.iter().any(|embedding| embedding["path"] == index["path"]) {
            let path = index["path"].as_str().unwrap_or_default().trim_start_matches('/');
            return Err(format!(
                "The Vector Indexing Policy's path::/{path} not matching in Embedding's path."
            ));
        }
    }
    Ok(())
}

/// A plane has bounds that a client names; the earth has its own.
fn complete_geospatial(properties: &mut Map<String, Value>) -> Result<(), String> {
    properties.entry("geospatialConfig").or_insert_with(|| json!({ "type": "Geography" }));
    let is_plane = properties["geospatialConfig"]["type"] == "Geometry";
    let spatial = properties.get("indexingPolicy").and_then(|policy| policy.get("spatialIndexes"));
    let spatial = spatial.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    for index in spatial {
        let path = index["path"].as_str().unwrap_or_default();
        match (is_plane, index.get("boundingBox").is_some_and(|bounds| !bounds.is_null())) {
            (true, false) => {
                return Err(format!(
                    "The spatial index '{path}' of a container of type Geometry needs a boundingBox with xmin, \
                     ymin, xmax and ymax."
                ));
            }
            (false, true) => {
                return Err(format!(
                    "The spatial index '{path}' has a boundingBox, which a container of type Geography does not \
                     have: leave it out, or set geospatialConfig to Geometry."
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

fn parse_default_ttl(properties: &Map<String, Value>) -> Result<Option<i32>, String> {
    // SDKs send null where their user sets none.
    let value = properties.get("defaultTtl").filter(|value| !value.is_null());
    value.map(parse_ttl).transpose().map_err(|why| format!("The property defaultTtl: {why}"))
}

fn parse_unique_keys(policy: Option<&Value>) -> Result<UniqueKeys, String> {
    let malformed = || {
        "The unique key policy is invalid: it has the form \
         {\"uniqueKeys\":[{\"paths\":[\"/email\"]}]}."
            .to_owned()
    };
    let Some(policy) = policy.filter(|policy| !policy.is_null()) else {
        return Ok(UniqueKeys::default());
    };
    let Some(keys) = policy.get("uniqueKeys").filter(|keys| !keys.is_null()) else {
        return Ok(UniqueKeys::default());
    };
    let keys = keys.as_array().ok_or_else(malformed)?;
    if keys.len() > UNIQUE_KEY_LIMIT {
        return Err(format!("A container has at most {UNIQUE_KEY_LIMIT} unique keys."));
    }
    let parse_path = |path: &Value| -> Result<PartitionKeyPath, String> {
        let text = path.as_str().ok_or_else(malformed)?;
        if text.contains('*') {
            return Err(format!("The unique key path '{text}' has a wildcard: name one property."));
        }
        text.parse().map_err(|_| malformed())
    };
    let parse_key = |key: &Value| -> Result<Vec<PartitionKeyPath>, String> {
        let paths = key.get("paths").and_then(Value::as_array).filter(|paths| !paths.is_empty());
        let paths = paths.ok_or_else(malformed)?;
        if paths.len() > UNIQUE_KEY_PATH_LIMIT {
            return Err(format!("A unique key has at most {UNIQUE_KEY_PATH_LIMIT} paths."));
        }
        let repeated = paths.iter().enumerate().find(|(at, path)| paths[..*at].contains(path));
        if let Some((_, path)) = repeated {
            return Err(format!("The unique key path {path} is given twice."));
        }
        paths.iter().map(parse_path).collect()
    };
    keys.iter().map(parse_key).collect::<Result<_, _>>().map(UniqueKeys::new)
}
