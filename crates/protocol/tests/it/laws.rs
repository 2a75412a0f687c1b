//! Laws of the values: order, merges and tilings, whatever the input.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::Value;
use sidereal_protocol::{
    EffectivePartitionKey, EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition,
    PartitionKeyRange, PartitionKeyValue, PartitionSessionToken, RoutedRange, RoutingMap,
    SessionToken, VectorSessionToken, decode_binary_json, encode_binary_json, is_binary_json,
};

fn vector_under(version: i64) -> impl Strategy<Value = PartitionSessionToken> {
    let regions = prop::collection::btree_map(0u64..4, -1i64..50, 0..4);
    (-1i64..50, regions).prop_map(move |(lsn, regions)| {
        PartitionSessionToken::Vector(VectorSessionToken::new(version, lsn, regions))
    })
}

fn progress() -> impl Strategy<Value = PartitionSessionToken> {
    prop_oneof![
        (-1i64..50).prop_map(|lsn| PartitionSessionToken::Simple { lsn }),
        (-1i64..4).prop_flat_map(vector_under),
    ]
}

fn session() -> impl Strategy<Value = SessionToken> {
    let segments = prop::collection::vec((0u32..5, progress()), 1..6);
    segments.prop_map(|segments| {
        let segments = segments.into_iter().map(|(range, progress)| (range.into(), progress));
        SessionToken::from_segments(segments).unwrap()
    })
}

/// Whether two tokens have equal ranges and progress, whatever their order in the header.
fn same(a: &SessionToken, b: &SessionToken) -> bool {
    a.segments().len() == b.segments().len()
        && a.segments().all(|(range, progress)| b.range(range.as_str()) == Some(progress))
}

proptest! {
    #[test]
    fn merging_progress_is_commutative_and_idempotent(a in progress(), b in progress()) {
        prop_assert_eq!(a.merge(&b), b.merge(&a));
        prop_assert_eq!(a.merge(&a), a.clone());
        prop_assert_eq!(a.merge(&b).merge(&b), a.merge(&b));
    }

    #[test]
    fn merging_progress_of_one_version_is_associative(
        a in vector_under(1), b in vector_under(1), c in vector_under(1),
    ) {
        prop_assert_eq!(a.merge(&b).merge(&c), a.merge(&b.merge(&c)));
    }

    #[test]
    fn merging_never_loses_progress(a in progress(), b in progress()) {
        let merged = a.merge(&b);
        prop_assert!(merged.covers(&a), "{} does not cover {}", merged, a);
        prop_assert!(merged.covers(&b), "{} does not cover {}", merged, b);
    }

    #[test]
    fn a_session_token_reads_back(token in session()) {
        prop_assert_eq!(token.to_string().parse::<SessionToken>(), Ok(token));
    }

    #[test]
    fn merging_sessions_is_commutative_idempotent_and_loses_nothing(a in session(), b in session()) {
        let (mut ab, mut ba, mut aa) = (a.clone(), b.clone(), a.clone());
        ab.merge(&b);
        ba.merge(&a);
        aa.merge(&a);
        prop_assert!(same(&ab, &ba));
        prop_assert_eq!(&aa, &a);
        prop_assert!(ab.covers(&a) && ab.covers(&b));
    }
}

fn component() -> impl Strategy<Value = PartitionKeyValue> {
    prop_oneof![
        Just(PartitionKeyValue::Undefined),
        Just(PartitionKeyValue::Null),
        any::<bool>().prop_map(PartitionKeyValue::from),
        any::<i64>().prop_map(PartitionKeyValue::from),
        any::<f64>().prop_filter_map("finite", |number| PartitionKeyValue::try_from(number).ok()),
        ".*".prop_map(PartitionKeyValue::from),
    ]
}

/// The order of keys, the slow and obvious way: as bytes of the same length.
fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut padded = bytes.to_vec();
    padded.resize(64, 0);
    padded
}

proptest! {
    #[test]
    fn a_partition_key_survives_its_header(components in prop::collection::vec(component(), 1..=3)) {
        let key = PartitionKey::new(components).unwrap();
        let header = key.to_string();
        prop_assert!(header.bytes().all(|byte| matches!(byte, b' '..=b'~')));
        prop_assert_eq!(header.parse::<PartitionKey>(), Ok(key.clone()));
        let json = serde_json::to_string(&key).unwrap();
        prop_assert_eq!(serde_json::from_str::<PartitionKey>(&json).unwrap(), key);
    }

    #[test]
    fn effective_keys_are_ordered_as_padded_bytes(
        a in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..64),
        b in prop::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..64),
    ) {
        let (x, y) = (EffectivePartitionKey::from_bytes(&a), EffectivePartitionKey::from_bytes(&b));
        prop_assert_eq!(x.cmp(&y), padded(&a).cmp(&padded(&b)));
        prop_assert_eq!(x == y, padded(&a) == padded(&b));
        let read: EffectivePartitionKey = x.to_string().parse().unwrap();
        prop_assert_eq!(read.as_bytes(), &a[..]);
    }

    #[test]
    fn equal_keys_have_the_same_effective_key(a in component(), b in component()) {
        let definition = PartitionKeyDefinition::new(["/pk"]).unwrap();
        let effective = |value: &PartitionKeyValue| definition.effective_key(&value.clone().into()).unwrap();
        prop_assert_eq!(a == b, effective(&a) == effective(&b));
    }

    #[test]
    fn a_prefix_covers_exactly_the_keys_that_begin_with_it(
        first in component(), other in component(), second in component(),
    ) {
        let definition = PartitionKeyDefinition::new(["/a", "/b"]).unwrap();
        let range = definition.effective_range(&first.clone().into()).unwrap();
        let effective = definition.effective_key(&(other.clone(), second).into()).unwrap();
        prop_assert_eq!(range.contains(&effective), first == other);
    }
}

