//! A container: its definition, and the physical partitions that hold its items.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Map, Value, json};
use sidereal_protocol::{
    EffectivePartitionKey, Etag, PartitionKeyDefinition, PartitionKeyPath, ResourceType, Rid,
    check_id,
};

use super::layout::LayoutChange;
use super::persistence::{CommitQueue, Mutation};
use super::{
    IndexPolicy, Layout, Partition, ReplicaProgress, Rules, StalenessBound, Transaction, UniqueKeys,
};
use crate::clock::Timestamp;
use crate::topology::{ReplicaSet, Topology};

/// A container and its partitions.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) rid: Rid,
    pub(crate) id: Arc<str>,
    /// The id of the database, for the owner's full name.
    pub(crate) database: Arc<str>,
    /// `_self`: `dbs/{rid}/colls/{rid}/`.
    pub(crate) link: String,
    /// Seconds since the epoch.
    pub(crate) created_at: u64,
    pub(super) definition: RwLock<Arc<Definition>>,
    pub(super) layout: RwLock<Arc<Layout>>,
    /// The next item's ordinal, which becomes part of its RID.
    pub(super) ordinals: AtomicU64,
    /// The next etag's number.
    pub(super) versions: AtomicU64,
    /// Where changes are stored, in an account that is kept on disk.
    pub(super) commits: Option<Arc<CommitQueue>>,
}

/// What a container was created or last replaced with, read once.
#[derive(Debug)]
pub(crate) struct Definition {
    /// The container as clients see it, without system properties.
    properties: Map<String, Value>,
    pub(crate) key: PartitionKeyDefinition,
    pub(crate) index: IndexPolicy,
    pub(crate) default_ttl: Option<i64>,
    pub(super) unique_keys: UniqueKeys,
    pub(crate) etag: Etag,
    changed_at: u64,
}

/// Region and time of a write, and how far the other regions may fall behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteContext<'a> {
    pub(crate) region: usize,
    pub(crate) topology: &'a Topology,
    pub(crate) now: Timestamp,
    pub(crate) staleness: StalenessBound,
}

/// What was decided, by which partition, and the progress of its replica after it.
#[derive(Debug)]
pub(crate) struct Decided<T, E> {
    pub(crate) decision: Result<T, E>,
    pub(crate) partition: Arc<Partition>,
    pub(crate) progress: ReplicaProgress,
}

/// The most unique keys a container can have: a limit of the service.
const UNIQUE_KEY_LIMIT: usize = 10;

impl Container {
    pub(crate) fn new(
        rid: Rid,
        database: (Arc<str>, Rid),
        definition: Definition,
        partitions: u32,
        replicas: ReplicaSet,
        commits: Option<Arc<CommitQueue>>,
    ) -> Self {
        let layout = Layout::new(&definition.key, partitions, &definition.unique_keys, replicas);
        Self {
            rid,
            id: definition.id().into(),
            link: format!("dbs/{}/colls/{rid}/", database.1),
            created_at: definition.changed_at,
            database: database.0,
            definition: RwLock::new(Arc::new(definition)),
            layout: RwLock::new(Arc::new(layout)),
            ordinals: AtomicU64::new(1),
            versions: AtomicU64::new(1),
            commits,
        }
    }

    pub(crate) fn definition(&self) -> Arc<Definition> {
        self.definition.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a new definition; what cannot change is refused with the reason.
    pub(crate) fn replace(&self, new: Definition) -> Result<(), String> {
        // One write lock for comparison and replacement, so that no update is lost.
        let mut current = self.definition.write().unwrap_or_else(PoisonError::into_inner);
        if new.id() != current.id() {
            return Err("Replacing the id of a container is not supported.".to_owned());
        }
        if new.key != current.key {
            return Err("Document collection partition key cannot be changed.".to_owned());
        }
        let unique =
            |definition: &Definition| definition.properties.get("uniqueKeyPolicy").cloned();
        // A client that leaves the policy out keeps it; one that sends another is refused.
        if unique(&new).is_some() && unique(&new) != unique(&current) {
            return Err("The unique keys of a container cannot be changed.".to_owned());
        }
        *current = Arc::new(new);
        drop(current);
        if let Some(commits) = &self.commits {
            // Under the layout's lock: a split that runs meanwhile is stored before or after, not undone.
            let layout = self.layout.read().unwrap_or_else(PoisonError::into_inner);
            commits.enqueue(vec![Mutation::PutContainer(self.record(&layout))]);
        }
        Ok(())
    }

    /// How the key space is divided now.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn partitions(&self) -> Arc<[Arc<Partition>]> {
        self.layout().partitions().clone()
    }

    /// The partition whose range an effective partition key falls into now.
    pub(crate) fn partition_of(&self, effective_key: &EffectivePartitionKey) -> Arc<Partition> {
        self.layout().partition_of(effective_key).clone()
    }

    /// Replaces the layout by what `change` makes of it, or leaves it where `change` refuses.
    pub(crate) fn change_layout<T>(
        &self,
        change: impl FnOnce(&Layout) -> Result<(LayoutChange, T), String>,
    ) -> Result<T, String> {
        // Lock order: the layout's before any partition's. A write holds a partition's and never asks for
        // the layout's.
        let mut current = self.layout.write().unwrap_or_else(PoisonError::into_inner);
        let (LayoutChange { layout, created, retired }, result) = change(&current)?;
        *current = Arc::new(layout);
        // Queued before the lock is released: a write of the new partitions comes after them.
        self.store_layout_change(&current, &created, retired);
        Ok(result)
    }

    /// What the container says about its items.
    pub(crate) fn rules<'a>(&'a self, definition: &'a Definition, now: Timestamp) -> Rules<'a> {
        Rules {
            container: self.rid,
            link: &self.link,
            index: &definition.index,
            default_ttl: definition.default_ttl,
            ordinals: &self.ordinals,
            versions: &self.versions,
            now,
        }
    }

