//! Effective partition keys against values computed elsewhere: other SDKs and the service's docs.

use serde::Deserialize;
use sidereal_protocol::{
    PartitionKey, PartitionKeyDefinition, PartitionKeyKind, PartitionKeyValue, PartitionKeyVersion,
};

#[derive(Deserialize)]
struct Vectors {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    kind: String,
    version: u8,
    values: Vec<Component>,
    expected_epk: String,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Component {
    Undefined,
    Null,
    Bool { value: bool },
    Number { value: String },
    String { value: String },
    RepeatedString { value: String, count: usize },
}

impl Component {
    fn value(&self) -> PartitionKeyValue {
        match self {
            Self::Undefined => PartitionKeyValue::Undefined,
            Self::Null => PartitionKeyValue::Null,
            Self::Bool { value } => (*value).into(),
            Self::Number { value } => value.parse::<f64>().unwrap().try_into().unwrap(),
            Self::String { value } => value.into(),
            Self::RepeatedString { value, count } => value.repeat(*count).into(),
        }
    }
}

fn definition(kind: PartitionKeyKind, version: u8, levels: usize) -> PartitionKeyDefinition {
    let paths = ["/a", "/b", "/c"].iter().take(levels).map(|path| path.parse().unwrap()).collect();
    let version = if version == 1 { PartitionKeyVersion::V1 } else { PartitionKeyVersion::V2 };
    PartitionKeyDefinition::with_kind(paths, kind, version).unwrap()
}

#[test]
fn keys_hash_as_other_sdks_hash_them() {
    let vectors: Vectors = serde_json::from_str(include_str!("../data/epk_vectors.json")).unwrap();
    assert_eq!(vectors.cases.len(), 42);
    for case in vectors.cases {
        let kind = match case.kind.as_str() {
            "hash" => PartitionKeyKind::Hash,
            "multi_hash" => PartitionKeyKind::MultiHash,
            other => panic!("{}: {other} is no kind", case.id),
        };
        let key = PartitionKey::new(case.values.iter().map(Component::value)).unwrap();
        let effective =
            definition(kind, case.version, case.values.len()).effective_key(&key).unwrap();
        assert_eq!(effective.to_string(), case.expected_epk, "{}", case.id);
    }
}

#[test]
fn single_keys_hash_as_documented() {
    let a100 = "a".repeat(100);
    let v1_long = format!("05C1EB5921F70608{}00", "62".repeat(100));
    let cases: &[(PartitionKeyValue, &str, &str)] = &[
        ("".into(), "32E9366E637A71B4E710384B2F4970A0", "05C1CF33970FF80800"),
        (
            "partitionKey".into(),
            "013AEFCF77FA271571CF665A58C933F1",
            "05C1E1B3D9CD2608716273756A756A706F4C667A00",
        ),
        ("a".repeat(1024).into(), "332BDF5512AE49615F32C7D98C2DB86C", &v1_long),
        (a100.into(), "0DBD7D229437BB665DE6417747994D57", &v1_long),
        ("a".repeat(101).into(), "08042541D30C8BF90D7092B1519AE0BC", &v1_long),
        (PartitionKeyValue::Null, "378867E4430E67857ACE5C908374FE16", "05C1ED45D7475601"),
        (PartitionKeyValue::Undefined, "11622DAA78F835834610ABE56EFF5CB5", "05C1D529E345DC00"),
        (true.into(), "0E711127C5B5A8E4726AC6DD306A3E59", "05C1D7C5A903D803"),
        (false.into(), "2FE1BE91E90A3439635E0E9E37361EF2", "05C1DB857D857C02"),
        ((-128).into(), "01DAEDABF913540367FE219B2AD06148", "05C1D73349F54C053FA0"),
        (127.into(), "0C507ACAC853ECA7977BF4CEFB562A25", "05C1DD539DDFCC05C05FE0"),
        (i32::MIN.into(), "0B1660D5233C3171725B30D4A5F4CC1F", "05C1DFBF252BCC053E20"),
        (i32::MAX.into(), "2D9349D64712AEB5EB1406E2F0BE2725", "05C1E1F503DFB205C1DFFFFFFFFC"),
        (i64::MIN.into(), "23D5C6395512BDFEAFADAD15328AD2BB", "05C1DB35F33D1C053C20"),
        (i64::MAX.into(), "2EDB959178DFCCA18983F89384D1629B", "05C1B799AB2DD005C3E0"),
        (
            5e-324.try_into().unwrap(),
            "0E6CBA63A280927DE485DEF865800139",
            "05C1E5C91F4D3005800101010101010102",
        ),
        (
            f64::MAX.try_into().unwrap(),
            "31424D996457102634591FF245DBCC4D",
            "05C1CBE367C53005FFEFFFFFFFFFFFFFFE",
        ),
        (
            "café 東京 🚀".into(),
            "389ED563F219577470F42691A5234A68",
            "05C1DF0501C73008646267C4AA21E79EB2E5BBAD21F1A09B8100",
        ),
    ];
    for (value, v2, v1) in cases {
        let key = PartitionKey::from(value.clone());
        let hashed = |version| {
            definition(PartitionKeyKind::Hash, version, 1).effective_key(&key).unwrap().to_string()
        };
        assert_eq!(hashed(2), *v2, "version 2 of {key}");
        assert_eq!(hashed(1), *v1, "version 1 of {key}");
    }
}

#[test]
fn quotes_slashes_and_line_ends_hash_as_documented() {
    let key = PartitionKey::from("quote\"backslash\\slash/newline\n");
    let effective = definition(PartitionKeyKind::Hash, 2, 1).effective_key(&key).unwrap();
    assert_eq!(effective.to_string(), "0A75245A5A77FB1C92F7AB9E0FD5E73F");
}

#[test]
fn the_key_a_hashes_as_the_python_sdk_hashes_it() {
    let effective = definition(PartitionKeyKind::Hash, 2, 1).effective_key(&"a".into()).unwrap();
    assert_eq!(effective.to_string(), "3A5381E1114EB8D3FCC90795045B49B7");
}

#[test]
fn hierarchical_keys_hash_level_by_level() {
    let two =
        definition(PartitionKeyKind::MultiHash, 2, 2).effective_key(&("", true).into()).unwrap();
    assert_eq!(two.to_string(), "32E9366E637A71B4E710384B2F4970A00E711127C5B5A8E4726AC6DD306A3E59");
    let key = PartitionKey::from(("partitionKey", PartitionKeyValue::Null, false));
    let three = definition(PartitionKeyKind::MultiHash, 2, 3).effective_key(&key).unwrap();
    assert_eq!(
        three.to_string(),
        "013AEFCF77FA271571CF665A58C933F1378867E4430E67857ACE5C908374FE162FE1BE91E90A3439635E0E9E37361EF2"
    );
}
