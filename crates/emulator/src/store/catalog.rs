//! The catalog: databases, their containers, and the offers that say what throughput they have.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::{Value, json};
use sidereal_protocol::{Addressing, Etag, ResourceLink, ResourceType, Rid, ThroughputProperties};

use super::persistence::{CommitQueue, DatabaseRecord, Mutation, NumbersRecord, RestoredState};
use super::{Container, Definition, Offer, new_etag};
use crate::clock::Timestamp;
use crate::topology::ReplicaSet;

/// Everything that has a name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    databases: RwLock<BTreeMap<Arc<str>, Arc<Database>>>,
    offers: RwLock<BTreeMap<Rid, Arc<Offer>>>,
    /// The last number given to a database, container or offer; part of their RIDs.
    numbers: AtomicU32,
    /// The next etag's number.
    versions: AtomicU64,
    /// Where changes are stored, in an account that is kept on disk.
    commits: Option<Arc<CommitQueue>>,
}

/// A database and its containers.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) rid: Rid,
    pub(crate) id: Arc<str>,
    pub(crate) etag: Etag,
    pub(crate) created_at: u64,
    containers: RwLock<BTreeMap<Arc<str>, Arc<Container>>>,
}

/// Something of that name exists already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameTaken;

impl Catalog {
    /// A catalog as it was kept on disk; the error says what of it cannot be read.
    pub(crate) fn restored(
        state: RestoredState,
        replicas: ReplicaSet,
        commits: Arc<CommitQueue>,
    ) -> Result<Self, String> {
        let database = |record| Arc::new(Database::restored(record));
        let databases: Vec<Arc<Database>> = state.databases.into_iter().map(database).collect();
        for restored in state.containers {
            let owner = restored.record.rid.database_rid();
            let owner = databases.iter().find(|database| Some(database.rid) == owner);
            let owner = owner.ok_or("a container whose database is not there")?;
            let commits = Arc::clone(&commits);
            let container = Container::restored(restored, owner.id.clone(), replicas, commits)?;
            write(&owner.containers).insert(container.id.clone(), Arc::new(container));
        }
        if !state.leftovers.is_empty() {
            let leftovers = state.leftovers.into_iter().map(Mutation::DeleteContainer);
            commits.enqueue(leftovers.collect());
        }
        let offers = state.offers.into_iter().map(Arc::new);
        let named = databases.into_iter().map(|database| (database.id.clone(), database));
        Ok(Self {
            databases: RwLock::new(named.collect()),
            offers: RwLock::new(offers.map(|offer| (offer.rid, offer)).collect()),
            numbers: AtomicU32::new(state.numbers.last_number),
            versions: AtomicU64::new(state.numbers.next_version),
            commits: Some(commits),
        })
    }

    pub(crate) fn new_etag(&self, now: Timestamp) -> Etag {
        // Relaxed: only uniqueness matters, and a read-modify-write is atomic under every ordering.
        new_etag(self.versions.fetch_add(1, Ordering::Relaxed), now.seconds())
    }

