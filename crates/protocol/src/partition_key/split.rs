//! Where to cut a range so that both sides hold about as many hashes.
//!
//! The key space of a version 2 container is a number of one to three digits, each of 126 bits (a
//! hash with its two highest bits cleared); that of a version 1 container is a 32-bit hash. The
//! cut is the middle of the numbers, at the shallowest level that has a middle, which is where the
//! service cuts too.

use super::definition::{PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion};
use super::effective::EffectivePartitionKey;
use super::hash::{push_number, read_number};
use super::range::EffectivePartitionKeyRange;

/// The greatest digit: every hash is at most this.
// 128 bits less the two that hashing clears.
const LARGEST_HASH: u128 = (1 << 126) - 1;

impl PartitionKeyDefinition {
    /// The effective partition key that bisects a range, or `None` if the range is too narrow to be cut.
    pub fn split_point(&self, range: &EffectivePartitionKeyRange) -> Option<EffectivePartitionKey> {
        let point = match (self.kind(), self.version()) {
            (PartitionKeyKind::Hash, PartitionKeyVersion::V1) => middle_v1(range),
            (PartitionKeyKind::Range, _) => middle(range, 1),
            _ => middle(range, self.paths().len()),
        }?;
        range.split_at(&point).map(|_| point)
    }

    /// The whole key space in `count` ranges of about the same size, at least one.
    pub fn even_ranges(&self, count: u32) -> Vec<EffectivePartitionKeyRange> {
        let count = count.max(1);
        let cut = |index: u32| match (self.kind(), self.version()) {
            (PartitionKeyKind::Hash, PartitionKeyVersion::V1) => {
                let hash = u64::from(u32::MAX) * u64::from(index) / u64::from(count);
                number(hash as u32) // Less than the greatest 32-bit hash, since index < count.
            }
            _ => {
                // Equal widths: what the division leaves over belongs to the last range, as on the service.
                let hash = LARGEST_HASH / u128::from(count) * u128::from(index);
                EffectivePartitionKey::from_bytes(&hash.to_be_bytes())
            }
        };
        let mut rest = EffectivePartitionKeyRange::FULL;
        let mut ranges = Vec::with_capacity(count as usize);
        for index in 1..count {
            if let Some((left, right)) = rest.split_at(&cut(index)) {
                ranges.push(left);
                rest = right;
            }
        }
        ranges.push(rest);
        ranges
    }
}

fn middle_v1(range: &EffectivePartitionKeyRange) -> Option<EffectivePartitionKey> {
    let hash =
        |bound: &EffectivePartitionKey| read_number(bound.as_bytes()).map(|hash| hash as u32);
    // The ends of the key space are no hashes: "" comes before the first and "FF" after the last.
    let low = if *range.min() == EffectivePartitionKey::MIN { 0 } else { hash(range.min())? };
    let high =
        if *range.max() == EffectivePartitionKey::MAX { u32::MAX } else { hash(range.max())? };
    Some(number(low.midpoint(high)))
}

fn number(hash: u32) -> EffectivePartitionKey {
    let mut bytes = Vec::with_capacity(10);
    push_number(&mut bytes, f64::from(hash));
    EffectivePartitionKey::from_bytes(&bytes)
}

/// The middle of two numbers of `levels` digits, cut to as few digits as leave it inside.
fn middle(range: &EffectivePartitionKeyRange, levels: usize) -> Option<EffectivePartitionKey> {
    let (low, high) = (digits(range.min(), levels), digits(range.max(), levels));
    let mut sums: Vec<u128> = low.iter().zip(&high).map(|(low, high)| low + high).collect();
    for level in (1..levels).rev() {
        let carry = sums[level] >> 126;
        sums[level] &= LARGEST_HASH;
        sums[level - 1] += carry;
    }
    let mut remainder = 0;
    let mut bytes = Vec::with_capacity(16 * levels);
    for sum in sums {
        let value = remainder << 126 | sum;
        // The first digit of the sum may need 127 bits; halved, every digit fits again.
        bytes.extend_from_slice(&(value >> 1).to_be_bytes());
        remainder = sum & 1;
        let point = EffectivePartitionKey::from_bytes(&bytes);
        if range.split_at(&point).is_some() {
            return Some(point);
        }
    }
    None
}

