//! Every part of a condition, and the way from a match to an effect.

use std::num::NonZeroU64;

use http::HeaderValue;
use sidereal_protocol::PartitionKeyRangeId;

use super::*;
use crate::faults::{HeaderCondition, Occurrence};

const NOW: Timestamp = Timestamp::from_millis(1_000);
static WEST: RegionName = RegionName::from_static("West US");

/// An upsert of the item `1` in partition range 2 of `db/c`, with a header `x-ms-version: 7`.
fn upsert<'a>(headers: &'a mut HeaderMap) -> RequestAttributes<'a> {
    headers.insert("x-ms-version", HeaderValue::from_static("7"));
    RequestAttributes {
        region: &WEST,
        operation: Operation::Upsert,
        resource: Some(ResourceType::Document),
        container: Some(("db", "c")),
        range: Some("2".to_owned()),
        item: Some("1".to_owned()),
        headers,
    }
}

fn list(rule: FaultRule) -> RuleList {
    let mut list = RuleList::default();
    list.add(rule).unwrap();
    list
}

/// Which of so many equal requests a rule takes effect on.
fn hits_of(rule: FaultRule, requests: usize) -> Vec<usize> {
    let mut headers = HeaderMap::new();
    let attributes = upsert(&mut headers);
    let mut list = list(rule);
    (1..=requests).filter(|_| list.decide(&attributes, NOW).is_some()).collect()
}

fn header(name: &str, value: Option<&str>) -> Option<HeaderCondition> {
    Some(HeaderCondition { name: name.to_owned(), value: value.map(str::to_owned) })
}

#[test]
fn each_part_of_a_condition_holds_or_does_not() {
    let any = FaultCondition::default;
    let range = |id: u32| Some(PartitionKeyRangeId::from(id));
    let cases = [
        (any(), true),
        (FaultCondition { region: Some("westus".into()), ..any() }, true),
        (FaultCondition { region: Some("East US".into()), ..any() }, false),
        (FaultCondition { operation: Some(Operation::Upsert), ..any() }, true),
        (FaultCondition { operation: Some(Operation::Create), ..any() }, false),
        (FaultCondition { resource: Some(ResourceType::Document), ..any() }, true),
        (FaultCondition { resource: Some(ResourceType::Database), ..any() }, false),
        (FaultCondition { metadata: Some(false), ..any() }, true),
        (FaultCondition { metadata: Some(true), ..any() }, false),
        (FaultCondition { container: Some("db/c".to_owned()), ..any() }, true),
        (FaultCondition { container: Some("db/d".to_owned()), ..any() }, false),
        (FaultCondition { range: range(2), ..any() }, true),
        (FaultCondition { range: range(1), ..any() }, false),
        (FaultCondition { item: Some("1".to_owned()), ..any() }, true),
        (FaultCondition { item: Some("2".to_owned()), ..any() }, false),
        (FaultCondition { header: header("X-Ms-Version", None), ..any() }, true),
        (FaultCondition { header: header("x-ms-version", Some("7")), ..any() }, true),
        (FaultCondition { header: header("x-ms-version", Some("8")), ..any() }, false),
        (FaultCondition { header: header("x-ms-date", None), ..any() }, false),
        (
            FaultCondition {
                region: Some("West US".into()),
                operation: Some(Operation::Read),
                ..any()
            },
            false,
        ),
    ];
    let mut headers = HeaderMap::new();
    let attributes = upsert(&mut headers);
    for (condition, expected) in cases {
        assert_eq!(holds(&condition, &attributes), expected, "{condition:?}");
    }
}

#[test]
fn what_a_request_does_not_name_is_not_matched() {
    let headers = HeaderMap::new();
    let probe = RequestAttributes {
        region: &WEST,
        operation: Operation::Other,
        resource: None,
        container: None,
        range: None,
        item: None,
        headers: &headers,
    };
    assert!(holds(&FaultCondition { region: Some(WEST.clone()), ..Default::default() }, &probe));
    assert!(!holds(
        &FaultCondition { container: Some("db/c".to_owned()), ..Default::default() },
        &probe
    ));
    assert!(!holds(&FaultCondition { item: Some("1".to_owned()), ..Default::default() }, &probe));
}

#[test]
fn the_nth_match_is_meant_or_every_nth() {
    let of = |occurrence| FaultRule {
        condition: FaultCondition { occurrence: Some(occurrence), ..Default::default() },
        ..FaultRule::new(FaultEffect::Hang)
    };
    let three = NonZeroU64::new(3).unwrap();
    assert_eq!(hits_of(of(Occurrence::Nth(three)), 9).len(), 1);
    assert_eq!(hits_of(of(Occurrence::Nth(three)), 2).len(), 0);
    assert_eq!(hits_of(of(Occurrence::Every(three)), 9).len(), 3);
    assert_eq!(hits_of(of(Occurrence::Every(three)), 8).len(), 2);
}