    fn next_number(&self) -> u32 {
        // Relaxed: only uniqueness matters.
        self.numbers.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(crate) fn databases(&self) -> Vec<Arc<Database>> {
        read(&self.databases).values().cloned().collect()
    }

    pub(crate) fn database(&self, id: &str) -> Option<Arc<Database>> {
        read(&self.databases).get(id).cloned()
    }

    fn database_by_rid(&self, rid: Rid) -> Option<Arc<Database>> {
        read(&self.databases).values().find(|database| database.rid == rid).cloned()
    }

    /// The database that a link is in or names, by name or by RID.
    pub(crate) fn database_of(&self, link: &ResourceLink) -> Option<Arc<Database>> {
        let id = link.ancestor_id(ResourceType::Database)?;
        match link.addressing() {
            Addressing::Names => self.database(id),
            Addressing::Rids => self.database_by_rid(id.parse().ok()?),
        }
    }

    /// The container that a link is in or names.
    pub(crate) fn container(&self, link: &ResourceLink) -> Option<Arc<Container>> {
        // Most links that name no container are told by this, without a lock.
        link.ancestor_id(ResourceType::DocumentCollection)?;
        self.database_of(link)?.container_of(link)
    }

    /// The container with a RID.
    pub(crate) fn container_by_rid(&self, rid: Rid) -> Option<Arc<Container>> {
        self.database_by_rid(rid.database_rid()?)?.container_by_rid(rid)
    }

    pub(crate) fn create_database(
        &self,
        id: &str,
        now: Timestamp,
    ) -> Result<Arc<Database>, NameTaken> {
        // Held from the check to the insertion: of two that create the same name, one gets 409.
        let mut databases = write(&self.databases);
        if databases.contains_key(id) {
            return Err(NameTaken);
        }
        let database = Arc::new(Database {
            rid: Rid::database(self.next_number()),
            id: id.into(),
            etag: self.new_etag(now),
            created_at: now.seconds(),
            containers: RwLock::default(),
        });
        databases.insert(database.id.clone(), database.clone());
        self.store(|| Mutation::PutDatabase(database.record()));
        Ok(database)
    }

    /// Removes a database with its containers and their offers.
    pub(crate) fn delete_database(&self, database: &Database) {
        // One lock after the other, never both: a reader may see the offers of a database that is gone, as
        // it may on the service.
        let mut databases = write(&self.databases);
        databases.remove(&database.id);
        self.store(|| Mutation::DeleteDatabase(database.rid));
        drop(databases);
        self.delete_offers(|resource| {
            resource == database.rid || resource.is_inside(&database.rid)
        });
    }

    pub(crate) fn create_container(
        &self,
        database: &Database,
        definition: Definition,
        partitions: u32,
        replicas: ReplicaSet,
    ) -> Result<Arc<Container>, NameTaken> {
        // Held from the check to the insertion, as for databases.
        let mut containers = write(&database.containers);
        if containers.contains_key(definition.id()) {
            return Err(NameTaken);
        }
        let rid = database.rid.container(self.next_number()).unwrap_or(database.rid);
        let owner = (database.id.clone(), database.rid);
        let commits = self.commits.clone();
        let container = Container::new(rid, owner, definition, partitions, replicas, commits);
        let container = Arc::new(container);
        containers.insert(container.id.clone(), container.clone());
        self.store(|| Mutation::PutContainer(container.record(&container.layout())));
        Ok(container)
    }

    /// Removes a container with its offer.
    pub(crate) fn delete_container(&self, database: &Database, container: &Container) {
        let mut containers = write(&database.containers);
        containers.remove(&container.id);
        self.store(|| Mutation::DeleteContainer(container.rid));
        drop(containers);
        self.delete_offers(|resource| resource == container.rid);
    }

    fn delete_offers(&self, of_deleted: impl Fn(Rid) -> bool) {
        write(&self.offers).retain(|rid, offer| {
            let deleted = of_deleted(offer.resource_rid);
            if deleted {
                self.store(|| Mutation::DeleteOffer(*rid));
            }
            !deleted
        });
    }

    /// Queues a change, with the numbers given so far. Called with the lock held under which it was made.
    fn store(&self, mutation: impl FnOnce() -> Mutation) {
        if let Some(commits) = &self.commits {
            commits.enqueue(vec![mutation(), Mutation::PutNumbers(self.numbers())]);
        }
    }

    /// The numbers given so far.
    pub(crate) fn numbers(&self) -> NumbersRecord {
        // Relaxed: those of what is stored with them were given before, by this thread.
        NumbersRecord {
            last_number: self.numbers.load(Ordering::Relaxed),
            next_version: self.versions.load(Ordering::Relaxed),
        }
    }

    /// How many physical partitions there are, in all containers.
    pub(crate) fn partition_count(&self) -> usize {
        let count = |database: &Arc<Database>| {
            read(&database.containers).values().map(|it| it.partitions().len()).sum::<usize>()
        };
        self.databases().iter().map(count).sum()
    }

    pub(crate) fn offers(&self) -> Vec<Arc<Offer>> {
        read(&self.offers).values().cloned().collect()
    }

    pub(crate) fn offer(&self, rid: Rid) -> Option<Arc<Offer>> {
        read(&self.offers).get(&rid).cloned()
    }

    /// The offer of a database or container.
    pub(crate) fn offer_of(&self, resource: Rid) -> Option<Arc<Offer>> {
        read(&self.offers).values().find(|offer| offer.resource_rid == resource).cloned()
    }

    pub(crate) fn create_offer(
        &self,
        resource_rid: Rid,
        resource_link: String,
        throughput: ThroughputProperties,
        now: Timestamp,
    ) {
        let offer = Offer {
            rid: Rid::offer(self.next_number()),
            resource_rid,
            resource_link,
            throughput,
            etag: self.new_etag(now),
            changed_at: now.seconds(),
        };
        let offer = Arc::new(offer);
        let mut offers = write(&self.offers);
        self.store(|| Mutation::PutOffer(Arc::clone(&offer)));
        offers.insert(offer.rid, offer);
    }

    /// Gives an offer other throughput.
    pub(crate) fn replace_offer(
        &self,
        offer: &Offer,
        throughput: ThroughputProperties,
        now: Timestamp,
    ) -> Arc<Offer> {
        let etag = self.new_etag(now);
        let replaced =
            Arc::new(Offer { throughput, etag, changed_at: now.seconds(), ..offer.clone() });
        let mut offers = write(&self.offers);
        self.store(|| Mutation::PutOffer(Arc::clone(&replaced)));
        offers.insert(offer.rid, replaced.clone());
        replaced
    }
}

impl Database {
    fn restored(record: DatabaseRecord) -> Self {
        let DatabaseRecord { rid, id, etag, created_at } = record;
        Self { rid, id: id.into(), etag, created_at, containers: RwLock::default() }
    }

    fn record(&self) -> DatabaseRecord {
        let Self { rid, id, etag, created_at, .. } = self;
        let (etag, created_at) = (etag.clone(), *created_at);
        DatabaseRecord { rid: *rid, id: id.to_string(), etag, created_at }
    }

    pub(crate) fn containers(&self) -> Vec<Arc<Container>> {
        read(&self.containers).values().cloned().collect()
    }

    pub(crate) fn container(&self, id: &str) -> Option<Arc<Container>> {
        read(&self.containers).get(id).cloned()
    }

    fn container_by_rid(&self, rid: Rid) -> Option<Arc<Container>> {
        read(&self.containers).values().find(|container| container.rid == rid).cloned()
    }

    /// The container of this database that a link is in or names.
    pub(crate) fn container_of(&self, link: &ResourceLink) -> Option<Arc<Container>> {
        let id = link.ancestor_id(ResourceType::DocumentCollection)?;
        match link.addressing() {
            Addressing::Names => self.container(id),
            Addressing::Rids => self.container_by_rid(id.parse().ok()?),
        }
    }

    /// `_self`.
    pub(crate) fn link(&self) -> String {
        format!("dbs/{}/", self.rid)
    }

    /// The database as clients see it.
    pub(crate) fn resource(&self) -> Value {
        json!({
            "id": &*self.id,
            "_rid": self.rid.to_string(),
            "_self": self.link(),
            "_etag": self.etag.as_str(),
            "_colls": "colls/",
            "_users": "users/",
            "_ts": self.created_at,
        })
    }
}

// A panic while a map is locked leaves the map as it was or with the entry inserted, so a poisoned lock
// is ignored.

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
