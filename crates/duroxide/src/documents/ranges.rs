//! Numbers as a list in which runs are pairs, for `#[serde(with)]`: `[2, [5, 90000]]`. A turn that cancels a fan-out names
//! activities that were scheduled one after the other.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number, or the first and the last of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Item {
    One(u64),
    Run(u64, u64),
}

/// The longest run that is read: a document that names more is damaged.
const LONGEST_RUN: u64 = 10_000_000;

fn compressed(numbers: &[u64]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for &number in numbers {
        let last = items.last_mut();
        match last {
            Some(Item::Run(_, end)) if end.checked_add(1) == Some(number) => *end = number,
            Some(last) => match *last {
                Item::One(one) if one.checked_add(1) == Some(number) => {
                    *last = Item::Run(one, number);
                }
                Item::One(_) | Item::Run(..) => items.push(Item::One(number)),
            },
            None => items.push(Item::One(number)),
        }
    }
    items
}

pub(super) fn serialize<S: Serializer>(numbers: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    compressed(numbers).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u64>, D::Error> {
    let mut numbers = Vec::new();
    for item in Vec::<Item>::deserialize(deserializer)? {
        match item {
            Item::One(number) => numbers.push(number),
            Item::Run(first, last) if last.saturating_sub(first) < LONGEST_RUN => {
                numbers.extend(first..=last);
            }
            Item::Run(..) => {
                return Err(serde::de::Error::custom("a run of activities is too long"));
            }
        }
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Cleanup;

    proptest! {
        #[test]
        fn a_list_of_numbers_comes_back(activities in proptest::collection::vec(0_u64..20, 0..30)) {
            let cleanup = Cleanup::Cancel { execution: 1, activities };
            let text = serde_json::to_string(&cleanup).unwrap();
            prop_assert_eq!(serde_json::from_str::<Cleanup>(&text).unwrap(), cleanup);
        }
    }

    #[test]
    fn a_fan_out_of_any_size_is_a_few_bytes() {
        let activities: Vec<u64> = (2..100_002).filter(|id| *id != 500).collect();
        let text = serde_json::to_string(&Cleanup::Cancel { execution: 1, activities }).unwrap();
        assert!(text.contains("[[2,499],[501,100001]]"), "{text}");
        let damaged = text.replace("100001", "99999999999");
        assert!(serde_json::from_str::<Cleanup>(&damaged).is_err());
    }
}
