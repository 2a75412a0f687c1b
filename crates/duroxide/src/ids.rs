//! Ids of documents, and the slot of an instance.
//!
//! The service takes neither `/ \ ? #` nor more than 1,023 bytes in an id, and an orchestration's id, a key or a
//! session's name may be any text: each is encoded as one part of an id, and `:` separates the parts.

use std::fmt::Write as _;

use duroxide::providers::ProviderError;
use sha2::{Digest, Sha256};

/// The longest part that is kept readable. Three of them and the words between stay below the service's 1,023 bytes.
const MAX_PART_BYTES: usize = 300;

/// How many slots the instances are spread over.
pub(crate) const SLOTS: u32 = 256;

/// The partition of the schema document.
pub(crate) const SCHEMA_PARTITION: &str = "__sidereal__";

/// The partition of the leases of processes.
pub(crate) const LEASES_PARTITION: &str = "__leases__";

/// The prefix of the partitions of sessions.
const SESSION_PREFIX: &str = "session:";

/// Text as one part of an id: what the service does not take, the separator and `%` are percent-encoded; a long
/// text is replaced by its hash.
pub(crate) fn part(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for character in text.chars() {
        let is_kept =
            !character.is_control() && !matches!(character, '/' | '\\' | '?' | '#' | ':' | '%');
        if is_kept {
            encoded.push(character);
            continue;
        }
        let mut bytes = [0; 4];
        for byte in character.encode_utf8(&mut bytes).bytes() {
            // Writing to a text cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    match encoded.len() <= MAX_PART_BYTES {
        true => encoded,
        false => hashed(text),
    }
}

/// The hash of a text that is too long for an id. No encoded text has a `%` that no hexadecimal digits follow.
fn hashed(text: &str) -> String {
    let mut id = String::from("%sha256-");
    for byte in Sha256::digest(text.as_bytes()) {
        let _ = write!(id, "{byte:02x}");
    }
    id
}

/// The document of an instance.
pub(crate) fn instance(instance: &str) -> String {
    format!("{}:instance", part(instance))
}

/// The document of an execution of an instance.
pub(crate) fn execution(instance: &str, execution: u64) -> String {
    format!("{}:execution:{execution}", part(instance))
}

/// The document of an event.
pub(crate) fn history(instance: &str, execution: u64, event: u64) -> String {
    format!("{}:history:{execution}:{event}", part(instance))
}

/// A part of a payload that is too large for its document.
pub(crate) fn payload_part(owner: &str, number: usize) -> String {
    format!("{owner}:part:{number}")
}

/// The document of an activity that waits for a worker: the same wherever it is scheduled from, so that it can be
/// cancelled without being looked for.
pub(crate) fn worker_item(instance: &str, execution: u64, activity: u64) -> String {
    format!("{}:worker:{execution}:{activity}", part(instance))
}

/// The document of a key of an instance.
pub(crate) fn key_value(instance: &str, key: &str) -> String {
    format!("{}:kv:{}", part(instance), part(key))
}

/// The partition of a session: sessions belong to no instance.
pub(crate) fn session_partition(session: &str) -> String {
    format!("{SESSION_PREFIX}{session}")
}

/// Refuses ids of instances that name a partition of the container's own documents: a deletion of the instance would remove
/// them.
pub(crate) fn check_instances<'a>(
    operation: &str,
    instances: impl IntoIterator<Item = &'a str>,
) -> Result<(), ProviderError> {
    let is_reserved = |instance: &&str| {
        [SCHEMA_PARTITION, LEASES_PARTITION].contains(instance)
            || instance.starts_with(SESSION_PREFIX)
    };
    match instances.into_iter().find(is_reserved) {
        None => Ok(()),
        Some(instance) => Err(ProviderError::permanent(
            operation,
            format!(
                "{}: instance ids {SCHEMA_PARTITION}, {LEASES_PARTITION} and those that begin with {SESSION_PREFIX} are \
                 reserved for the container's own documents; choose another id",
                crate::excerpt(instance)
            ),
        )),
    }
}

/// The document of a session.
pub(crate) fn session(session: &str) -> String {
    format!("{}:session", part(session))
}

/// The idempotency key of a message to another instance: the same whenever it is delivered. The turn is part of it, since
/// positions restart in each; the incarnation, since turns restart when an instance is recreated.
pub(crate) fn delivery_key(source: &str, incarnation: &str, turn: u64, position: usize) -> String {
    format!("{}:{incarnation}:{turn}:{position}", part(source))
}

/// The document that a delivery creates in the other instance's partition.
pub(crate) fn delivered(key: &str) -> String {
    format!("outbox:{key}")
}

/// Whether a document was created by a delivery, or is what is left of one.
pub(crate) fn is_delivered(id: &str) -> bool {
    id.starts_with("outbox:")
}

/// The document that remembers a delivery until it is made.
pub(crate) fn intent(key: &str) -> String {
    format!("intent:{key}")
}

/// The slot of an instance: MurmurHash3 (32 bits), so that every version and language computes the same.
pub(crate) fn dispatch_slot(instance: &str) -> u8 {
    let slot = sidereal_protocol::murmur3_32(instance.as_bytes()) % SLOTS;
    u8::try_from(slot).expect("a remainder of 256 is a byte")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_makes_a_part_that_the_service_takes(text: String) {
            let part = part(&text);
            prop_assert!(part.len() <= MAX_PART_BYTES);
            prop_assert!(!part.contains(['/', '\\', '?', '#', ':']) && !part.contains(char::is_control));
        }

        #[test]
        fn two_texts_make_two_parts(one: String, other: String) {
            prop_assert_eq!(one == other, part(&one) == part(&other));
        }
    }

    #[test]
    fn a_long_text_is_hashed_and_its_ids_stay_within_the_limit() {
        let long = "parent::sub::1".repeat(100);
        assert!(part(&long).starts_with("%sha256-"));
        let key = delivery_key(&long, "incarnation", u64::MAX, usize::MAX);
        assert!(delivered(&key).len() < 1_023);
        assert!(key_value(&long, &"k".repeat(2_000)).len() < 1_023);
    }

    #[test]
    fn partitions_of_the_container_itself_are_no_instances() {
        let check = |instance: &str| check_instances("operation", [instance]);
        for reserved in [SCHEMA_PARTITION, LEASES_PARTITION, &session_partition("s"), "session:"] {
            let refused = check(reserved).unwrap_err();
            assert!(!refused.is_retryable() && refused.message.contains("reserved"), "{refused}");
        }
        for instance in ["session", "Session:1", "a session:1", "__sidereal__ ", "leases", ""] {
            assert_eq!(check(instance), Ok(()), "{instance}");
        }
        assert!(check_instances("operation", ["i", LEASES_PARTITION]).is_err());
    }

    #[test]
    fn slots_are_those_of_murmur_hash_3() {
        // From the reference implementation: MurmurHash3_x86_32 of "" and "hello" with seed 0.
        assert_eq!(dispatch_slot(""), 0);
        assert_eq!(dispatch_slot("hello"), u8::try_from(0x248b_fa47_u32 % 256).unwrap());
    }
}
