//! Strings that are packed: fewer bits for each character, or the bytes that a text in base64 stands for.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

use super::decode::Reader;
use super::markers as m;
use crate::error::Result;

const HEX_LOWER: &[u8; 16] = b"0123456789abcdef";
const HEX_UPPER: &[u8; 16] = b"0123456789ABCDEF";
const DATE_TIME: &[u8; 16] = b" 0123456789:-.TZ";

/// Where a GUID's text has hyphens: before these of its bytes.
const HYPHENS: [usize; 4] = [4, 6, 8, 10];

/// A string whose length is in its marker or in one byte; an error for a marker that does not begin a value.
pub(super) fn of_short_form(reader: &mut Reader<'_>, marker: u8) -> Result<String> {
    match marker {
        m::GUID_LOWER => guid_text(reader, HEX_LOWER),
        m::GUID_UPPER => guid_text(reader, HEX_UPPER),
        // An etag: the quotes are part of the text.
        m::GUID_QUOTED => Ok(format!("\"{}\"", guid_text(reader, HEX_LOWER)?)),
        m::GUID => guid(reader),
        m::HEX_LOWER => of_alphabet(reader, HEX_LOWER),
        m::HEX_UPPER => of_alphabet(reader, HEX_UPPER),
        m::DATE_TIME => of_alphabet(reader, DATE_TIME),
        m::PACKED_4 | m::PACKED_5 | m::PACKED_6 => {
            let count = usize::from(reader.byte()?);
            let base = reader.byte()?;
            packed(reader, count, u32::from(marker - m::PACKED_4) + 4, base)
        }
        m::PACKED_7_1 => {
            let count = usize::from(reader.byte()?);
            packed(reader, count, 7, 0)
        }
        _ => Err(reader.refusal(&format!("0x{marker:02X} begins no value that is allowed here"))),
    }
}

/// Text in base64 of so many groups of four characters, from the bytes that it stands for.
///
/// The byte before them says how many `=` end the text or, if it is more than 2, is the complement of how many were
/// left out.
pub(super) fn base64(reader: &mut Reader<'_>, groups: usize, for_urls: bool) -> Result<String> {
    let padding = reader.byte()?;
    let omitted = padding > 2;
    let padding = usize::from(if omitted { !padding } else { padding });
    // A group is three bytes, and each sign of padding stands for one fewer.
    let length = (groups * 3).checked_sub(padding).filter(|_| padding <= 2);
    let Some(length) = length else {
        return Err(reader.refusal("a text in base64 has no such padding"));
    };
    let bytes = reader.take(length)?;
    let mut text = if for_urls { URL_SAFE.encode(bytes) } else { STANDARD.encode(bytes) };
    if omitted {
        text.truncate(text.len() - padding);
    }
    Ok(text)
}

