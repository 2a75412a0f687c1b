//! The number of connections by endpoint, counted when a metric reader collects.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use opentelemetry::KeyValue;
use opentelemetry::metrics::AsyncInstrument;

use crate::exchange::Endpoint;
use crate::planes::Planes;
use crate::transport::AdaptiveTransport;

/// The transports whose connections are counted.
///
/// Weak: a provider keeps its callbacks for as long as it lives, and must not keep a runtime alive.
#[derive(Clone, Debug, Default)]
pub(super) struct Transports(Arc<ArcSwap<Vec<Transport>>>);

#[derive(Clone, Debug)]
struct Transport {
    plane: &'static str,
    transport: Weak<AdaptiveTransport>,
}

/// The attributes that connections are counted by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    endpoint: Endpoint,
    plane: &'static str,
    is_ready: bool,
}

impl Transports {
    /// Counts the connections of these planes from now on, and forgets planes that are gone.
    pub(super) fn add(&self, planes: &Planes) {
        let added = [("data", &planes.data), ("metadata", &planes.metadata)];
        let added = added.map(|(plane, it)| {
            let transport = Arc::downgrade(&it.transport);
            Transport { plane, transport }
        });
        // Copied on change: planes are added seldom, and counted by a reader that must not wait.
        self.0.rcu(|known| {
            let alive = known.iter().filter(|it| it.transport.strong_count() > 0);
            alive.chain(&added).cloned().collect::<Vec<_>>()
        });
    }

    /// Tells an instrument how many there are.
    pub(super) fn observe(&self, instrument: &dyn AsyncInstrument<u64>) {
        for (group, count) in self.count() {
            let state = if group.is_ready { "ready" } else { "connecting" };
            let attributes = [
                KeyValue::new("server.address", group.endpoint.host().to_owned()),
                KeyValue::new("server.port", i64::from(group.endpoint.port())),
                KeyValue::new("sidereal.plane", group.plane),
                KeyValue::new("sidereal.shard.state", state),
            ];
            instrument.observe(count, &attributes);
        }
    }

    /// Added up: accounts with connections of their own may share an endpoint, and of two observations with the
    /// same attributes only one would be kept.
    fn count(&self) -> BTreeMap<Group, u64> {
        let mut counts = BTreeMap::new();
        for Transport { plane, transport } in &**self.0.load() {
            let pools = transport.upgrade().map(|it| it.snapshots()).unwrap_or_default();
            for pool in pools {
                for shard in &pool.shards {
                    let (endpoint, is_ready) = (pool.endpoint.clone(), shard.is_ready);
                    *counts.entry(Group { endpoint, plane, is_ready }).or_default() += 1;
                }
            }
        }
        counts
    }
}