    /// Decides on writes to the partition of an effective partition key and commits them as one entry of
    /// its log, or nothing where `decide` refuses.
    pub(crate) fn transact<T, E>(
        &self,
        effective_key: &EffectivePartitionKey,
        definition: &Definition,
        context: &WriteContext<'_>,
        decide: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Decided<T, E> {
        let &WriteContext { region, topology, now, staleness } = context;
        loop {
            let partition = self.partition_of(effective_key);
            // Held from the decision to the commit: what was decided on cannot change before it is applied
            // (the same lock serializes all writes of a partition).
            let mut state = partition.write();
            // Lost a race with a split or merge, which retires the partition under its lock and replaces
            // the layout after. The new layout is there by now or will be in a moment, so this spins.
            if state.is_retired() {
                // Released before yielding: readers of the retired partition need not wait for this.
                drop(state);
                std::thread::yield_now();
                continue;
            }
            // In this order: what replication still holds may expire, and an expired item must be gone before
            // an operation looks for it.
            state.prepare_to_write(region);
            state.expire(region, now);
            let mut transaction =
                Transaction::new(state.replica(region), self.rules(definition, now));
            let decision = decide(&mut transaction);
            let changes = if decision.is_ok() { transaction.into_changes() } else { Vec::new() };
            state.commit(region, changes, now);
            state.catch_up_everywhere(topology, now);
            state.enforce_staleness_bound(staleness, topology);
            self.store_log(&partition, &mut state);
            let progress = ReplicaProgress::of(state.replica(region));
            drop(state);
            return Decided { decision, partition, progress };
        }
    }

    /// The container as clients see it.
    pub(crate) fn resource(&self) -> Value {
        let definition = self.definition();
        let mut properties = definition.properties.clone();
        for (name, value) in [
            ("_rid", json!(self.rid.to_string())),
            ("_ts", json!(definition.changed_at)),
            ("_self", json!(self.link)),
            ("_etag", json!(definition.etag.as_str())),
            ("_docs", json!("docs/")),
            ("_sprocs", json!("sprocs/")),
            ("_triggers", json!("triggers/")),
            ("_udfs", json!("udfs/")),
            ("_conflicts", json!("conflicts/")),
        ] {
            properties.insert(name.to_owned(), value);
        }
        Value::Object(properties)
    }

    /// The full name that responses carry: `dbs/{id}/colls/{id}`.
    pub(crate) fn full_name(&self) -> String {
        format!("dbs/{}/colls/{}", self.database, self.id)
    }
}

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
        properties.entry("geospatialConfig").or_insert_with(|| json!({ "type": "Geography" }));
        let changed_at = now.seconds();
        Ok(Self { properties, key, index, default_ttl, unique_keys, etag, changed_at })
    }

    /// What it says, as JSON.
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
    let key: PartitionKeyDefinition = serde_json::from_value(value.clone())
        .map_err(|error| format!("The partition key definition is invalid: {error}"))?;
    // Stored as parsed, so that defaults (kind, version) are visible to readers.
    let written = serde_json::to_value(&key).map_err(|error| error.to_string())?;
    properties.insert("partitionKey".to_owned(), written);
    Ok(key)
}

fn parse_indexing_policy(properties: &mut Map<String, Value>) -> Result<IndexPolicy, String> {
    let absent = properties.get("indexingPolicy").is_none_or(Value::is_null);
    if absent {
        properties.insert("indexingPolicy".to_owned(), IndexPolicy::default_policy());
    }
    let policy = properties.get_mut("indexingPolicy").and_then(Value::as_object_mut);
    let Some(policy) = policy else {
        return Err("The indexing policy must be an object.".to_owned());
    };
    complete_indexing_policy(policy);
    IndexPolicy::parse(&Value::Object(policy.clone()))
}

/// What a client leaves out of a policy, the service fills in.
fn complete_indexing_policy(policy: &mut Map<String, Value>) {
    policy.entry("indexingMode").or_insert_with(|| json!("consistent"));
    policy.entry("automatic").or_insert_with(|| json!(true));
    let off = policy["indexingMode"].as_str().is_some_and(|mode| mode.eq_ignore_ascii_case("none"));
    // Everything is indexed but the etag, which no query filters by.
    if !off && !policy.contains_key("includedPaths") && !policy.contains_key("excludedPaths") {
        policy.insert("includedPaths".to_owned(), json!([{ "path": "/*" }]));
        policy.insert("excludedPaths".to_owned(), json!([{ "path": "/\"_etag\"/?" }]));
    }
    policy.entry("includedPaths").or_insert_with(|| json!([]));
    policy.entry("excludedPaths").or_insert_with(|| json!([]));
}

fn parse_default_ttl(properties: &Map<String, Value>) -> Result<Option<i64>, String> {
    match properties.get("defaultTtl") {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_i64().filter(|ttl| *ttl == -1 || *ttl > 0) {
            Some(ttl) => Ok(Some(ttl)),
            None => {
                let message = "The value of property defaultTtl is invalid: \
                               use a positive number of seconds, or -1 for no default.";
                Err(message.to_owned())
            }
        },
    }
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
        path.as_str().and_then(|path| path.parse().ok()).ok_or_else(malformed)
    };
    let parse_key = |key: &Value| -> Result<Vec<PartitionKeyPath>, String> {
        let paths = key.get("paths").and_then(Value::as_array).filter(|paths| !paths.is_empty());
        paths.ok_or_else(malformed)?.iter().map(parse_path).collect()
    };
    keys.iter().map(parse_key).collect::<Result<_, _>>().map(UniqueKeys::new)
}