/// Bytes, which JSON has no value for, as text in base64.
pub(super) fn binary(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// So many characters of so many bits each, the low bits first, added to a base.
pub(super) fn packed(reader: &mut Reader<'_>, count: usize, bits: u32, base: u8) -> Result<String> {
    let bytes = reader.take((count * bits as usize).div_ceil(8))?;
    let mut text = String::with_capacity(count);
    let (mut window, mut filled) = (0_u32, 0);
    let mut rest = bytes.iter();
    for _ in 0..count {
        if filled < bits {
            // Less than 8 bits are left over, so that the window has room for one more byte.
            window |= u32::from(*rest.next().expect("as many bytes were taken as there are bits"))
                << filled;
            filled += 8;
        }
        let value = (window & ((1 << bits) - 1)) as u8;
        window >>= bits;
        filled -= bits;
        match value.checked_add(base).filter(u8::is_ascii) {
            Some(character) => text.push(char::from(character)),
            None => return Err(reader.refusal("a packed character is not ASCII")),
        }
    }
    Ok(text)
}

/// Characters of four bits each, of which the low ones come first.
fn of_alphabet(reader: &mut Reader<'_>, alphabet: &[u8; 16]) -> Result<String> {
    let count = usize::from(reader.byte()?);
    let bytes = reader.take(count.div_ceil(2))?;
    let nibbles = bytes.iter().flat_map(|byte| [byte & 15, byte >> 4]);
    if nibbles.clone().skip(count).any(|unused| unused != 0) {
        return Err(reader.refusal("a packed string has something after its end"));
    }
    Ok(nibbles.take(count).map(|nibble| char::from(alphabet[usize::from(nibble)])).collect())
}

/// The text of a GUID, packed like the characters of an alphabet and without its hyphens.
fn guid_text(reader: &mut Reader<'_>, alphabet: &[u8; 16]) -> Result<String> {
    let bytes: [u8; 16] = reader.bytes()?;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.into_iter().enumerate() {
        if HYPHENS.contains(&at) {
            text.push('-');
        }
        text.extend([byte & 15, byte >> 4].map(|nibble| char::from(alphabet[usize::from(nibble)])));
    }
    Ok(text)
}

/// A GUID as .NET holds it: the first three of its parts are little-endian, the rest is in order.
fn guid(reader: &mut Reader<'_>) -> Result<String> {
    let first = u32::from_le_bytes(reader.bytes()?);
    let [second, third] =
        [u16::from_le_bytes(reader.bytes()?), u16::from_le_bytes(reader.bytes()?)];
    let fourth = u16::from_be_bytes(reader.bytes()?);
    let rest: [u8; 6] = reader.bytes()?;
    let rest = rest.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    Ok(format!("{first:08x}-{second:04x}-{third:04x}-{fourth:04x}-{rest:012x}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::decode_binary_json;

    fn body(parts: &[&[u8]]) -> Vec<u8> {
        [&[0x80][..]].iter().chain(parts).copied().collect::<Vec<_>>().concat()
    }

    /// Packs numbers of so many bits, the low bits first.
    fn pack(numbers: &[u8], bits: usize) -> Vec<u8> {
        let mut bytes = vec![0; (numbers.len() * bits).div_ceil(8)];
        for (at, number) in numbers.iter().enumerate() {
            for bit in (0..bits).filter(|bit| number >> bit & 1 == 1) {
                bytes[(at * bits + bit) / 8] |= 1 << ((at * bits + bit) % 8);
            }
        }
        bytes
    }

    #[test]
    fn text_of_few_characters_is_unpacked() {
        let text = "a quick brown fox";
        for (marker, bits, base, text) in [
            (0x7b, 4, b'0', "0123456789:;<=>?"),
            (0x7c, 5, b'a', "abcxyz{"),
            (0x7d, 6, b' ', "HELLO, WORLD 42!"),
        ] {
            let numbers: Vec<u8> = text.bytes().map(|byte| byte - base).collect();
            let body = body(&[&[marker, numbers.len() as u8, base], &pack(&numbers, bits)]);
            assert_eq!(decode_binary_json(&body), Ok(json!(text)), "{marker:x}");
        }
        let numbers = pack(text.as_bytes(), 7);
        let short = body(&[&[0x7e, text.len() as u8], &numbers]);
        let long = body(&[&[0x7f, text.len() as u8, 0], &numbers]);
        assert_eq!(decode_binary_json(&short), Ok(json!(text)));
        assert_eq!(decode_binary_json(&long), Ok(json!(text)));
    }

    #[test]
    fn text_of_an_alphabet_is_unpacked() {
        for (marker, alphabet, text) in [
            (0x78, super::HEX_LOWER, "c0ffee1"),
            (0x79, super::HEX_UPPER, "C0FFEE"),
            (0x7a, super::DATE_TIME, "2024-05-17T12:34:56.7Z"),
        ] {
            let place = |byte| alphabet.iter().position(|it| *it == byte).unwrap() as u8;
            let numbers: Vec<u8> = text.bytes().map(place).collect();
            let body = body(&[&[marker, text.len() as u8], &pack(&numbers, 4)]);
            assert_eq!(decode_binary_json(&body), Ok(json!(text)), "{marker:x}");
        }
        assert!(decode_binary_json(&[0x80, 0x78, 1, 0x10]).is_err(), "something after its end");
    }

    #[test]
    fn guids_have_their_text() {
        let digits = pack(&(0..32).map(|n| n % 16).collect::<Vec<_>>(), 4);
        let lower = "01234567-89ab-cdef-0123-456789abcdef";
        let quoted = format!("\"{lower}\"");
        for (marker, expected) in
            [(0x75, lower), (0x76, &lower.to_uppercase()), (0x77, quoted.as_str())]
        {
            assert_eq!(decode_binary_json(&body(&[&[marker], &digits])), Ok(json!(expected)));
        }
        let bytes: Vec<u8> = (0..16).collect();
        let value = decode_binary_json(&body(&[&[0xd3], &bytes]));
        assert_eq!(value, Ok(json!("03020100-0504-0706-0809-0a0b0c0d0e0f")));
    }

    #[test]
    fn base64_keeps_or_leaves_out_its_padding() {
        for (marker, padding, bytes, text) in [
            (0x71, 0, &b"foo"[..], "Zm9v"),
            (0x71, 1, b"fo", "Zm8="),
            (0x71, 2, b"f", "Zg=="),
            (0x71, !2, b"f", "Zg"),
            (0x71, !1, b"fo", "Zm8"),
            (0x71, 0, b"\xfb\xff\xfe", "+//+"),
            (0x73, 0, b"\xfb\xff\xfe", "-__-"),
        ] {
            let body = body(&[&[marker, 1, padding], bytes]);
            assert_eq!(decode_binary_json(&body), Ok(json!(text)), "{text}");
        }
        assert_eq!(decode_binary_json(&body(&[&[0x72, 1, 0, 0], b"foo"])), Ok(json!("Zm9v")));
        assert_eq!(decode_binary_json(&body(&[&[0x74, 1, 0, 0], b"foo"])), Ok(json!("Zm9v")));
        for bytes in
            [&[0x71, 0, 1][..], &[0x71, 1, 3, 1, 2, 3], &[0x71, 1, 100, 1, 2, 3], &[0x71, 255, 0]]
        {
            assert!(decode_binary_json(&body(&[bytes])).is_err(), "{bytes:?}");
        }
        for head in [&[0xdd, 3][..], &[0xde, 3, 0], &[0xdf, 3, 0, 0, 0]] {
            assert_eq!(decode_binary_json(&body(&[head, b"foo"])), Ok(json!("Zm9v")));
        }
    }

    #[test]
    fn a_packed_character_is_ascii() {
        assert!(decode_binary_json(&[0x80, 0x7b, 1, 0x7f, 1]).is_err());
        assert!(decode_binary_json(&[0x80, 0x7b, 1, 0xff, 1]).is_err());
        assert!(decode_binary_json(&[0x80, 0x7f, 0xff, 0xff, 1]).is_err());
    }
}
