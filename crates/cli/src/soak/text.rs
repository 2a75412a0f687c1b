//! Payload texts and checksums, both determined by names: every process computes the same.

use fastrand::Rng;

/// FNV-1a, 64 bits.
const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// Characters that JSON escapes, and characters of two, three and four bytes of UTF-8.
const SPECIAL: [char; 8] = ['"', '\\', '\n', '\u{1}', 'é', '界', '🦀', '/'];

/// One in this many characters is special.
const SPECIAL_EVERY: usize = 6;

/// The checksum after a step: the name and the value of every step and their order count.
pub(super) fn fold(checksum: u64, name: &str, value: &str) -> u64 {
    let start = checksum.to_le_bytes();
    // The zero byte separates the name from the value.
    let bytes = start.iter().chain(name.as_bytes()).chain(&[0]).chain(value.as_bytes());
    bytes.fold(OFFSET_BASIS, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// The text of a name: as many bytes of UTF-8, or up to three more where the last character has several.
pub(super) fn text(name: &str, bytes: usize) -> String {
    let mut rng = Rng::with_seed(fold(0, "text", name));
    let mut text = String::with_capacity(bytes + 3);
    while text.len() < bytes {
        text.push(match rng.usize(..SPECIAL_EVERY) {
            0 => SPECIAL[rng.usize(..SPECIAL.len())],
            _ => rng.alphanumeric(),
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_depends_on_every_step_and_their_order() {
        let once = fold(fold(0, "a", "1"), "b", "2");
        assert_ne!(once, fold(fold(0, "b", "2"), "a", "1"), "another order");
        assert_ne!(once, fold(0, "a", "1"), "a lost step");
        assert_ne!(once, fold(once, "b", "2"), "a doubled step");
        assert_ne!(fold(0, "ab", "c"), fold(0, "a", "bc"), "names end where they end");
    }

    #[test]
    fn texts_have_their_length_and_what_json_escapes() {
        assert_eq!(text("a", 0), "");
        for bytes in [1, 100, 5_000] {
            assert!((bytes..bytes + 4).contains(&text("a", bytes).len()));
        }
        let long = text("a", 5_000);
        assert!(SPECIAL.iter().all(|special| long.contains(*special)));
        assert_eq!(long, text("a", 5_000));
        assert_ne!(long, text("b", 5_000));
    }
}
