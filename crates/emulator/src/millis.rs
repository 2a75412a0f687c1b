//! Durations and timestamps in JSON: whole milliseconds, present or absent.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

use crate::clock::Timestamp;

/// A duration in milliseconds.
pub(crate) trait Millis {
    fn count(&self) -> u64;
    fn of(millis: u64) -> Self;
}

impl Millis for Duration {
    fn count(&self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }

    fn of(millis: u64) -> Self {
        Self::from_millis(millis)
    }
}

impl Millis for Timestamp {
    fn count(&self) -> u64 {
        self.millis()
    }

    fn of(millis: u64) -> Self {
        Self::from_millis(millis)
    }
}

pub(crate) fn serialize<T: Millis, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(value.count())
}

pub(crate) fn deserialize<'de, T: Millis, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    u64::deserialize(deserializer).map(T::of)
}

/// The functions for values that may be absent.
pub(crate) mod optional {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Millis;

    pub(crate) fn serialize<T: Millis, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(T::count).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, T: Millis, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(T::of))
    }
}
