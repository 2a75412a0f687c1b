//! Unique keys: no two items of one logical partition agree on all paths of a unique key.

use std::collections::HashMap;

use serde_json::Value;
use sidereal_protocol::{PartitionKey, PartitionKeyPath};

use super::Item;

/// The unique keys a container was created with, each a list of paths.
#[derive(Clone, Debug, Default)]
pub(crate) struct UniqueKeys(Vec<Vec<PartitionKeyPath>>);

impl UniqueKeys {
    pub(crate) fn new(keys: Vec<Vec<PartitionKeyPath>>) -> Self {
        Self(keys)
    }

    /// The fingerprints of an item, one per unique key. A missing value counts as null, as on the service,
    /// so that at most one item lacks it.
    pub(crate) fn fingerprints(&self, item: &Item) -> Vec<Fingerprint> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let document = &item.document();
        self.0
            .iter()
            .enumerate()
            .map(|(index, paths)| {
                let values = paths.iter().map(|path| path.find(document).unwrap_or(&Value::Null));
                // NUL cannot occur in JSON text, so it separates the values without ambiguity.
                let text = values.map(Value::to_string).collect::<Vec<_>>().join("\u{0}");
                Fingerprint { index, key: item.key.clone(), text }
            })
            .collect()
    }
}

/// The values of one unique key in one logical partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Fingerprint {
    index: usize,
    key: PartitionKey,
    text: String,
}

/// Which item owns which fingerprint.
#[derive(Clone, Debug, Default)]
pub(crate) struct UniqueIndex(HashMap<Fingerprint, u64>);

impl UniqueIndex {
    pub(crate) fn owner(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.0.get(fingerprint).copied()
    }

    pub(crate) fn insert(&mut self, fingerprint: Fingerprint, ordinal: u64) {
        self.0.insert(fingerprint, ordinal);
    }

    pub(crate) fn remove(&mut self, fingerprint: &Fingerprint) {
        self.0.remove(fingerprint);
    }
}
