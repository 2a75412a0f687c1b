//! Tokens are read from anywhere: nothing in them may be trusted, and nothing may panic.

use proptest::prelude::*;
use serde_json::json;
use sidereal_protocol::SortOrder;

use super::*;

fn range(min: &str, max: &str) -> EffectivePartitionKeyRange {
    EffectivePartitionKeyRange::new(min.parse().unwrap(), max.parse().unwrap()).unwrap()
}

fn position() -> Position {
    Position { items: vec![None, Some(Value::Null), Some(json!("é"))], rid: "AQAA".to_owned() }
}

fn content(ranges: Vec<RangeState>) -> Content {
    let state = QueryState {
        ranges,
        window: WindowLeft { skip: 1, take: Some(7) },
        last_distinct: Some(Value::Null),
    };
    let query = QueryId::of("SELECT 1", "[]", "");
    Content { query, container: "rid".to_owned(), state }
}

fn sorted() -> ContinuationToken {
    let at =
        RangeState { same_position: 2, ..RangeState::new(range("", "1F"), Start::At(position())) };
    let rest = RangeState::new(range("1F", "FF"), Start::Beginning);
    ContinuationToken::new(content(vec![at, rest])).unwrap()
}

fn streamed() -> ContinuationToken {
    let after = RangeState::new(range("", "1F"), Start::After("-RID:~abc#RT:1".to_owned()));
    ContinuationToken::new(content(vec![after])).unwrap()
}

/// A token with this JSON inside, and a checksum that agrees.
fn sealed(json: &[u8]) -> String {
    let mut bytes = vec![VERSION];
    bytes.extend(crc32fast::hash(json).to_le_bytes());
    bytes.extend(json);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn json_of(token: &ContinuationToken) -> Value {
    serde_json::to_value(Wire::from(&token.0)).unwrap()
}

#[test]
fn a_token_reads_back_as_what_it_was() {
    for token in [sorted(), streamed()] {
        assert_eq!(token.to_string().parse::<ContinuationToken>().unwrap(), token);
        assert_eq!(
            sealed(json_of(&token).to_string().as_bytes()).parse::<ContinuationToken>().unwrap(),
            token
        );
    }
}

#[test]
fn each_field_is_checked() {
    let with = |edit: &dyn Fn(&mut Value)| {
        let mut json = json_of(&sorted());
        edit(&mut json);
        sealed(json.to_string().as_bytes()).parse::<ContinuationToken>()
    };
    assert!(with(&|_| {}).is_ok());
    let edits: &[&dyn Fn(&mut Value)] = &[
        &|json| json["q"] = json!("AAAA"),
        &|json| json["q"] = json!(1),
        &|json| json["c"] = json!(null),
        &|json| json["r"] = json!([]),
        &|json| json["r"][0]["a"] = json!("no key"),
        &|json| json["r"][0]["b"] = json!(""),
        &|json| json["r"][1]["a"] = json!("0F"),
        &|json| json["r"][0]["n"] = json!(-1),
        &|json| json["r"][0]["t"] = json!("both"),
        &|json| json["r"][1]["t"] = json!("line\nbreak"),
        &|json| json["r"][0]["p"]["items"] = json!(vec![json!({}); 65]),
        &|json| json["w"]["skip"] = json!("1"),
        &|json| json["d"] = json!([1, 2]),
        &|json| json["more"] = json!(1),
    ];
    for (number, edit) in edits.iter().enumerate() {
        let error = with(*edit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{number}");
        assert!(error.to_string().contains("no continuation token"), "{number}: {error}");
    }
}

#[test]
fn a_token_of_another_version_or_that_was_cut_off_is_refused() {
    let mut bytes = URL_SAFE_NO_PAD.decode(sorted().to_string()).unwrap();
    bytes[0] = 2;
    let error = URL_SAFE_NO_PAD.encode(&bytes).parse::<ContinuationToken>().unwrap_err();
    assert!(error.to_string().contains("its version is 2"), "{error}");
    for text in ["", "AQ", "AQAAAA", "!", &"A".repeat(MAX_BYTES + 1)] {
        assert!(text.parse::<ContinuationToken>().is_err());
    }
}

#[test]
fn a_token_that_does_not_fit_the_plan_is_refused() {
    let plan = QueryInfo {
        order_by: vec![SortOrder::Ascending; 3],
        offset: Some(2),
        limit: Some(7),
        ..QueryInfo::default()
    };
    let fits = |token: ContinuationToken, plan: &QueryInfo| token.0.state.check_plan(plan).is_ok();
    assert!(fits(sorted(), &plan));
    assert!(!fits(streamed(), &plan));
    for other in [
        QueryInfo { order_by: vec![SortOrder::Ascending], ..plan.clone() },
        QueryInfo { limit: Some(6), ..plan.clone() },
        QueryInfo { limit: None, ..plan.clone() },
        QueryInfo { offset: Some(0), ..plan.clone() },
    ] {
        assert!(!fits(sorted(), &other));
    }
}

#[test]
fn a_token_that_would_be_too_long_is_an_error() {
    let long = Position { items: vec![Some(json!("x".repeat(MAX_BYTES)))], rid: String::new() };
    let state = RangeState::new(range("", "FF"), Start::At(long));
    let error = ContinuationToken::new(content(vec![state])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
}

#[test]
fn ranges_that_were_not_begun_are_told_as_one() {
    let mut first = RangeState::new(range("", "1F"), Start::Beginning);
    assert!(first.extend(&RangeState::new(range("1F", "2F"), Start::Beginning)));
    assert_eq!(first.range, range("", "2F"));
    assert!(!first.extend(&RangeState::new(range("3F", "4F"), Start::Beginning)));
    assert!(!first.extend(&RangeState::new(range("2F", "4F"), Start::After("x".to_owned()))));
}

/// How a text is spoiled.
fn mutation() -> impl Strategy<Value = (prop::sample::Index, u8, u8)> {
    (any::<prop::sample::Index>(), any::<u8>(), 0_u8..4)
}

fn mutate(bytes: &mut Vec<u8>, (at, byte, how): (prop::sample::Index, u8, u8)) {
    if bytes.is_empty() {
        return;
    }
    let at = at.index(bytes.len());
    match how {
        0 => bytes[at] = byte,
        1 => bytes.insert(at, byte),
        2 => drop(bytes.remove(at)),
        _ => bytes.truncate(at),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_spoiled_token_is_refused_or_the_same(
        mutations in proptest::collection::vec(mutation(), 1..4),
    ) {
        for token in [sorted(), streamed()] {
            let mut bytes = token.to_string().into_bytes();
            mutations.iter().for_each(|it| mutate(&mut bytes, *it));
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(read) = text.parse::<ContinuationToken>() {
                prop_assert_eq!(read, token);
            }
        }
    }

    /// With a checksum that agrees, so that what is inside is looked at.
    #[test]
    fn spoiled_content_is_refused_or_read_as_what_it_says(
        mutations in proptest::collection::vec(mutation(), 1..6),
    ) {
        for token in [sorted(), streamed()] {
            let mut json = json_of(&token).to_string().into_bytes();
            mutations.iter().for_each(|it| mutate(&mut json, *it));
            if let Ok(read) = sealed(&json).parse::<ContinuationToken>() {
                prop_assert_eq!(&read.to_string().parse::<ContinuationToken>().unwrap(), &read);
                let _ = read.into_state(QueryId([0; 16]), "", &QueryInfo::default());
            }
        }
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text in ".{0,200}") {
        prop_assert!(text.parse::<ContinuationToken>().is_err());
    }
}
