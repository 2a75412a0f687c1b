//! Reading the binary form.
//!
//! Total: any bytes give a value or an error. What a body may make of few bytes is bounded, by its depth and by a
//! budget for what takes no bytes of its own: references to strings, and arrays of empty arrays.

use serde_json::{Map, Number, Value};

use super::markers as m;
use super::strings;
use crate::error::{Error, ErrorKind, Result};

/// How deep values may be nested: what the service reads.
const MAX_DEPTH: usize = 256;

/// Bytes that references and empty arrays may grow to beyond the body's own: eight times the largest item, so that
/// no body of the service's comes near it.
const MAX_EXPANSION: usize = 16 * 1024 * 1024;

/// The size that an empty array counts for in [`MAX_EXPANSION`].
const EMPTY_ARRAY: usize = size_of::<Value>();

/// Reads a body in the binary form.
///
/// Strings that are packed come out as the text that they stand for, and GUIDs and bytes, which JSON has no values
/// for, as their usual text and as base64.
///
/// # Errors
///
/// The body is not in the binary form, ends early or late, is nested deeper than 256 levels, has a string that is
/// not UTF-8 or a number that is not finite, or refers to a dictionary that it does not carry.
pub fn decode_binary_json(body: &[u8]) -> Result<Value> {
    let mut reader = Reader { body, at: 0, expansion: MAX_EXPANSION };
    if reader.byte()? != m::PREAMBLE {
        return Err(reader.refusal("it does not begin with 0x80"));
    }
    let value = reader.value(0)?;
    if reader.at < body.len() {
        return Err(reader.refusal("something follows its value"));
    }
    Ok(value)
}

/// The width of a length or a count.
#[derive(Clone, Copy, Debug)]
enum Width {
    One,
    Two,
    Four,
}

