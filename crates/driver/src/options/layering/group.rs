//! The traits of option groups, and of the types of merged fields.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasher, Hash};

use super::EnvironmentReader;

/// A struct of optional settings, as `#[derive(CosmosOptions)]` makes it.
pub trait OptionGroup: Default {
    /// The layers at which the group can be set, lowest priority first, without the environment.
    const LAYERS: &'static [Layer];

    /// Reads the settings that have a variable; problems are kept in the reader.
    fn read(reader: &mut EnvironmentReader<'_>) -> Self;

    /// Whether nothing is set.
    fn is_unset(&self) -> bool;

    /// The variables and aliases of the group and of its nested groups.
    fn variables() -> Vec<&'static str>;
}

/// Where a value can be set, lowest priority first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Layer {
    /// A variable of the process.
    Environment,
    /// Defaults of the application, shared by its clients.
    Runtime,
    /// One client.
    Account,
    /// One call.
    Operation,
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Environment => "environment",
            Self::Runtime => "runtime",
            Self::Account => "account",
            Self::Operation => "operation",
        })
    }
}

/// Whether two groups have the same layers; `const`, so that a mismatch does not compile.
#[must_use]
pub const fn same_layers(one: &[Layer], other: &[Layer]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    // Loops and comparisons by trait are not `const` yet: a counter and the discriminants do.
    let mut index = 0;
    while index < one.len() {
        if one[index] as u8 != other[index] as u8 {
            return false;
        }
        index += 1;
    }
    true
}

/// A collection that can take in the entries of a higher layer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be merged across layers",
    label = "`merge = \"extend\"` needs a collection",
    note = "use a map, a set or a `Vec`, or remove `merge` so that the highest layer wins"
)]
pub trait Merge: Default {
    /// Adds what `higher` holds; where both have a key, `higher` wins.
    fn extend_from(&mut self, higher: &Self);
}

impl<K: Clone + Eq + Hash, V: Clone, S: BuildHasher + Default> Merge for HashMap<K, V, S> {
    fn extend_from(&mut self, higher: &Self) {
        self.extend(higher.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

impl<K: Clone + Ord, V: Clone> Merge for BTreeMap<K, V> {
    fn extend_from(&mut self, higher: &Self) {
        self.extend(higher.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
}

impl<T: Clone + Eq + Hash, S: BuildHasher + Default> Merge for HashSet<T, S> {
    fn extend_from(&mut self, higher: &Self) {
        self.extend(higher.iter().cloned());
    }
}

impl<T: Clone + Ord> Merge for BTreeSet<T> {
    fn extend_from(&mut self, higher: &Self) {
        self.extend(higher.iter().cloned());
    }
}

impl<T: Clone> Merge for Vec<T> {
    fn extend_from(&mut self, higher: &Self) {
        self.extend_from_slice(higher);
    }
}
