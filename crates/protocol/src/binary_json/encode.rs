//! Writing the binary form: numbers in the fewest bytes, strings as UTF-8 or from the dictionary, arrays and objects
//! by their length. Nothing is packed and nothing refers to an earlier string.

use serde_json::{Map, Number, Value};

use super::markers as m;

/// A value in the binary form.
///
/// [`decode_binary_json`](super::decode_binary_json) reads it back to an equal value, unless it is nested deeper than
/// that reads.
pub fn encode_binary_json(value: &Value) -> Vec<u8> {
    let mut body = vec![m::PREAMBLE];
    write_value(&mut body, value);
    body
}

fn write_value(body: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => body.push(m::NULL),
        Value::Bool(false) => body.push(m::FALSE),
        Value::Bool(true) => body.push(m::TRUE),
        Value::Number(number) => write_number(body, number),
        Value::String(text) => write_string(body, text),
        Value::Array(items) => write_array(body, items),
        Value::Object(members) => write_object(body, members),
    }
}

fn write_number(body: &mut Vec<u8>, number: &Number) {
    if let Some(number) = number.as_i64() {
        write_integer(body, number);
    } else if let Some(number) = number.as_u64() {
        body.push(m::NUMBER_U64);
        body.extend(number.to_le_bytes());
    } else {
        // Without arbitrary precision a number is one of the three.
        let number = number.as_f64().unwrap_or_default();
        body.push(m::NUMBER_F64);
        body.extend(number.to_le_bytes());
    }
}

fn write_integer(body: &mut Vec<u8>, number: i64) {
    if let Ok(small) = u8::try_from(number) {
        if small > m::LAST_LITERAL {
            body.push(m::NUMBER_U8);
        }
        body.push(small);
    } else if let Ok(number) = i16::try_from(number) {
        body.push(m::NUMBER_I16);
        body.extend(number.to_le_bytes());
    } else if let Ok(number) = i32::try_from(number) {
        body.push(m::NUMBER_I32);
        body.extend(number.to_le_bytes());
    } else {
        body.push(m::NUMBER_I64);
        body.extend(number.to_le_bytes());
    }
}

fn write_string(body: &mut Vec<u8>, text: &str) {
    let place = m::SYSTEM_STRINGS.iter().position(|known| *known == text);
    // There are 32 of them.
    if let Some(place) = place.and_then(|place| u8::try_from(place).ok()) {
        body.push(m::SYSTEM_STRING + place);
        return;
    }
    let length = text.len();
    if let Some(short) =
        u8::try_from(length).ok().filter(|short| *short <= m::LAST_SHORT_STRING - m::SHORT_STRING)
    {
        body.push(m::SHORT_STRING + short);
    } else {
        write_length(body, length, [m::STRING_1, m::STRING_2, m::STRING_4]);
    }
    body.extend(text.as_bytes());
}

fn write_array(body: &mut Vec<u8>, items: &[Value]) {
    match items {
        [] => body.push(m::ARRAY_EMPTY),
        [only] => {
            body.push(m::ARRAY_ONE);
            write_value(body, only);
        }
        items => write_sized(body, [m::ARRAY_1, m::ARRAY_2, m::ARRAY_4], |body| {
            items.iter().for_each(|item| write_value(body, item));
        }),
    }
}

fn write_object(body: &mut Vec<u8>, members: &Map<String, Value>) {
    let write_members = |body: &mut Vec<u8>| {
        for (name, value) in members {
            write_string(body, name);
            write_value(body, value);
        }
    };
    match members.len() {
        0 => body.push(m::OBJECT_EMPTY),
        1 => {
            body.push(m::OBJECT_ONE);
            write_members(body);
        }
        _ => write_sized(body, [m::OBJECT_1, m::OBJECT_2, m::OBJECT_4], write_members),
    }
}

/// Writes contents with their length before them, of which the width is known only after.
fn write_sized(body: &mut Vec<u8>, markers: [u8; 3], contents: impl FnOnce(&mut Vec<u8>)) {
    let begin = body.len();
    contents(body);
    let mut head = Vec::with_capacity(5);
    write_length(&mut head, body.len() - begin, markers);
    // Moves the contents by a few bytes: cheaper than to measure every value before it is written.
    body.splice(begin..begin, head);
}

fn write_length(body: &mut Vec<u8>, length: usize, [one, two, four]: [u8; 3]) {
    if let Ok(length) = u8::try_from(length) {
        body.extend([one, length]);
    } else if let Ok(length) = u16::try_from(length) {
        body.push(two);
        body.extend(length.to_le_bytes());
    } else {
        body.push(four);
        // A value of more than 4 GiB is no body of this protocol, whose limits are a thousandth of it.
        body.extend(u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::decode_binary_json;
    use super::*;

    #[test]
    fn values_take_the_fewest_bytes() {
        for (value, expected) in [
            (json!(null), &[0xd0][..]),
            (json!(31), &[31]),
            (json!(32), &[0xc8, 32]),
            (json!(-1), &[0xc9, 0xff, 0xff]),
            (json!(70_000), &[0xca, 0x70, 0x11, 0x01, 0]),
            (json!(1.5), &[0xcc, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]),
            (json!("id"), &[0x2c]),
            (json!("hi"), &[0x82, b'h', b'i']),
            (json!([]), &[0xe0]),
            (json!([true]), &[0xe1, 0xd2]),
            (json!([1, 2]), &[0xe2, 2, 1, 2]),
            (json!({}), &[0xe8]),
            (json!({ "id": false }), &[0xe9, 0x2c, 0xd1]),
            (json!({ "id": "1", "x": [] }), &[0xea, 6, 0x2c, 0x81, b'1', 0x81, b'x', 0xe0]),
        ] {
            let body = encode_binary_json(&value);
            assert_eq!((body[0], &body[1..]), (0x80, expected), "{value}");
        }
    }

    #[test]
    fn lengths_of_every_width_are_read_back() {
        for length in [0, 63, 64, 255, 256, 65_535, 65_536] {
            let value = json!({ "text": "x".repeat(length), "list": vec![1; length] });
            assert_eq!(decode_binary_json(&encode_binary_json(&value)), Ok(value), "{length}");
        }
    }
}