/// One change of a container: a range splits, or two neighbours merge.
#[derive(Clone, Debug)]
enum Change {
    Split(Index),
    Merge(Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        2 => any::<Index>().prop_map(Change::Split),
        1 => any::<Index>().prop_map(Change::Merge),
    ]
}

/// The entries the service would list after the change.
fn entries(
    map: &RoutingMap,
    definition: &PartitionKeyDefinition,
    change: &Change,
    next: &mut u32,
) -> Vec<PartitionKeyRange> {
    let ranges = map.ranges();
    let mut entry = |range: EffectivePartitionKeyRange, parents: &[usize]| {
        let mut entry =
            PartitionKeyRange::new((*next).into(), range.min().clone(), range.max().clone());
        for parent in parents {
            entry.parents.extend_from_slice(ranges[*parent].parents());
            entry.parents.push(ranges[*parent].id().clone());
        }
        *next += 1;
        entry
    };
    match change {
        Change::Split(index) => {
            let at = index.index(ranges.len());
            let range = ranges[at].range();
            let Some(point) = definition.split_point(range) else { return Vec::new() };
            let (left, right) = range.split_at(&point).unwrap();
            vec![entry(left, &[at]), entry(right, &[at])]
        }
        Change::Merge(index) if ranges.len() > 1 => {
            let at = index.index(ranges.len() - 1);
            let (min, max) =
                (ranges[at].range().min().clone(), ranges[at + 1].range().max().clone());
            vec![entry(EffectivePartitionKeyRange::new(min, max).unwrap(), &[at, at + 1])]
        }
        Change::Merge(_) => Vec::new(),
    }
}

proptest! {
    #[test]
    fn a_routing_map_tiles_the_key_space_after_any_splits_and_merges(
        changes in prop::collection::vec(change(), 0..40), keys in prop::collection::vec(".{0,12}", 1..8),
    ) {
        let definition = PartitionKeyDefinition::new(["/pk"]).unwrap();
        let full = EffectivePartitionKeyRange::FULL;
        let first = PartitionKeyRange::new(0.into(), full.min().clone(), full.max().clone());
        let mut map = RoutingMap::build([first.clone()]).unwrap();
        let (mut listed, mut next) = (vec![first], 1);
        for change in &changes {
            let delta = entries(&map, &definition, change, &mut next);
            listed.extend(delta.iter().cloned());
            map = map.apply(delta).unwrap();

            let ranges: Vec<_> = map.ranges().iter().map(|range| range.range()).collect();
            prop_assert_eq!(ranges[0].min(), full.min());
            prop_assert!(ranges.windows(2).all(|pair| pair[0].max() == pair[1].min()));
            prop_assert_eq!(ranges[ranges.len() - 1].max(), full.max());
        }
        for key in &keys {
            let effective = definition.effective_key(&key.as_str().into()).unwrap();
            let serves = |range: &&Arc<RoutedRange>| range.range().contains(&effective);
            let serving: Vec<_> = map.ranges().iter().filter(serves).collect();
            prop_assert_eq!(serving, vec![map.at(&effective)]);
        }
        // Listing everything from the start gives the same map as following the changes.
        let fresh = RoutingMap::build(listed).unwrap();
        prop_assert_eq!(fresh.ranges(), map.ranges());
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-300..300_i64).prop_map(Value::from),
        // Those that are not finite become null: JSON has none.
        any::<f64>().prop_map(Value::from),
        ".{0,80}".prop_map(Value::from),
        prop::sample::select(vec!["id", "_etag", "attachments/", "_id"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 200, 12, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..12).prop_map(Value::from),
            prop::collection::vec((".{0,70}", inner), 0..12)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn binary_json_reads_back_what_was_written(value in json()) {
        let body = encode_binary_json(&value);
        prop_assert!(is_binary_json(&body));
        prop_assert_eq!(decode_binary_json(&body), Ok(value));
    }

    #[test]
    fn binary_json_that_is_cut_short_is_refused(value in json(), at: Index) {
        let body = encode_binary_json(&value);
        let at = at.index(body.len());
        prop_assert!(decode_binary_json(&body[..at]).is_err());
    }
}
