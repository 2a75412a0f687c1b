//! MurmurHash3, the two variants the service hashes partition keys with, seed 0.
//!
//! Written out here because it runs once per request and nothing else of a hashing crate is
//! needed. The 128-bit variant works on 64-bit words, the 32-bit one on 32-bit words.

// The multipliers of the reference implementation, MurmurHash3_x64_128.
const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// MurmurHash3 x64, 128 bits: the first 64-bit half is the low one.
pub(super) fn murmur3_128(data: &[u8]) -> u128 {
    let (mut h1, mut h2) = (0u64, 0u64);
    let (blocks, tail) = data.as_chunks::<16>();
    for block in blocks {
        let (k1, k2) = words(block);
        h1 = (h1 ^ scramble1(k1)).rotate_left(27).wrapping_add(h2);
        h1 = h1.wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 = (h2 ^ scramble2(k2)).rotate_left(31).wrapping_add(h1);
        h2 = h2.wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    if !tail.is_empty() {
        // Zeros scramble to zero, so a padded block stands for the reference's fall-through switch.
        let mut block = [0u8; 16];
        block[..tail.len()].copy_from_slice(tail);
        let (k1, k2) = words(&block);
        h1 ^= scramble1(k1);
        h2 ^= scramble2(k2);
    }
    let length = data.len() as u64;
    h1 ^= length;
    h2 ^= length;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finish64(h1);
    h2 = finish64(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    u128::from(h2) << 64 | u128::from(h1)
}

/// MurmurHash3 x86, 32 bits, seed 0.
pub fn murmur3_32(data: &[u8]) -> u32 {
    let mut hash = 0u32;
    let (blocks, tail) = data.as_chunks::<4>();
    for block in blocks {
        hash = (hash ^ scramble32(u32::from_le_bytes(*block))).rotate_left(13);
        hash = hash.wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    if !tail.is_empty() {
        let mut block = [0u8; 4];
        block[..tail.len()].copy_from_slice(tail);
        hash ^= scramble32(u32::from_le_bytes(block));
    }
    hash ^= data.len() as u32; // The reference takes the length modulo 2³² as well.
    hash ^= hash >> 16;
    hash = hash.wrapping_mul(0x85eb_ca6b);
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

fn words(block: &[u8; 16]) -> (u64, u64) {
    let both = u128::from_le_bytes(*block);
    (both as u64, (both >> 64) as u64)
}

fn scramble1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn scramble32(k: u32) -> u32 {
    k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn finish64(mut h: u64) -> u64 {
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    h ^= h >> 33;
    h = h.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_32_bit_hash_agrees_with_published_values() {
        assert_eq!(murmur3_32(b""), 0);
        assert_eq!(murmur3_32(b"hello"), 0x248b_fa47);
        assert_eq!(murmur3_32(b"hello, world"), 0x149b_bb7f);
        assert_eq!(murmur3_32(b"The quick brown fox jumps over the lazy dog"), 0x2e4f_f723);
    }

    #[test]
    fn the_128_bit_hash_agrees_with_published_values() {
        assert_eq!(murmur3_128(b""), 0);
        assert_eq!(murmur3_128(b"hello"), 0x5b1e_906a_48ae_1d19_cbd8_a7b3_41bd_9b02);
        assert_eq!(
            murmur3_128(b"The quick brown fox jumps over the lazy dog"),
            0x7a43_3ca9_c49a_9347_e34b_bc7b_bc07_1b6c
        );
    }
}
