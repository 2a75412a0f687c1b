//! Time to live: which items have expired.
//!
//! An item ends at its `_ts` plus its own `ttl`, or plus the container's default where it has none, and only
//! while the container has a default. The setting that counts is the present one: a container that is given
//! another applies it to the items that are there, and one whose expiry is turned off shows those again that
//! no write has swept away yet.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{Item, Refusal};
use crate::clock::Timestamp;

/// The end of an item whose own `ttl` is -1.
const NEVER: u64 = u64::MAX;

/// The container's present setting, at a moment: what decides whether an item has expired.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expiry {
    /// Seconds; `None` turns expiry off, -1 leaves it to the items.
    default_ttl: Option<i32>,
    now_seconds: u64,
}

impl Expiry {
    pub(crate) fn new(default_ttl: Option<i32>, now: Timestamp) -> Self {
        Self { default_ttl, now_seconds: now.seconds() }
    }

    /// Whether nothing expires.
    pub(super) fn is_off(&self) -> bool {
        self.default_ttl.is_none()
    }

    pub(crate) fn is_over(&self, item: &Item) -> bool {
        let Some(default) = self.default_ttl else { return false };
        let end = match item.expires_at {
            Some(end) => end,
            // -1 does not fit into an unsigned number.
            None => u64::try_from(default)
                .map_or(NEVER, |seconds| item.written_at.saturating_add(seconds)),
        };
        end <= self.now_seconds
    }
}

/// A time to live as the service takes it: a number of seconds from 1 to 2147483647, or -1 for never.
pub(crate) fn parse_ttl(value: &Value) -> Result<i32, String> {
    let seconds = value.as_i64().and_then(|seconds| i32::try_from(seconds).ok());
    seconds.filter(|seconds| *seconds == -1 || *seconds > 0).ok_or_else(|| {
        format!(
            "The input ttl '{value}' is invalid. Ensure to provide a nonzero positive integer less than or equal \
             to '{}', or -1.",
            i32::MAX
        )
    })
}

/// When a document that is written now ends by its own `ttl`; none if it has none.
pub(super) fn own_end(
    document: &Map<String, Value>,
    written_at: u64,
) -> Result<Option<u64>, Refusal> {
    let Some(value) = document.get("ttl") else { return Ok(None) };
    let seconds = parse_ttl(value).map_err(Refusal::Invalid)?;
    let end = |seconds| written_at.saturating_add(seconds);
    Ok(Some(u64::try_from(seconds).map_or(NEVER, end)))
}

/// The items of a replica by when they end. By what does not depend on the container's setting, so that another
/// number of seconds needs no other index.
#[derive(Clone, Debug, Default)]
pub(super) struct ExpiryIndex {
    /// (End by the item's own `ttl`, ordinal).
    by_own_end: BTreeSet<(u64, u64)>,
    /// (`_ts`, ordinal) of items without one.
    by_write: BTreeSet<(u64, u64)>,
}

impl ExpiryIndex {
    pub(super) fn of_items<'a>(items: impl IntoIterator<Item = &'a Item>) -> Self {
        let mut index = Self::default();
        items.into_iter().for_each(|item| index.insert(item));
        index
    }

    pub(super) fn insert(&mut self, item: &Item) {
        match item.expires_at {
            Some(end) => self.by_own_end.insert((end, item.ordinal)),
            None => self.by_write.insert((item.written_at, item.ordinal)),
        };
    }

    pub(super) fn remove(&mut self, item: &Item) {
        match item.expires_at {
            Some(end) => self.by_own_end.remove(&(end, item.ordinal)),
            None => self.by_write.remove(&(item.written_at, item.ordinal)),
        };
    }

    /// The ordinals of the items that have expired.
    pub(super) fn over(&self, expiry: &Expiry) -> impl Iterator<Item = u64> {
        let now = expiry.now_seconds;
        // Written so long ago that the default is over; none is where there is no default, or it is -1.
        let default = expiry.default_ttl.and_then(|ttl| u64::try_from(ttl).ok());
        let written = default.and_then(|ttl| now.checked_sub(ttl));
        let own = expiry.default_ttl.map(|_| now);
        let up_to = |set: &BTreeSet<(u64, u64)>, last: Option<u64>| -> Vec<u64> {
            let over = last.map(|last| set.range(..=(last, u64::MAX)));
            over.into_iter().flatten().map(|(_, ordinal)| *ordinal).collect()
        };
        up_to(&self.by_own_end, own).into_iter().chain(up_to(&self.by_write, written))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;
    use sidereal_protocol::{EffectivePartitionKey, PartitionKey};

    use super::*;
    use crate::store::new_etag;

    /// An item that was written at a moment, with or without a `ttl` of its own.
    fn item(ordinal: u64, written_at: u64, ttl: Option<i32>) -> Item {
        let document = ttl.map(|ttl| ("ttl".to_owned(), json!(ttl))).into_iter().collect();
        let end = own_end(&document, written_at).unwrap();
        let key = PartitionKey::from("p");
        let etag = new_etag(ordinal, written_at);
        let min = EffectivePartitionKey::MIN;
        Item::stored("i".into(), key, min, ordinal, 1, etag, (written_at, end), 0, "{}")
    }

    #[test]
    fn a_ttl_is_a_number_of_seconds_or_never() {
        for (value, expected) in [(json!(1), 1), (json!(i32::MAX), i32::MAX), (json!(-1), -1)] {
            assert_eq!(parse_ttl(&value), Ok(expected));
        }
        for value in
            [json!(null), json!(0), json!(-2), json!(2_147_483_648_u64), json!(1.5), json!("1")]
        {
            let refusal = parse_ttl(&value).unwrap_err();
            assert!(refusal.contains(&format!("'{value}'")), "{refusal}");
        }
    }

    fn ttl() -> impl Strategy<Value = Option<i32>> {
        prop_oneof![Just(None), Just(Some(-1)), (1..20_i32).prop_map(Some)]
    }

    proptest! {
        /// The index finds what looking at every item would.
        #[test]
        fn the_index_knows_the_items_that_are_over(
            items in vec((0..50_u64, ttl()), 0..20),
            removed in 0..20_usize,
            default in ttl(),
            now in 0..80_u64,
        ) {
            let items: Vec<_> =
                (1..).zip(&items).map(|(ordinal, (written_at, ttl))| item(ordinal, *written_at, *ttl)).collect();
            let mut index = ExpiryIndex::of_items(&items);
            items.iter().take(removed).for_each(|item| index.remove(item));
            let expiry = Expiry { default_ttl: default, now_seconds: now };
            let mut found: Vec<u64> = index.over(&expiry).collect();
            found.sort_unstable();
            let expected = items.iter().skip(removed).filter(|item| expiry.is_over(item));
            prop_assert_eq!(found, expected.map(|item| item.ordinal).collect::<Vec<_>>());
        }
    }
}