#[test]
fn hits_end_at_their_limit() {
    let rule = FaultRule { hit_limit: Some(2), ..FaultRule::new(FaultEffect::Hang) };
    assert_eq!(hits_of(rule, 5).len(), 2);
}

#[test]
fn the_same_seed_draws_the_same_and_another_does_not() {
    let hits = |seed| {
        let rule = FaultRule { probability: 0.3, seed, ..FaultRule::new(FaultEffect::ResetBefore) };
        hits_of(rule, 200)
    };
    assert_eq!(hits(1), hits(1));
    assert_ne!(hits(1), hits(2));
    assert!((40..=80).contains(&hits(1).len()), "{}", hits(1).len());
    let never = FaultRule { probability: 0.0, ..FaultRule::new(FaultEffect::Hang) };
    assert_eq!(hits_of(never, 50).len(), 0);
}

#[test]
fn a_rule_applies_from_its_start_until_its_end() {
    let mut headers = HeaderMap::new();
    let attributes = upsert(&mut headers);
    let rule = FaultRule {
        start: Some(NOW),
        end: Some(Timestamp::from_millis(1_010)),
        ..FaultRule::new(FaultEffect::Hang)
    };
    let mut list = list(rule);
    let at = |list: &mut RuleList, millis| {
        list.decide(&attributes, Timestamp::from_millis(millis)).is_some()
    };
    assert_eq!(
        [999, 1_000, 1_009, 1_010].map(|millis| at(&mut list, millis)),
        [false, true, true, false]
    );
    assert_eq!(list.rules[0].matches, 2);
}

#[test]
fn the_first_rule_that_takes_effect_wins_and_all_count_their_matches() {
    let mut headers = HeaderMap::new();
    let attributes = upsert(&mut headers);
    let mut list = RuleList::default();
    list.add(FaultRule { hit_limit: Some(1), ..FaultRule::new(FaultEffect::ResetAfter) }).unwrap();
    list.add(FaultRule::new(FaultEffect::Hang)).unwrap();
    assert_eq!(list.decide(&attributes, NOW), Some(FaultEffect::ResetAfter));
    assert_eq!(list.decide(&attributes, NOW), Some(FaultEffect::Hang));
    let counts: Vec<_> = list.rules.iter().map(|rule| (rule.matches, rule.hits)).collect();
    assert_eq!(counts, [(2, 1), (2, 1)]);
}

#[test]
fn rules_have_names_and_go_by_them() {
    let faults = FaultRegistry::default();
    assert!(faults.is_empty());
    assert_eq!(faults.add(FaultRule::new(FaultEffect::Hang)).unwrap(), "fault-1");
    let named = FaultRule { name: "mine".to_owned(), ..FaultRule::new(FaultEffect::Hang) };
    assert_eq!(faults.add(named.clone()).unwrap(), "mine");
    assert!(faults.add(named).unwrap_err().to_string().contains("mine"));
    assert!(faults.remove("fault-1") && !faults.remove("fault-1"));
    let names: Vec<String> = faults.reports().into_iter().map(|report| report.rule.name).collect();
    assert_eq!(names, ["mine"]);
    assert!(!faults.is_empty());
    assert_eq!(faults.clear(), 1);
    assert!(faults.is_empty());
}

#[test]
fn a_rule_that_means_nothing_is_refused_with_the_reason() {
    let hang = || FaultRule::new(FaultEffect::Hang);
    let only = |condition| FaultRule { condition, ..hang() };
    let answer = FaultEffect::Answer { status: 100, sub_status: 0, retry_after: None };
    let cases = [
        (FaultRule { probability: 1.5, ..hang() }, "between 0 and 1"),
        (FaultRule { probability: f64::NAN, ..hang() }, "between 0 and 1"),
        (FaultRule::new(answer), "200 to 599"),
        (FaultRule { start: Some(NOW), end: Some(NOW), ..hang() }, "after the start"),
        (FaultRule { name: "a/b".to_owned(), ..hang() }, "slash"),
        (
            only(FaultCondition { container: Some("c".to_owned()), ..Default::default() }),
            "database/container",
        ),
        (
            only(FaultCondition { header: header("no header", None), ..Default::default() }),
            "no header",
        ),
    ];
    for (rule, reason) in cases {
        let said = RuleList::default().add(rule).unwrap_err().to_string();
        assert!(said.contains(reason), "{said}");
    }
}