/// A position in a body, and what it may still grow by.
pub(super) struct Reader<'a> {
    body: &'a [u8],
    /// Never past the end.
    at: usize,
    expansion: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn refusal(&self, why: &str) -> Error {
        let message = format!("the binary JSON cannot be read near byte {}: {why}", self.at);
        Error::new(ErrorKind::BinaryJson, message)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        // Compared with what is left: a sum could overflow.
        let left = &self.body[self.at..];
        if length > left.len() {
            return Err(self.refusal("it ends early"));
        }
        self.at += length;
        Ok(&left[..length])
    }

    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N]> {
        let bytes = self.take(N)?;
        Ok(bytes.try_into().expect("so many bytes were taken"))
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.bytes().map(|[byte]| byte)
    }

    fn length(&mut self, width: Width) -> Result<usize> {
        Ok(match width {
            Width::One => usize::from(self.byte()?),
            Width::Two => usize::from(u16::from_le_bytes(self.bytes()?)),
            Width::Four => u32::from_le_bytes(self.bytes()?) as usize,
        })
    }

    /// Takes from the budget of what has no bytes of its own.
    fn expand(&mut self, by: usize) -> Result<()> {
        match self.expansion.checked_sub(by) {
            Some(left) => {
                self.expansion = left;
                Ok(())
            }
            None => Err(self.refusal("it grows to more than can be meant")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Value> {
        if depth > MAX_DEPTH {
            return Err(self.refusal("it is nested too deep"));
        }
        let marker = self.byte()?;
        Ok(match marker {
            m::NULL => Value::Null,
            m::FALSE => Value::Bool(false),
            m::TRUE => Value::Bool(true),
            m::ARRAY_EMPTY => Value::Array(Vec::new()),
            m::ARRAY_ONE => Value::Array(vec![self.value(depth + 1)?]),
            m::ARRAY_1..=m::ARRAY_COUNTED_4 => self.array(marker - m::ARRAY_1, depth)?,
            m::OBJECT_EMPTY => Value::Object(Map::new()),
            m::OBJECT_ONE => {
                let mut members = Map::new();
                self.member(&mut members, depth)?;
                Value::Object(members)
            }
            m::OBJECT_1..=m::OBJECT_COUNTED_4 => self.object(marker - m::OBJECT_1, depth)?,
            m::NUMBERS_1 => self.numbers(Width::One)?,
            m::NUMBERS_2 => self.numbers(Width::Two)?,
            m::NUMBER_ARRAYS_1 => self.number_arrays(Width::One, m::NUMBERS_1)?,
            m::NUMBER_ARRAYS_2 => self.number_arrays(Width::Two, m::NUMBERS_2)?,
            0..=m::LAST_LITERAL => Value::from(marker),
            m::NUMBER_U64..=m::F64 | m::U8..=m::U32 => self.number(marker)?,
            _ => Value::String(self.string(marker)?),
        })
    }

    /// The end of an array or object and, of a counted one, how much is in it. The forms stand in the same order
    /// for both: three widths without a count, and the three with one.
    fn extent(&mut self, form: u8) -> Result<(usize, Option<usize>)> {
        let width = match form % 3 {
            0 => Width::One,
            1 => Width::Two,
            _ => Width::Four,
        };
        let length = self.length(width)?;
        let count = if form < 3 { None } else { Some(self.length(width)?) };
        // Checked before anything is read: no value inside passes the end of the body unseen.
        if length > self.body.len() - self.at {
            return Err(self.refusal("it ends early"));
        }
        Ok((self.at + length, count))
    }

    fn check_extent(&self, end: usize, count: Option<usize>, found: usize) -> Result<()> {
        if self.at != end {
            return Err(self.refusal("a value does not end where what it is in does"));
        }
        if count.is_some_and(|count| count != found) {
            return Err(self.refusal("there is not as much in it as it says"));
        }
        Ok(())
    }

    fn array(&mut self, form: u8, depth: usize) -> Result<Value> {
        let (end, count) = self.extent(form)?;
        let mut items = Vec::new();
        while self.at < end {
            items.push(self.value(depth + 1)?);
        }
        self.check_extent(end, count, items.len())?;
        Ok(Value::Array(items))
    }

    fn object(&mut self, form: u8, depth: usize) -> Result<Value> {
        let (end, count) = self.extent(form)?;
        let mut members = Map::new();
        let mut found = 0;
        while self.at < end {
            self.member(&mut members, depth)?;
            found += 1;
        }
        self.check_extent(end, count, found)?;
        Ok(Value::Object(members))
    }

    fn member(&mut self, members: &mut Map<String, Value>, depth: usize) -> Result<()> {
        let marker = self.byte()?;
        let name = self.string(marker)?;
        // Of two of one name the later stays, as in text.
        members.insert(name, self.value(depth + 1)?);
        Ok(())
    }

    fn numbers(&mut self, width: Width) -> Result<Value> {
        let marker = self.item_marker()?;
        let count = self.length(width)?;
        (0..count).map(|_| self.number(marker)).collect()
    }

    fn number_arrays(&mut self, width: Width, inner: u8) -> Result<Value> {
        if self.byte()? != inner {
            return Err(
                self.refusal("an array of arrays of numbers has another kind of array in it")
            );
        }
        let marker = self.item_marker()?;
        let inner_count = self.length(width)?;
        let count = self.length(width)?;
        if inner_count == 0 {
            self.expand(count * EMPTY_ARRAY)?;
        }
        (0..count)
            .map(|_| (0..inner_count).map(|_| self.number(marker)).collect::<Result<Value>>())
            .collect()
    }

    /// The marker of the numbers in a uniform array, which have a type.
    fn item_marker(&mut self) -> Result<u8> {
        match self.byte()? {
            marker @ (m::F32 | m::F64 | m::U8..=m::U32) => Ok(marker),
            _ => Err(self.refusal("an array of numbers has no type of number")),
        }
    }

    fn number(&mut self, marker: u8) -> Result<Value> {
        Ok(match marker {
            m::NUMBER_U8 | m::U8 => self.byte()?.into(),
            m::I8 => i8::from_le_bytes(self.bytes()?).into(),
            m::NUMBER_I16 | m::I16 => i16::from_le_bytes(self.bytes()?).into(),
            m::NUMBER_I32 | m::I32 => i32::from_le_bytes(self.bytes()?).into(),
            m::NUMBER_I64 | m::I64 => i64::from_le_bytes(self.bytes()?).into(),
            m::U32 => u32::from_le_bytes(self.bytes()?).into(),
            m::NUMBER_U64 => u64::from_le_bytes(self.bytes()?).into(),
            m::F32 => {
                self.double(|reader| reader.bytes().map(f32::from_le_bytes).map(f64::from))?
            }
            m::NUMBER_F64 | m::F64 => {
                self.double(|reader| reader.bytes().map(f64::from_le_bytes))?
            }
            _ => return Err(self.refusal("a number has no type")),
        })
    }

    fn double(&mut self, read: impl FnOnce(&mut Self) -> Result<f64>) -> Result<Value> {
        let number = Number::from_f64(read(self)?);
        number.map(Value::Number).ok_or_else(|| self.refusal("a number is not finite"))
    }

    fn string(&mut self, marker: u8) -> Result<String> {
        match marker {
            m::REFERENCE_1..=m::REFERENCE_4 => {
                self.reference(usize::from(marker - m::REFERENCE_1) + 1)
            }
            _ => self.own_string(marker),
        }
    }

    /// A string that is where it stands.
    fn own_string(&mut self, marker: u8) -> Result<String> {
        let length = match marker {
            m::SYSTEM_STRING..=m::LAST_SYSTEM_STRING => {
                return Ok(m::SYSTEM_STRINGS[usize::from(marker - m::SYSTEM_STRING)].to_owned());
            }
            m::SHORT_STRING..=m::LAST_SHORT_STRING => usize::from(marker - m::SHORT_STRING),
            m::STRING_1 => self.length(Width::One)?,
            m::STRING_2 => self.length(Width::Two)?,
            m::STRING_4 => self.length(Width::Four)?,
            m::BASE64_1 | m::BASE64_URL_1 => {
                let groups = self.length(Width::One)?;
                return strings::base64(self, groups, marker == m::BASE64_URL_1);
            }
            m::BASE64_2 | m::BASE64_URL_2 => {
                let groups = self.length(Width::Two)?;
                return strings::base64(self, groups, marker == m::BASE64_URL_2);
            }
            m::PACKED_7_2 => {
                let count = self.length(Width::Two)?;
                return strings::packed(self, count, 7, 0);
            }
            m::BINARY_1 | m::BINARY_2 | m::BINARY_4 => {
                let width =
                    [Width::One, Width::Two, Width::Four][usize::from(marker - m::BINARY_1)];
                let length = self.length(width)?;
                return Ok(strings::binary(self.take(length)?));
            }
            _ => return strings::of_short_form(self, marker),
        };
        let bytes = self.take(length)?;
        let text = std::str::from_utf8(bytes).map_err(|_| self.refusal("a string is not UTF-8"))?;
        Ok(text.to_owned())
    }

    /// The string at an offset from the beginning of the body, before the reference; it is not itself a reference.
    fn reference(&mut self, width: usize) -> Result<String> {
        let begins = self.at;
        let offset =
            self.take(width)?.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
        let mut target = Reader { body: self.body, at: offset.min(self.body.len()), expansion: 0 };
        let marker = if offset < begins { target.byte()? } else { m::NULL };
        let text = match marker {
            m::SYSTEM_STRING..=m::STRING_4 => target.own_string(marker)?,
            _ => return Err(self.refusal("a reference leads to no string before it")),
        };
        self.expand(text.len())?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decoded(hex: &str) -> Result<Value> {
        let bytes = hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap());
        decode_binary_json(&bytes.collect::<Vec<_>>())
    }

    #[test]
    fn numbers_of_every_width_are_numbers() {
        for (hex, expected) in [
            ("80 00", json!(0)),
            ("80 1F", json!(31)),
            ("80 C8 FF", json!(255)),
            ("80 C9 00 80", json!(-32768)),
            ("80 CA FF FF FF 7F", json!(i32::MAX)),
            ("80 CB 00 00 00 00 00 00 00 80", json!(i64::MIN)),
            ("80 C7 FF FF FF FF FF FF FF FF", json!(u64::MAX)),
            ("80 CC 00 00 00 00 00 00 F8 3F", json!(1.5)),
            ("80 CD 00 00 C0 3F", json!(1.5)),
            ("80 CE 00 00 00 00 00 00 F8 BF", json!(-1.5)),
            ("80 D7 FF", json!(255)),
            ("80 D8 FF", json!(-1)),
            ("80 D9 FE FF", json!(-2)),
            ("80 DA FD FF FF FF", json!(-3)),
            ("80 DB FC FF FF FF FF FF FF FF", json!(-4)),
            ("80 DC FF FF FF FF", json!(u32::MAX)),
        ] {
            assert_eq!(decoded(hex), Ok(expected), "{hex}");
        }
    }

    #[test]
    fn arrays_and_objects_of_every_form_are_read() {
        let (items, members) = (json!([1, 2]), json!({ "id": 1, "a": 2 }));
        for (hex, expected) in [
            ("80 E0", json!([])),
            ("80 E1 01", json!([1])),
            ("80 E2 02 01 02", items.clone()),
            ("80 E3 02 00 01 02", items.clone()),
            ("80 E4 02 00 00 00 01 02", items.clone()),
            ("80 E5 02 02 01 02", items.clone()),
            ("80 E6 02 00 02 00 01 02", items.clone()),
            ("80 E7 02 00 00 00 02 00 00 00 01 02", items),
            ("80 E8", json!({})),
            ("80 E9 2C 01", json!({ "id": 1 })),
            ("80 EA 05 2C 01 81 61 02", members.clone()),
            ("80 EB 05 00 2C 01 81 61 02", members.clone()),
            ("80 EC 05 00 00 00 2C 01 81 61 02", members.clone()),
            ("80 ED 05 02 2C 01 81 61 02", members.clone()),
            ("80 EE 05 00 02 00 2C 01 81 61 02", members.clone()),
            ("80 EF 05 00 00 00 02 00 00 00 2C 01 81 61 02", members),
            ("80 F0 D7 03 01 02 FF", json!([1, 2, 255])),
            ("80 F1 D9 02 00 FF FF 01 00", json!([-1, 1])),
            ("80 F2 F0 D8 02 02 01 02 03 FF", json!([[1, 2], [3, -1]])),
            ("80 F3 F1 D7 01 00 02 00 07 08", json!([[7], [8]])),
            ("80 F2 F0 D7 00 02", json!([[], []])),
        ] {
            assert_eq!(decoded(hex), Ok(expected), "{hex}");
        }
    }

    #[test]
    fn strings_are_text_dictionary_or_reference() {
        for (hex, expected) in [
            ("80 80", json!("")),
            ("80 82 68 69", json!("hi")),
            ("80 C0 02 68 69", json!("hi")),
            ("80 C1 02 00 68 69", json!("hi")),
            ("80 C2 02 00 00 00 68 69", json!("hi")),
            ("80 20", json!("$s")),
            ("80 25", json!("_rid")),
            ("80 3F", json!("_id")),
            // The first item stands at byte 3.
            ("80 E2 05 82 68 69 C3 03", json!(["hi", "hi"])),
            ("80 E2 06 82 68 69 C4 03 00", json!(["hi", "hi"])),
            ("80 E2 07 82 68 69 C5 03 00 00", json!(["hi", "hi"])),
            ("80 E2 08 82 68 69 C6 03 00 00 00", json!(["hi", "hi"])),
            ("80 EA 05 82 68 69 C3 03", json!({ "hi": "hi" })),
        ] {
            assert_eq!(decoded(hex), Ok(expected), "{hex}");
        }
    }

    #[test]
    fn what_is_malformed_is_refused_with_its_reason() {
        for (hex, why) in [
            ("", "ends early"),
            ("00", "begin with 0x80"),
            ("80", "ends early"),
            ("80 00 00", "follows"),
            ("80 C9 00", "ends early"),
            ("80 82 68", "ends early"),
            ("80 C2 FF FF FF FF 61", "ends early"),
            ("80 81 FF", "UTF-8"),
            ("80 CC 00 00 00 00 00 00 F0 7F", "finite"),
            ("80 CD 00 00 C0 7F", "finite"),
            ("80 CF 00 3C", "no value"),
            ("80 40", "no value"),
            ("80 FF", "no value"),
            ("80 E2 05 01", "ends early"),
            ("80 E2 02 C9 01 00", "where what it is in does"),
            ("80 E5 02 03 01 02", "as much in it"),
            ("80 ED 02 02 2C 01", "as much in it"),
            ("80 EA 02 01 01", "no value"),
            ("80 C3 01", "no string before it"),
            ("80 C3 09", "no string before it"),
            ("80 E2 05 82 68 69 C3 06", "no string before it"),
            ("80 E2 07 82 68 69 C3 03 C3 06", "no string before it"),
            ("80 F0 C8 01 01", "no type of number"),
            ("80 F2 F1 D7 01 00 01 00", "another kind of array"),
        ] {
            let error = decoded(hex).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BinaryJson);
            assert!(error.to_string().contains(why), "{hex}: {error}");
        }
    }

    #[test]
    fn what_few_bytes_may_grow_to_is_bounded() {
        let nested = |depth: usize| {
            let mut body = vec![m::ARRAY_ONE; depth];
            body.insert(0, m::PREAMBLE);
            body.push(m::NULL);
            body
        };
        assert!(decode_binary_json(&nested(MAX_DEPTH)).is_ok());
        let error = decode_binary_json(&nested(MAX_DEPTH + 1)).unwrap_err();
        assert!(error.to_string().contains("too deep"), "{error}");

        // A string of 64 KiB and 400 references to it: 25 MiB of text from 67 KiB.
        let mut items = vec![m::STRING_4];
        items.extend(65_536_u32.to_le_bytes());
        items.extend(vec![b'x'; 65_536]);
        items.extend([m::REFERENCE_1, 6].repeat(400));
        let mut body = vec![m::PREAMBLE, m::ARRAY_4];
        body.extend((items.len() as u32).to_le_bytes());
        body.extend(items);
        let error = decode_binary_json(&body).unwrap_err();
        assert!(error.to_string().contains("more than can be meant"), "{error}");

        // 65,535 empty arrays in eight bytes, a hundred times.
        let arrays = [0xf3, 0xf1, m::U8, 0, 0, 0xff, 0xff].repeat(100);
        let mut body = vec![m::PREAMBLE, m::ARRAY_4];
        body.extend((arrays.len() as u32).to_le_bytes());
        body.extend(arrays);
        let error = decode_binary_json(&body).unwrap_err();
        assert!(error.to_string().contains("more than can be meant"), "{error}");
    }
}
