//! Plans, down to the JSON that published SDKs read.

use serde_json::{Value, json};
use sidereal_protocol::{PartitionKey, PartitionKeyValue};

use super::*;
use crate::parse;

fn definition() -> PartitionKeyDefinition {
    PartitionKeyDefinition::new(["/pk"]).unwrap()
}

fn hierarchical() -> PartitionKeyDefinition {
    PartitionKeyDefinition::new(["/tenant", "/user/id"]).unwrap()
}

fn plan_of(text: &str) -> PartitionedQueryExecutionInfo {
    let query = parse(text).expect(text);
    plan(&query, &Parameters::new(), &definition(), Features::ALL).expect(text)
}

/// The plan's JSON with its defaults left out.
fn shown(text: &str) -> Value {
    let plan = plan_of(text);
    let all = serde_json::to_value(plan.query_info.unwrap()).unwrap();
    let defaults = serde_json::to_value(QueryInfo::default()).unwrap();
    let members = all.as_object().unwrap().clone().into_iter();
    members.filter(|(name, value)| defaults[name] != *value).collect()
}

#[test]
fn a_plan_has_every_member_sdks_look_for() {
    let plan = serde_json::to_value(plan_of("SELECT * FROM c ORDER BY c.v")).unwrap();
    assert_eq!(
        plan,
        json!({
            "partitionedQueryExecutionInfoVersion": 2,
            "queryInfo": {
                "distinctType": "None", "top": null, "offset": null, "limit": null,
                "orderBy": ["Ascending"], "orderByExpressions": ["c.v"],
                "groupByExpressions": [], "groupByAliases": [], "aggregates": [],
                "groupByAliasToAggregateType": {},
                "rewrittenQuery": "SELECT c._rid, [{\"item\": c.v}] AS orderByItems, c AS payload\nFROM c\nWHERE ({documentdb-formattableorderbyquery-filter})\nORDER BY c.v ASC",
                "hasSelectValue": false, "dCountInfo": null, "hasNonStreamingOrderBy": false,
            },
            "queryRanges": [{"min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false}],
            "hybridSearchQueryInfo": null,
        })
    );
}

#[test]
fn sorted_queries_carry_what_they_are_sorted_by() {
    assert_eq!(
        shown(
            "SELECT TOP 5 c.id, c.a + 1 FROM c JOIN t IN c.tags WHERE c.a = 1 OR t = 2 ORDER BY c.v DESC, t"
        ),
        json!({
            "top": 5,
            "orderBy": ["Descending", "Ascending"],
            "orderByExpressions": ["c.v", "t"],
            "rewrittenQuery": "SELECT TOP 5 c._rid, [{\"item\": c.v}, {\"item\": t}] AS orderByItems, {\"id\": c.id, \"$1\": c.a + 1} AS payload\nFROM c\nJOIN t IN c.tags\nWHERE (c.a = 1 OR t = 2) AND ({documentdb-formattableorderbyquery-filter})\nORDER BY c.v DESC, t ASC",
        })
    );
    assert_eq!(
        shown("SELECT VALUE c.x FROM root AS c WHERE c.y ORDER BY c.x OFFSET 5 LIMIT 10"),
        json!({
            "offset": 5, "limit": 10, "hasSelectValue": true,
            "orderBy": ["Ascending"], "orderByExpressions": ["c.x"],
            "rewrittenQuery": "SELECT c._rid, [{\"item\": c.x}] AS orderByItems, c.x AS payload\nFROM root AS c\nWHERE c.y AND ({documentdb-formattableorderbyquery-filter}) AND IS_DEFINED(c.x)\nORDER BY c.x ASC\nOFFSET 0 LIMIT 15",
        })
    );
    assert_eq!(
        shown("SELECT VALUE t FROM t IN c.tags ORDER BY t")["rewrittenQuery"],
        "SELECT sourceDocument._rid, [{\"item\": t}] AS orderByItems, t AS payload\nFROM sourceDocument\nJOIN t IN sourceDocument.tags\nWHERE ({documentdb-formattableorderbyquery-filter}) AND IS_DEFINED(t)\nORDER BY t ASC"
    );
}

#[test]
fn aggregates_are_left_half_done() {
    let cases = [
        ("COUNT(1)", "Count", r#"{"item": COUNT(1)}"#),
        ("sum(c.x)", "Sum", r#"{"item": sum(c.x)}"#),
        ("AVG(c.x)", "Average", r#"{"item": {"sum": SUM(c.x), "count": COUNT(c.x)}}"#),
        (
            "MIN(c.x)",
            "Min",
            r#"{"item": MIN(c.x), "item2": {"min": MIN(c.x), "count": COUNT(c.x)}}"#,
        ),
        (
            "MAX(c.x)",
            "Max",
            r#"{"item": MAX(c.x), "item2": {"max": MAX(c.x), "count": COUNT(c.x)}}"#,
        ),
        ("COUNTIF(c.x)", "CountIf", r#"{"item": COUNTIF(c.x)}"#),
        ("MAKELIST(c.x)", "MakeList", r#"{"item": MAKELIST(c.x)}"#),
        ("MAKESET(c.x)", "MakeSet", r#"{"item": MAKESET(c.x)}"#),
    ];
    for (aggregate, kind, partial) in cases {
        assert_eq!(
            shown(&format!("SELECT VALUE {aggregate} FROM c")),
            json!({
                "aggregates": [kind], "hasSelectValue": true,
                "rewrittenQuery": format!("SELECT VALUE [{partial}]\nFROM c"),
            })
        );
    }
    assert_eq!(
        shown("SELECT COUNT(1) AS n, MAX(c.x) FROM c"),
        json!({
            "groupByAliases": ["n", "$1"],
            "groupByAliasToAggregateType": {"n": "Count", "$1": "Max"},
            "rewrittenQuery": "SELECT {\"n\": {\"item\": COUNT(1)}, \"$1\": {\"item\": MAX(c.x), \"item2\": {\"max\": MAX(c.x), \"count\": COUNT(c.x)}}} AS payload\nFROM c",
        })
    );
}

#[test]
fn groups_carry_their_keys() {
    assert_eq!(
        shown("SELECT TOP 3 c.cat, COUNT(1) AS n FROM c GROUP BY c.cat"),
        json!({
            "top": 3,
            "groupByExpressions": ["c.cat"],
            "groupByAliases": ["cat", "n"],
            "groupByAliasToAggregateType": {"cat": null, "n": "Count"},
            "rewrittenQuery": "SELECT [{\"item\": c.cat}] AS groupByItems, {\"cat\": c.cat, \"n\": {\"item\": COUNT(1)}} AS payload\nFROM c\nGROUP BY c.cat",
        })
    );
    assert_eq!(
        shown("SELECT VALUE COUNT(1) FROM c GROUP BY c.a, c.b OFFSET 1 LIMIT 2"),
        json!({
            "offset": 1, "limit": 2, "hasSelectValue": true, "aggregates": ["Count"],
            "groupByExpressions": ["c.a", "c.b"],
            "rewrittenQuery": "SELECT [{\"item\": c.a}, {\"item\": c.b}] AS groupByItems, [{\"item\": COUNT(1)}] AS payload\nFROM c\nGROUP BY c.a, c.b",
        })
    );
    assert_eq!(
        shown("SELECT VALUE c.a FROM c GROUP BY c.a"),
        json!({
            "hasSelectValue": true, "groupByExpressions": ["c.a"],
            "rewrittenQuery": "SELECT [{\"item\": c.a}] AS groupByItems, c.a AS payload\nFROM c\nGROUP BY c.a",
        })
    );
}

#[test]
fn windows_are_widened_and_distinct_goes_before_them() {
    assert_eq!(
        shown("SELECT * FROM c OFFSET 5 LIMIT 10"),
        json!({"offset": 5, "limit": 10, "rewrittenQuery": "SELECT *\nFROM c\nOFFSET 0 LIMIT 15"})
    );
    assert_eq!(shown("SELECT TOP 5 * FROM c"), json!({"top": 5}));
    assert_eq!(
        shown("SELECT DISTINCT TOP 5 c.x FROM c"),
        json!({"top": 5, "distinctType": "Unordered", "rewrittenQuery": "SELECT DISTINCT c.x\nFROM c"})
    );
    let kind = |text: &str| plan_of(text).query_info.unwrap().distinct_type;
    assert_eq!(kind("SELECT DISTINCT VALUE c.x FROM c ORDER BY c.x"), DistinctType::Ordered);
    assert_eq!(
        kind("SELECT DISTINCT c.x, c.y FROM c ORDER BY c.y, c.x, c.z"),
        DistinctType::Ordered
    );
    assert_eq!(kind("SELECT DISTINCT c.x FROM c ORDER BY c.y, c.x"), DistinctType::Unordered);
    assert_eq!(kind("SELECT DISTINCT VALUE c.x FROM c ORDER BY c.y"), DistinctType::Unordered);
}

#[test]
fn a_count_of_distinct_rows_is_counted_by_the_client() {
    assert_eq!(
        shown("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.x FROM c)"),
        json!({
            "distinctType": "Unordered", "hasSelectValue": true, "dCountInfo": {"dCountAlias": ""},
            "rewrittenQuery": "SELECT DISTINCT VALUE c.x\nFROM c",
        })
    );
    assert_eq!(
        shown("SELECT COUNT(1) AS n FROM (SELECT DISTINCT c.x FROM c) AS d")["dCountInfo"],
        json!({"dCountAlias": "n"})
    );
}

#[test]
fn plain_queries_are_sent_as_they_are() {
    assert_eq!(
        shown("select c.id from c where c.x > 1 -- why not"),
        json!({}),
        "an empty text says that the original will do"
    );
    let nowhere = plan_of("SELECT 1");
    assert_eq!(nowhere.query_ranges, [QueryRange::from(EffectivePartitionKey::MIN)]);
}

#[test]
fn an_aggregate_alone_has_no_order() {
    let plan = shown("SELECT VALUE COUNT(r.key) FROM r ORDER BY r.key");
    assert_eq!(plan["aggregates"], json!(["Count"]));
    assert_eq!(plan.get("orderBy"), None);
    assert_eq!(plan["rewrittenQuery"], "SELECT VALUE [{\"item\": COUNT(r.key)}]\nFROM r");
    let paths = parse("SELECT VALUE COUNT(1) FROM r ORDER BY r.a, r.b").unwrap().order_by_paths();
    assert!(paths.is_empty(), "no composite index is asked for: {paths:?}");
}

#[test]
fn sorted_groups_wrap_their_rows_as_sorted_rows_do() {
    assert_eq!(
        shown("SELECT c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY c.k DESC"),
        json!({
            "orderBy": ["Descending"], "orderByExpressions": ["c.k"],
            "groupByExpressions": ["c.k"], "groupByAliases": ["k", "n"],
            "groupByAliasToAggregateType": {"k": null, "n": "Count"},
            "rewrittenQuery": "SELECT [{\"item\": c.k}] AS orderByItems, {\"groupByItems\": [{\"item\": c.k}], \"payload\": {\"k\": c.k, \"n\": {\"item\": COUNT(1)}}} AS payload\nFROM c\nGROUP BY c.k\nORDER BY c.k DESC",
        })
    );
    let query = parse("SELECT c.k FROM c GROUP BY c.k ORDER BY COUNT(1)").unwrap();
    let sdk = Features::ALL.without(Features::GROUP_BY_AGGREGATE_ORDER);
    let refused = plan(&query, &Parameters::new(), &definition(), sdk).unwrap_err();
    assert_eq!(refused, PlanError::UnsupportedFeatures(vec!["GroupByAggregateOrder"]));
}

#[test]
fn a_missing_parameter_and_a_user_defined_function_are_planned() {
    for text in [
        "SELECT * FROM c WHERE c.x = @missing",
        "SELECT VALUE udf.tax(c.price) FROM c",
        "SELECT udf.f(c.x) AS y FROM c WHERE c.pk = 'a' ORDER BY c.x",
    ] {
        let plan = plan_of(text);
        assert_eq!(plan.query_ranges.len(), 1, "{text}");
        let query = parse(text).unwrap();
        assert!(Program::new(&query, &Parameters::new()).is_err(), "{text} cannot run");
    }
}

#[test]
fn what_cannot_be_put_together_is_refused() {
    for text in [
        "SELECT VALUE SUM(c.x) / COUNT(1) FROM c",
        "SELECT VALUE {n: COUNT(1)} FROM c",
        "SELECT c.a, COUNT(1) + 1 AS n FROM c GROUP BY c.a",
        "SELECT * FROM (SELECT TOP 5 * FROM c) t",
        "SELECT t.n FROM (SELECT COUNT(1) AS n FROM c) t",
        "SELECT * FROM (SELECT c.a FROM c) t ORDER BY t.a",
        "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT TOP 5 c.x FROM c)",
    ] {
        let query = parse(text).unwrap();
        let error = plan(&query, &Parameters::new(), &definition(), Features::ALL).unwrap_err();
        assert!(matches!(error, PlanError::NotPartitionable(_)), "{text}: {error}");
        let key = EffectivePartitionKey::MIN;
        let within = plan_within_partition(&query, &Parameters::new(), key).unwrap();
        assert_eq!(within.query_info.unwrap().rewritten_query, "", "sent as it is");
    }
}

#[test]
fn a_plan_asks_only_for_what_the_caller_can_do() {
    const PYTHON: &str = "Aggregate,CompositeAggregate,Distinct,MultipleOrderBy,OffsetAndLimit,OrderBy,Top,NonStreamingOrderBy,HybridSearch,CountIf,WeightedRankFusion";
    let cases: [(&str, &[&str]); 14] = [
        ("SELECT * FROM c", &[]),
        ("SELECT TOP 1 * FROM c ORDER BY c.a, c.b", &["MultipleOrderBy", "OrderBy", "Top"]),
        ("SELECT * FROM c ORDER BY c.a OFFSET 1 LIMIT 2", &["OffsetAndLimit", "OrderBy"]),
        ("SELECT DISTINCT c.a FROM c", &["Distinct"]),
        ("SELECT VALUE COUNT(1) FROM c", &["Aggregate"]),
        ("SELECT VALUE COUNTIF(c.a) FROM c", &["Aggregate", "CountIf"]),
        ("SELECT VALUE MAKESET(c.a) FROM c", &["Aggregate", "ListAndSetAggregate"]),
        ("SELECT COUNT(1) FROM c", &["Aggregate", "NonValueAggregate"]),
        (
            "SELECT COUNT(1), SUM(c.a) FROM c",
            &["Aggregate", "MultipleAggregates", "NonValueAggregate"],
        ),
        ("SELECT c.a FROM c GROUP BY c.a", &["GroupBy"]),
        ("SELECT c.a, COUNT(1) FROM c GROUP BY c.a", &["Aggregate", "GroupBy"]),
        ("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT c.a FROM c)", &["DCount", "Distinct"]),
        (
            "SELECT DISTINCT c.a, MIN(c.b), MAX(c.b) FROM c GROUP BY c.a",
            &["Aggregate", "Distinct", "GroupBy", "MultipleAggregates"],
        ),
        ("SELECT 1", &[]),
    ];
    for (text, needed) in cases {
        let query = parse(text).unwrap();
        let with = |features| plan(&query, &Parameters::new(), &definition(), features);
        match with(Features::NONE) {
            Ok(_) => assert!(needed.is_empty(), "{text}"),
            Err(error) => {
                assert_eq!(error, PlanError::UnsupportedFeatures(needed.to_vec()), "{text}");
            }
        }
        assert!(with(Features::parse(&needed.join(", "))).is_ok(), "{text}");
        let python = needed.iter().all(|name| PYTHON.split(',').any(|listed| listed == *name));
        assert_eq!(with(Features::parse(PYTHON)).is_ok(), python, "{text}");
    }
    assert_eq!(Features::parse("orderby , Nonsense,,TOP").names(), ["OrderBy", "Top"]);
}

fn keys(filter: &str, definition: &PartitionKeyDefinition) -> Option<Vec<PartitionKey>> {
    let query = parse(&format!("SELECT * FROM c WHERE {filter}")).unwrap();
    let parameters =
        Parameters::from([("@s".to_owned(), json!("p")), ("@o".to_owned(), json!({"a": 1}))]);
    partition_keys(&query, &parameters, definition)
}

#[test]
fn the_filter_tells_which_keys_can_hold_results() {
    let one = |key: &str| Some(vec![PartitionKey::from(key)]);
    let two = |a: &str, b: &str| Some(vec![PartitionKey::from(a), PartitionKey::from(b)]);
    let none = Some(vec![PartitionKey::undefined()]);
    let cases: [(&str, Option<Vec<PartitionKey>>); 21] = [
        ("c.pk = 'a'", one("a")),
        ("'a' = c.pk", one("a")),
        ("c['pk'] = 'a' AND c.x > 1", one("a")),
        ("c.pk = @s", one("p")),
        ("c.pk = -1.5", Some(vec![PartitionKey::from(PartitionKeyValue::try_from(-1.5).unwrap())])),
        ("c.pk = null", Some(vec![PartitionKey::from(Option::<&str>::None)])),
        ("c.pk IN ('a', 'b', 'a')", two("a", "b")),
        ("c.pk = 'a' OR c.pk = 'b'", two("a", "b")),
        ("(c.pk = 'a' AND c.x) OR (c.pk = 'b' AND c.y)", two("a", "b")),
        ("c.pk IN ('a', 'b') AND c.pk = 'b'", one("b")),
        ("c.pk = 'a' AND c.pk = 'b'", none),
        ("c.pk = 'a' OR c.x = 1", None),
        ("c.pk IN ('a', c.y)", None),
        ("c.pk NOT IN ('a')", None),
        ("c.pk != 'a'", None),
        ("c.pk > 'a'", None),
        ("c.pk = @o", None),
        ("c.other = 'a'", None),
        ("c.pk.deeper = 'a'", None),
        ("NOT (c.pk = 'a')", None),
        ("true", None),
    ];
    for (filter, expected) in cases {
        assert_eq!(keys(filter, &definition()), expected, "{filter}");
    }
}

#[test]
fn a_prefix_of_a_hierarchical_key_narrows_the_ranges() {
    let definition = hierarchical();
    let full = |tenant: &str, user: &str| PartitionKey::from((tenant, user));
    assert_eq!(keys("c.tenant = 'a'", &definition), Some(vec![PartitionKey::from("a")]));
    assert_eq!(keys("c.tenant = 'a' AND c.user.id = 'u'", &definition), Some(vec![full("a", "u")]));
    assert_eq!(
        keys("c.tenant = 'a' AND c.user.id IN ('u', 'v')", &definition),
        Some(vec![full("a", "u"), full("a", "v")])
    );
    assert_eq!(keys("c.user.id = 'u'", &definition), None);

    let ranges = |filter: &str| {
        let query = parse(&format!("SELECT * FROM c WHERE {filter}")).unwrap();
        let plan = plan(&query, &Parameters::new(), &definition, Features::ALL).unwrap();
        plan.query_ranges
    };
    let prefix = definition.effective_range(&PartitionKey::from("a")).unwrap();
    let prefix = QueryRange { is_max_inclusive: true, ..QueryRange::from(prefix) };
    assert_eq!(ranges("c.tenant = 'a'"), std::slice::from_ref(&prefix));
    assert_eq!(
        ranges("(c.tenant = 'a' AND c.user.id = 'u') OR c.tenant = 'a'"),
        [prefix],
        "a key below the prefix adds nothing"
    );
    let point = definition.effective_key(&full("a", "u")).unwrap();
    assert_eq!(ranges("c.tenant = 'a' AND c.user.id = 'u'"), [QueryRange::from(point)]);
}

#[test]
fn ranges_come_in_order_and_points_are_closed() {
    let plan = plan_of("SELECT * FROM c WHERE c.pk IN ('a', 'partitionKey', '')");
    let ranges = serde_json::to_value(plan.query_ranges).unwrap();
    let closed =
        |epk: &str| json!({"min": epk, "max": epk, "isMinInclusive": true, "isMaxInclusive": true});
    assert_eq!(
        ranges,
        json!([
            closed("013AEFCF77FA271571CF665A58C933F1"),
            closed("32E9366E637A71B4E710384B2F4970A0"),
            closed("3A5381E1114EB8D3FCC90795045B49B7"),
        ])
    );
}

#[test]
fn a_server_can_ask_what_a_query_sorts_by_and_whether_it_streams() {
    let paths = |text: &str| parse(text).unwrap().order_by_paths();
    let path = |names: &[&str], direction| OrderPath {
        path: Some(names.iter().map(|name| (*name).to_owned()).collect()),
        direction,
    };
    assert_eq!(
        paths("SELECT * FROM root r ORDER BY r.a.b DESC, r['c d']"),
        [path(&["a", "b"], Direction::Descending), path(&["c d"], Direction::Ascending)]
    );
    let computed = OrderPath { path: None, direction: Direction::Ascending };
    assert_eq!(paths("SELECT * FROM c ORDER BY LOWER(c.a)"), std::slice::from_ref(&computed));
    assert_eq!(paths("SELECT * FROM c JOIN t IN c.tags ORDER BY t"), [computed]);
    assert_eq!(paths("SELECT * FROM c"), []);

    for text in [
        "SELECT * FROM c",
        "SELECT VALUE t FROM c JOIN t IN c.tags WHERE t > (SELECT VALUE COUNT(1) FROM x IN c.y)",
    ] {
        assert!(parse(text).unwrap().is_servable_across_partitions(), "{text}");
    }
    for text in [
        "SELECT TOP 1 * FROM c",
        "SELECT DISTINCT c.a FROM c",
        "SELECT COUNT(1) FROM c",
        "SELECT * FROM c ORDER BY c.a",
        "SELECT c.a FROM c GROUP BY c.a",
        "SELECT * FROM c OFFSET 0 LIMIT 1",
        "SELECT * FROM (SELECT TOP 1 * FROM c) t",
    ] {
        assert!(!parse(text).unwrap().is_servable_across_partitions(), "{text}");
    }
}

/// `'q'` became `"q"`, for which Microsoft's in-memory emulator finds no rows.
#[test]
fn a_rewritten_query_keeps_the_literals_as_they_were_written() {
    for (text, literals) in [
        (r"SELECT c.k, COUNT(1) FROM c WHERE c.x = 'it\'s' GROUP BY c.k", vec![r"'it\'s'"]),
        ("SELECT * FROM c WHERE c.x = 'q' ORDER BY c.x", vec!["'q'"]),
        (
            "SELECT * FROM c WHERE c.y IN (\"q\", 1.0, 1e3, 0x1F) ORDER BY c.x",
            vec!["(\"q\", 1.0, 1e3, 0x1F)"],
        ),
        (
            "SELECT VALUE {a: 'q', b: 2.50} FROM c WHERE c.z LIKE 'a%' OFFSET 2 LIMIT 1",
            vec!["'q'", "2.50", "'a%'"],
        ),
    ] {
        let rewritten = plan_of(text).query_info.unwrap().rewritten_query;
        for literal in literals {
            assert!(rewritten.contains(literal), "{literal} of {text} in {rewritten}");
        }
    }
}
