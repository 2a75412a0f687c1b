//! Refusals and messages of a merge; that it is right is shown over generated data in
//! `tests/it/partitions.rs`.

use serde_json::json;
use sidereal_protocol::{DistinctType, SortOrder};

use super::*;

fn sorted() -> QueryInfo {
    QueryInfo { order_by: vec![SortOrder::Ascending], ..QueryInfo::default() }
}

fn row(rid: &str, item: Value) -> Value {
    json!({"_rid": rid, "orderByItems": [{"item": item}], "payload": item})
}

#[test]
fn a_sorted_merge_waits_for_every_range() {
    let mut merge = Merge::new(&sorted(), 2);
    assert_eq!(merge.next(), Ok(Next::NeedPage(0)));
    merge.feed(0, vec![row("b", json!(2))], true).unwrap();
    assert_eq!(merge.next(), Ok(Next::NeedPage(1)));
    merge.feed(1, vec![row("a", json!(1))], false).unwrap();
    assert_eq!(merge.next(), Ok(Next::Item(json!(1))));
    assert_eq!(merge.next(), Ok(Next::NeedPage(1)));
    merge.feed(1, vec![], true).unwrap();
    assert_eq!(merge.next(), Ok(Next::Item(json!(2))));
    assert_eq!(merge.next(), Ok(Next::Done));
}

#[test]
fn an_unsorted_merge_gives_what_it_has() {
    let mut merge = Merge::new(&QueryInfo::default(), 3);
    assert_eq!(merge.waiting().collect::<Vec<_>>(), [0, 1, 2]);
    merge.feed(1, vec![json!(1)], false).unwrap();
    assert_eq!(merge.next(), Ok(Next::Item(json!(1))));
    assert_eq!(merge.next(), Ok(Next::NeedPage(0)));
}

#[test]
fn a_full_window_asks_for_nothing_more() {
    let info = QueryInfo { top: Some(1), ..QueryInfo::default() };
    let mut merge = Merge::new(&info, 2);
    merge.feed(0, vec![json!(1), json!(2)], false).unwrap();
    assert_eq!(merge.next(), Ok(Next::Item(json!(1))));
    assert_eq!(merge.next(), Ok(Next::Done));
    assert_eq!(merge.waiting().count(), 0);
}

#[test]
fn rows_that_do_not_fit_the_plan_are_refused() {
    let mut merge = Merge::new(&sorted(), 1);
    assert_eq!(merge.feed(0, vec![json!({"id": 1})], true), Err(MergeError::UnexpectedRow));
    assert_eq!(merge.feed(7, vec![], true), Err(MergeError::NoSuchRange(7)));
    let grouped =
        QueryInfo { group_by_expressions: vec!["c.x".to_owned()], ..QueryInfo::default() };
    let mut merge = Merge::new(&grouped, 1);
    merge.feed(0, vec![json!({"id": 1})], true).unwrap();
    assert_eq!(merge.next(), Err(MergeError::UnexpectedRow));
}

#[test]
fn an_undefined_sort_value_survives_the_state() {
    let position =
        Position { items: vec![None, Some(Value::Null), Some(json!([]))], rid: "x".to_owned() };
    let text = serde_json::to_string(&position).unwrap();
    assert_eq!(text, r#"{"items":[{},{"item":null},{"item":[]}],"rid":"x"}"#);
    assert_eq!(serde_json::from_str::<Position>(&text).unwrap(), position);
    let filter = position.resume_filter();
    assert_eq!(filter.value, [json!([]), Value::Null, json!([])]);
    assert_eq!(Position::of_filter(&filter).items[..2], position.items[..2]);
}

#[test]
fn shapes_that_cannot_be_taken_up_again_say_so() {
    let unordered = QueryInfo { distinct_type: DistinctType::Unordered, ..QueryInfo::default() };
    let error = Merge::new(&unordered, 1).state().unwrap_err();
    assert_eq!(error, MergeError::NotResumable("DISTINCT"));
    assert!(error.to_string().contains("from the beginning"));
    assert!(Merge::is_resumable(&sorted()));
}