/// The digits of a bound, zero where it is shorter; what is beyond every hash counts as the last.
fn digits(bound: &EffectivePartitionKey, levels: usize) -> Vec<u128> {
    let mut bytes = bound.as_bytes().to_vec();
    bytes.resize(16 * levels, 0);
    let (chunks, _) = bytes.as_chunks::<16>();
    let mut digits: Vec<_> = chunks.iter().map(|chunk| u128::from_be_bytes(*chunk)).collect();
    if let Some(beyond) = digits.iter().position(|digit| *digit > LARGEST_HASH) {
        digits[beyond..].fill(LARGEST_HASH);
    }
    digits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition_key::{PartitionKey, PartitionKeyPath};

    fn flat() -> PartitionKeyDefinition {
        PartitionKeyDefinition::new(["/pk"]).unwrap()
    }

    fn deep() -> PartitionKeyDefinition {
        PartitionKeyDefinition::new(["/tenant", "/user", "/session"]).unwrap()
    }

    fn version_1() -> PartitionKeyDefinition {
        let path: PartitionKeyPath = "/pk".parse().unwrap();
        PartitionKeyDefinition::with_kind(
            vec![path],
            PartitionKeyKind::Hash,
            PartitionKeyVersion::V1,
        )
        .unwrap()
    }

    fn boundaries(definition: &PartitionKeyDefinition, count: u32) -> Vec<String> {
        definition.even_ranges(count).iter().map(|range| range.min().to_string()).collect()
    }

    #[test]
    fn the_first_cut_is_where_the_service_makes_it() {
        let full = EffectivePartitionKeyRange::FULL;
        assert_eq!(
            flat().split_point(&full).unwrap().to_string(),
            format!("1F{}", "FF".repeat(15))
        );
        assert_eq!(version_1().split_point(&full).unwrap().to_string(), "05C1DFFFFFFFFC");
    }

    #[test]
    fn a_quarter_of_a_version_1_container_ends_where_the_service_documents_it() {
        assert_eq!(boundaries(&version_1(), 4)[..3], ["", "05C1CFFFFFFFF8", "05C1DFFFFFFFFC"]);
    }

    #[test]
    fn a_single_tenant_is_cut_inside_its_users() {
        let definition = deep();
        let tenant = definition.effective_range(&"hot".into()).unwrap();
        let point = definition.split_point(&tenant).unwrap();
        assert_eq!(point.as_bytes().len(), 32);
        assert!(point.as_bytes().starts_with(tenant.min().as_bytes()));
        let below = (0..1000).filter(|user| {
            definition.effective_range(&("hot", *user).into()).unwrap().min() < &point
        });
        assert!((400..600).contains(&below.count()));
    }

    #[test]
    fn a_range_of_a_single_key_is_not_cut() {
        let single = flat().effective_range(&"a".into()).unwrap();
        assert_eq!(flat().split_point(&single), None);
    }

    proptest! {
        #[test]
        fn a_split_sends_every_key_to_exactly_one_child(text in ".*", number: u32, version in 0..3) {
            let (definition, key) = match version {
                0 => (flat(), PartitionKey::from(text)),
                1 => (version_1(), PartitionKey::from(text)),
                _ => (deep(), PartitionKey::from((text, number, number % 7))),
            };
            let key = definition.effective_key(&key).unwrap();
            let mut range = EffectivePartitionKeyRange::FULL;
            while let Some(point) = definition.split_point(&range) {
                let (left, right) = range.split_at(&point).unwrap();
                prop_assert_ne!(left.contains(&key), right.contains(&key));
                range = if left.contains(&key) { left } else { right };
            }
            prop_assert!(range.contains(&key));
        }

        #[test]
        fn even_ranges_of_version_2_are_equally_wide_but_for_the_last(count in 2u32..300) {
            let width = ((1_u128 << 126) - 1) / u128::from(count);
            let ranges = flat().even_ranges(count);
            for (index, range) in (1_u128..).zip(&ranges[..ranges.len() - 1]) {
                let expected = EffectivePartitionKey::from_bytes(&(width * index).to_be_bytes());
                prop_assert_eq!(range.max(), &expected);
            }
        }

        #[test]
        fn even_ranges_tile_the_key_space(count in 1u32..300) {
            for definition in [flat(), deep(), version_1()] {
                let ranges = definition.even_ranges(count);
                prop_assert_eq!(ranges.len(), count as usize);
                prop_assert_eq!(ranges[0].min(), &EffectivePartitionKey::MIN);
                prop_assert_eq!(ranges[ranges.len() - 1].max(), &EffectivePartitionKey::MAX);
                prop_assert!(ranges.windows(2).all(|pair| pair[0].max() == pair[1].min()));
            }
        }
    }
}
