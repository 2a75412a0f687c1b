//! The markers of the binary form: data, nothing else. Ranges are named by their first marker.

/// The first byte of a body; as a marker, the empty string.
pub(super) const PREAMBLE: u8 = 0x80;

/// Up to here a marker is the integer that it stands for.
pub(super) const LAST_LITERAL: u8 = 0x1f;
/// Strings of the fixed dictionary, and the last of them.
pub(super) const SYSTEM_STRING: u8 = 0x20;
pub(super) const LAST_SYSTEM_STRING: u8 = 0x3f;
// 0x40 to 0x67: strings of a dictionary that requests and responses do not carry.

/// Text in base64, as the bytes that it stands for: with a length of one byte, of two, and with the alphabet of URLs.
pub(super) const BASE64_1: u8 = 0x71;
pub(super) const BASE64_2: u8 = 0x72;
pub(super) const BASE64_URL_1: u8 = 0x73;
pub(super) const BASE64_URL_2: u8 = 0x74;
/// The text of a GUID, in its 16 bytes.
pub(super) const GUID_LOWER: u8 = 0x75;
pub(super) const GUID_UPPER: u8 = 0x76;
pub(super) const GUID_QUOTED: u8 = 0x77;
/// Text of at most sixteen different characters.
pub(super) const HEX_LOWER: u8 = 0x78;
pub(super) const HEX_UPPER: u8 = 0x79;
pub(super) const DATE_TIME: u8 = 0x7a;
/// Text whose characters are close together, packed into a few bits each.
pub(super) const PACKED_4: u8 = 0x7b;
pub(super) const PACKED_5: u8 = 0x7c;
pub(super) const PACKED_6: u8 = 0x7d;
pub(super) const PACKED_7_1: u8 = 0x7e;
pub(super) const PACKED_7_2: u8 = 0x7f;
/// Strings whose length is in the marker, and the last of them.
pub(super) const SHORT_STRING: u8 = 0x80;
pub(super) const LAST_SHORT_STRING: u8 = 0xbf;
/// Strings with a length of one, two and four bytes.
pub(super) const STRING_1: u8 = 0xc0;
pub(super) const STRING_2: u8 = 0xc1;
pub(super) const STRING_4: u8 = 0xc2;
/// References to an earlier string, by its offset in one to four bytes.
pub(super) const REFERENCE_1: u8 = 0xc3;
pub(super) const REFERENCE_4: u8 = 0xc6;

/// JSON's numbers.
pub(super) const NUMBER_U64: u8 = 0xc7;
pub(super) const NUMBER_U8: u8 = 0xc8;
pub(super) const NUMBER_I16: u8 = 0xc9;
pub(super) const NUMBER_I32: u8 = 0xca;
pub(super) const NUMBER_I64: u8 = 0xcb;
pub(super) const NUMBER_F64: u8 = 0xcc;
/// Numbers of a type, which JSON does not tell apart.
pub(super) const F32: u8 = 0xcd;
pub(super) const F64: u8 = 0xce;
pub(super) const U8: u8 = 0xd7;
pub(super) const I8: u8 = 0xd8;
pub(super) const I16: u8 = 0xd9;
pub(super) const I32: u8 = 0xda;
pub(super) const I64: u8 = 0xdb;
pub(super) const U32: u8 = 0xdc;

pub(super) const NULL: u8 = 0xd0;
pub(super) const FALSE: u8 = 0xd1;
pub(super) const TRUE: u8 = 0xd2;
/// A GUID, in the order of bytes of .NET.
pub(super) const GUID: u8 = 0xd3;
/// Bytes, with a length of one, two and four bytes.
pub(super) const BINARY_1: u8 = 0xdd;
pub(super) const BINARY_2: u8 = 0xde;
pub(super) const BINARY_4: u8 = 0xdf;

/// Arrays: empty, of one item, with a length in bytes of one, two and four bytes, and up to the last with a length
/// and a count of the same widths.
pub(super) const ARRAY_EMPTY: u8 = 0xe0;
pub(super) const ARRAY_ONE: u8 = 0xe1;
pub(super) const ARRAY_1: u8 = 0xe2;
pub(super) const ARRAY_2: u8 = 0xe3;
pub(super) const ARRAY_4: u8 = 0xe4;
pub(super) const ARRAY_COUNTED_4: u8 = 0xe7;
/// Objects, in the same order.
pub(super) const OBJECT_EMPTY: u8 = 0xe8;
pub(super) const OBJECT_ONE: u8 = 0xe9;
pub(super) const OBJECT_1: u8 = 0xea;
pub(super) const OBJECT_2: u8 = 0xeb;
pub(super) const OBJECT_4: u8 = 0xec;
pub(super) const OBJECT_COUNTED_4: u8 = 0xef;
/// Numbers of one type, and arrays of such arrays, with counts of one and two bytes.
pub(super) const NUMBERS_1: u8 = 0xf0;
pub(super) const NUMBERS_2: u8 = 0xf1;
pub(super) const NUMBER_ARRAYS_1: u8 = 0xf2;
pub(super) const NUMBER_ARRAYS_2: u8 = 0xf3;

/// The fixed dictionary: a string's marker is [`SYSTEM_STRING`] and its place here.
pub(super) const SYSTEM_STRINGS: [&str; 32] = [
    "$s",
    "$t",
    "$v",
    "_attachments",
    "_etag",
    "_rid",
    "_self",
    "_ts",
    "attachments/",
    "coordinates",
    "geometry",
    "GeometryCollection",
    "id",
    "url",
    "Value",
    "label",
    "LineString",
    "link",
    "MultiLineString",
    "MultiPoint",
    "MultiPolygon",
    "name",
    "Name",
    "Type",
    "Point",
    "Polygon",
    "properties",
    "type",
    "value",
    "Feature",
    "FeatureCollection",
    "_id",
];
