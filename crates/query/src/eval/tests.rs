//! Whole queries against small documents: logic, clauses, sub-queries, limits.

use serde_json::{Value, json};

use super::*;
use crate::context::Context;
use crate::error::{CompileError, EvalError};
use crate::limits::Limits;
use crate::parse;

fn context() -> Context {
    Context::new(0, 0)
}

fn run_with(text: &str, parameters: &Parameters, documents: &[Value]) -> Vec<Value> {
    let program = Program::new(&parse(text).expect(text), parameters).expect(text);
    program.run(documents, &context()).expect(text)
}

fn run(text: &str, documents: &[Value]) -> Vec<Value> {
    run_with(text, &Parameters::new(), documents)
}

fn error(text: &str) -> CompileError {
    Program::new(&parse(text).expect(text), &Parameters::new()).expect_err(text)
}

/// The value of an expression, `None` being undefined.
fn value(expression: &str) -> Option<Value> {
    run(&format!("SELECT VALUE {expression}"), &[]).pop()
}

fn families() -> Vec<Value> {
    vec![
        json!({"id": "a", "pk": 1, "n": 3, "tags": ["x", "y"], "kids": [{"g": 5}, {"g": 8, "pet": "z"}]}),
        json!({"id": "b", "pk": 1, "n": 1, "tags": ["y"], "kids": []}),
        json!({"id": "c", "pk": 2, "tags": "none"}),
        json!({"id": "d", "pk": 2, "n": null, "tags": ["x", "x"], "kids": [{"g": 1}]}),
    ]
}

#[test]
fn three_valued_logic_follows_the_truth_tables() {
    let values = ["true", "false", "undefined"];
    let and = [
        Some(true),
        Some(false),
        None,
        Some(false),
        Some(false),
        Some(false),
        None,
        Some(false),
        None,
    ];
    let or =
        [Some(true), Some(true), Some(true), Some(true), Some(false), None, Some(true), None, None];
    for (i, left) in values.iter().enumerate() {
        for (j, right) in values.iter().enumerate() {
            let expected = |table: [Option<bool>; 9]| table[3 * i + j].map(Value::Bool);
            assert_eq!(value(&format!("{left} AND {right}")), expected(and), "{left} AND {right}");
            assert_eq!(value(&format!("{left} OR {right}")), expected(or), "{left} OR {right}");
        }
    }
    assert_eq!(value("NOT true"), Some(json!(false)));
    assert_eq!(value("NOT undefined"), None);
    for other in ["1", "'true'", "null", "[true]"] {
        assert_eq!(value(&format!("NOT {other}")), None, "{other}");
        assert_eq!(value(&format!("{other} AND true")), None, "{other}");
        assert_eq!(value(&format!("{other} OR true")), Some(json!(true)), "{other}");
    }
}

#[test]
fn arithmetic_works_on_doubles_and_prints_whole_numbers_as_integers() {
    let cases = [
        ("1 + 2", json!(3)),
        ("0.1 + 0.2", json!(0.300_000_000_000_000_04)),
        ("1.5 + 0.5", json!(2)),
        ("7 - 10", json!(-3)),
        ("2 * 1e20", json!(2e20)),
        ("7 / 2", json!(3.5)),
        ("6 / 2", json!(3)),
        ("7 % 3", json!(1)),
        ("-7 % 3", json!(-1)),
        ("5.5 % 2", json!(1.5)),
        ("-(3)", json!(-3)),
        ("- -3", json!(3)),
        ("+3", json!(3)),
        ("1 + 2 * 3", json!(7)),
        ("(1 + 2) * 3", json!(9)),
        ("10 - 2 - 3", json!(5)),
        ("9007199254740993", json!(9_007_199_254_740_992_u64)),
        ("9007199254740993 + 0", json!(9_007_199_254_740_992_u64)),
        ("1234567890123456789", json!(1_234_567_890_123_456_768_u64)),
        ("1.0", json!(1)),
        ("0x1F", json!(31)),
        ("0XFFFFFFFF + 1", json!(4_294_967_296_u64)),
    ];
    for (expression, expected) in cases {
        assert_eq!(value(expression), Some(expected), "{expression}");
    }
    for undefined in
        ["1 / 0", "1 % 0", "1e308 * 10", "1 + '1'", "1 + null", "-'a'", "+true", "1 - undefined"]
    {
        assert_eq!(value(undefined), None, "{undefined}");
    }
}

#[test]
fn bit_operators_work_on_32_bits() {
    let cases = [
        ("100 >> 2", json!(25)),
        ("100 << 2", json!(400)),
        ("100 >>> 0", json!(100)),
        ("100 & 1000", json!(96)),
        ("100 | 1000", json!(1004)),
        ("100 ^ 1000", json!(908)),
        ("~5", json!(-6)),
        ("-1 >>> 0", json!(4_294_967_295_u32)),
        ("-8 >> 1", json!(-4)),
        ("1 << 32", json!(1)),
        ("4294967297 & 1", json!(1)),
        ("2147483648 | 0", json!(-2_147_483_648_i64)),
        ("1.9 | 0", json!(1)),
        ("-1.9 | 0", json!(-1)),
    ];
    for (expression, expected) in cases {
        assert_eq!(value(expression), Some(expected), "{expression}");
    }
    for undefined in ["1 & '1'", "~null", "1 << undefined", "true | 1"] {
        assert_eq!(value(undefined), None, "{undefined}");
    }
}

#[test]
fn comparison_never_converts() {
    let yes = [
        "1 = 1.0",
        "'a' = 'a'",
        "null = null",
        "true = true",
        "[1, 2] = [1, 2]",
        "{a: 1, b: 2} = {b: 2, a: 1}",
        "1 != 2",
        "1 <> 2",
        "'a' < 'b'",
        "'B' < 'a'",
        "false < true",
        "2 <= 2",
        "2 >= 2",
        "3 > 2",
        "null >= null",
    ];
    for expression in yes {
        assert_eq!(value(expression), Some(json!(true)), "{expression}");
    }
    for expression in ["1 = 2", "[1] = [2]", "{a: 1} = {}", "1 != 1", "'b' < 'a'", "null < null"] {
        assert_eq!(value(expression), Some(json!(false)), "{expression}");
    }
    for expression in ["1 = '1'", "1 = null", "0 = false", "[1] = {}", "NOT (1 != null)"] {
        assert_eq!(value(expression), Some(json!(false)), "{expression}");
    }
    for expression in
        ["1 != '1'", "'a' != null", "[1] != [2]", "{a: 1} != {a: 2}", "NOT (1 = null)"]
    {
        assert_eq!(value(expression), Some(json!(true)), "{expression}");
    }
    let undefined = [
        "1 < '2'",
        "null < 1",
        "undefined = undefined",
        "undefined != 1",
        "undefined = null",
        "NOT (undefined = null)",
        "[1] < [2]",
        "{a: 1} > {a: 0}",
    ];
    for expression in undefined {
        assert_eq!(value(expression), None, "{expression}");
    }
}

#[test]
fn the_other_operators_do_what_they_say() {
    let cases = [
        ("'a' || 'b' || ''", Some(json!("ab"))),
        ("'a' || 1", None),
        ("undefined ?? 1", Some(json!(1))),
        ("null ?? 1", Some(json!(null))),
        ("undefined ?? undefined ?? 2", Some(json!(2))),
        ("true ? 1 : 2", Some(json!(1))),
        ("undefined ? 1 : 2", Some(json!(2))),
        ("5 ? 1 : 2", Some(json!(2))),
        ("true ? false ? 1 : 2 : 3", Some(json!(2))),
        ("2 BETWEEN 1 AND 3", Some(json!(true))),
        ("1 BETWEEN 1 AND 1", Some(json!(true))),
        ("4 BETWEEN 1 AND 3", Some(json!(false))),
        ("4 NOT BETWEEN 1 AND 3", Some(json!(true))),
        ("'b' BETWEEN 'a' AND 'c'", Some(json!(true))),
        ("2 BETWEEN 'a' AND 3", None),
        ("4 BETWEEN 'a' AND 3", Some(json!(false))),
        ("undefined BETWEEN 1 AND 2", None),
        ("1 IN (1, 2)", Some(json!(true))),
        ("1 IN ('1', 2)", Some(json!(false))),
        ("1 NOT IN ('1', 2)", Some(json!(true))),
        ("null IN (null)", Some(json!(true))),
        ("undefined IN (1)", None),
        ("undefined NOT IN (1)", None),
        ("[1] IN ([1])", Some(json!(true))),
        ("'abc' LIKE 'a%'", Some(json!(true))),
        ("'abc' NOT LIKE 'a%'", Some(json!(false))),
        ("'a%c' LIKE 'a!%_' ESCAPE '!'", Some(json!(true))),
        ("'abc' LIKE LOWER('A_C')", Some(json!(true))),
        ("'abc' LIKE 5", None),
        ("5 LIKE '5'", None),
        ("undefined NOT LIKE 'a'", None),
        ("{a: {b: [1, 2]}}.a.b[1]", Some(json!(2))),
        ("{a: 1}['a']", Some(json!(1))),
        ("{ab: 1}['a' || 'b']", Some(json!(1))),
        ("[1, 2][1 - 1]", Some(json!(1))),
        ("[1, 2][2]", None),
        ("[1, 2][-1]", None),
        ("[1, 2][0.5]", None),
        ("[1, 2]['0']", None),
        ("'text'.a", None),
        ("null.a", None),
        ("{a: undefined, b: null}", Some(json!({"b": null}))),
        ("[undefined, null]", Some(json!([null]))),
    ];
    for (expression, expected) in cases {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn a_documents_own_numbers_pass_through_untouched() {
    let document: Value =
        serde_json::from_str(r#"{"big": 9007199254740993, "neg": -9223372036854775808, "f": 1.0}"#)
            .unwrap();
    let rows = run("SELECT c.big, c.neg, c.f FROM c", std::slice::from_ref(&document));
    assert_eq!(rows[0].to_string(), document.to_string());
}

#[test]
fn projections_name_their_members() {
    let rows = run(
        r#"SELECT c.id, c["n"], c.kids[0], c.n + 1, c.tags AS labels, 5 five, c FROM c WHERE c.id = "b""#,
        &families(),
    );
    let b = families()[1].clone();
    let row = json!({"id": "b", "n": 1, "$1": 2, "labels": ["y"], "five": 5, "c": b});
    // `c.kids[0]` is undefined and unnamed, yet has its number.
    let row = {
        let mut row = row.as_object().unwrap().clone();
        let next = row.shift_remove("$1").unwrap();
        row.insert("$2".to_owned(), next);
        Value::Object(row)
    };
    assert_eq!(rows, [row]);
    assert_eq!(run("SELECT c.missing FROM c", &families()[..1]), [json!({})]);
    assert_eq!(run("SELECT VALUE c.missing FROM c", &families()), [] as [Value; 0]);
    assert_eq!(run("SELECT * FROM c WHERE c.n = 1", &families()), [families()[1].clone()]);
}

#[test]
fn from_reaches_into_documents() {
    let ids = |text: &str| run(text, &families());
    assert_eq!(
        ids("SELECT * FROM c.kids"),
        [families()[0]["kids"].clone(), json!([]), families()[3]["kids"].clone()]
    );
    assert_eq!(ids("SELECT VALUE kids[0].g FROM c.kids"), [json!(5), json!(1)]);
    assert_eq!(ids("SELECT VALUE k.g FROM k IN c.kids"), [json!(5), json!(8), json!(1)]);
    assert_eq!(ids(r#"SELECT VALUE k FROM c["kids"][1].pet k"#), [json!("z")]);
    assert_eq!(ids("SELECT VALUE r.id FROM root r WHERE r.pk = 2"), [json!("c"), json!("d")]);
    assert_eq!(
        ids("SELECT VALUE t FROM t IN (SELECT VALUE c.tags FROM c WHERE c.n = 3)"),
        [json!("x"), json!("y")]
    );
}

#[test]
fn joins_multiply_rows() {
    assert_eq!(
        run("SELECT c.id, t FROM c JOIN t IN c.tags", &families()),
        [
            json!({"id": "a", "t": "x"}),
            json!({"id": "a", "t": "y"}),
            json!({"id": "b", "t": "y"}),
            json!({"id": "d", "t": "x"}),
            json!({"id": "d", "t": "x"}),
        ]
    );
    assert_eq!(
        run(
            "SELECT VALUE [t, k.g] FROM c JOIN t IN c.tags JOIN k IN c.kids WHERE k.g > 1",
            &families()
        ),
        [json!(["x", 5]), json!(["x", 8]), json!(["y", 5]), json!(["y", 8])]
    );
    assert_eq!(
        run(
            "SELECT VALUE k.g FROM c JOIN (SELECT VALUE k FROM k IN c.kids WHERE k.g > 4) AS k",
            &families()
        ),
        [json!(5), json!(8)]
    );
    assert_eq!(run("SELECT VALUE p FROM c JOIN c.kids AS ks JOIN p IN ks", &families()).len(), 3);
}

#[test]
fn subqueries_see_what_surrounds_them() {
    assert_eq!(
        run(
            "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE k FROM k IN c.kids WHERE k.g > c.n)",
            &families()
        ),
        [json!("a")]
    );
    assert_eq!(
        run(
            "SELECT c.id, ARRAY(SELECT VALUE k.g * 2 FROM k IN c.kids) AS doubled FROM c WHERE c.pk = 1",
            &families()
        ),
        [json!({"id": "a", "doubled": [10, 16]}), json!({"id": "b", "doubled": []})]
    );
    assert_eq!(
        run("SELECT VALUE (SELECT VALUE SUM(k.g) FROM k IN c.kids) FROM c", &families()),
        [json!(13), json!(0), json!(0), json!(1)]
    );
    assert_eq!(
        run(
            "SELECT (SELECT COUNT(1) AS n, MAX(k.g) AS m FROM k IN c.kids).n FROM c WHERE c.id = 'a'",
            &families()
        ),
        [json!({"n": 2})]
    );
    assert_eq!(
        run(
            "SELECT VALUE ARRAY(SELECT DISTINCT VALUE t FROM t IN c.tags ORDER BY t DESC) FROM c WHERE c.id != 'c'",
            &families()
        ),
        [json!(["y", "x"]), json!(["y"]), json!(["x"])]
    );
    assert_eq!(
        run("SELECT VALUE (SELECT VALUE 1 FROM t IN c.none) ?? 'no' FROM c", &families()[..1]),
        [json!("no")]
    );
}

#[test]
fn a_query_in_from_runs_over_all_documents_first() {
    assert_eq!(
        run("SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.pk FROM c)", &families()),
        [json!(2)]
    );
    assert_eq!(
        run(
            "SELECT t.pk, t.n FROM (SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk) AS t WHERE t.pk > 1",
            &families()
        ),
        [json!({"pk": 2, "n": 2})]
    );
    assert_eq!(
        run("SELECT VALUE t.id FROM (SELECT TOP 1 * FROM c ORDER BY c.id DESC) t", &families()),
        [json!("d")]
    );
    assert_eq!(run("SELECT * FROM (SELECT 1 AS one) t", &families()), [json!({"one": 1})]);
    assert_eq!(
        run("SELECT VALUE t FROM t IN (SELECT VALUE [1, 2])", &families()),
        [json!(1), json!(2)]
    );
}

#[test]
fn order_by_sorts_across_types_and_breaks_ties_by_document() {
    let documents: Vec<Value> = [
        json!({"id": 0, "v": "b"}),
        json!({"id": 1, "v": 2}),
        json!({"id": 2}),
        json!({"id": 3, "v": null}),
        json!({"id": 4, "v": true}),
        json!({"id": 5, "v": [1]}),
        json!({"id": 6, "v": {"a": 1}}),
        json!({"id": 7, "v": 2.0}),
        json!({"id": 8, "v": false}),
    ]
    .into();
    let ids =
        |text: &str| run(text, &documents).iter().map(|v| v.as_i64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY c.v"), [2, 3, 8, 4, 1, 7, 0, 5, 6]);
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY c.v DESC"), [6, 5, 0, 7, 1, 4, 8, 3, 2]);
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY IS_NUMBER(c.v) DESC, c.id ASC")[..2], [1, 7]);
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY c.v OFFSET 1 LIMIT 2"), [3, 8]);
    assert_eq!(ids("SELECT TOP 2 VALUE c.id FROM c ORDER BY c.id DESC"), [8, 7]);
    assert_eq!(ids("SELECT VALUE c.id FROM c ORDER BY c.none DESC"), [8, 7, 6, 5, 4, 3, 2, 1, 0]);
    assert_eq!(
        ids("SELECT VALUE c.id FROM c ORDER BY c.none ASC, c.none DESC"),
        [0, 1, 2, 3, 4, 5, 6, 7, 8]
    );
}

#[test]
fn distinct_compares_whole_rows() {
    assert_eq!(
        run("SELECT DISTINCT c.pk FROM c", &families()),
        [json!({"pk": 1}), json!({"pk": 2})]
    );
    assert_eq!(
        run("SELECT DISTINCT VALUE t FROM c JOIN t IN c.tags", &families()),
        [json!("x"), json!("y")]
    );
    assert_eq!(run("SELECT DISTINCT c.missing FROM c", &families()), [json!({})]);
    assert_eq!(run("SELECT DISTINCT TOP 1 VALUE c.pk FROM c", &families()), [json!(1)]);
    assert_eq!(run("SELECT DISTINCT VALUE c.pk FROM c OFFSET 1 LIMIT 5", &families()), [json!(2)]);
    assert_eq!(
        run("SELECT DISTINCT VALUE c.pk FROM c ORDER BY c.id DESC", &families()),
        [json!(2), json!(1)]
    );
}

#[test]
fn windows_count_rows() {
    let ids = |text: &str| run(text, &families());
    assert_eq!(ids("SELECT TOP 2 VALUE c.id FROM c"), [json!("a"), json!("b")]);
    assert_eq!(ids("SELECT TOP 0 VALUE c.id FROM c"), [] as [Value; 0]);
    assert_eq!(ids("SELECT VALUE c.id FROM c OFFSET 1 LIMIT 2"), [json!("b"), json!("c")]);
    assert_eq!(ids("SELECT VALUE c.id FROM c OFFSET 9 LIMIT 2"), [] as [Value; 0]);
    let parameters = Parameters::from([("@n".to_owned(), json!(1)), ("@o".to_owned(), json!(2.0))]);
    assert_eq!(run_with("SELECT TOP @n VALUE c.id FROM c", &parameters, &families()), [json!("a")]);
    assert_eq!(
        run_with("SELECT VALUE c.id FROM c OFFSET @o LIMIT @n", &parameters, &families()),
        [json!("c")]
    );
}

#[test]
fn aggregates_pass_over_undefined_and_give_up_on_what_they_cannot_add() {
    let numbers = [json!({"v": 1}), json!({"v": 2.5}), json!({}), json!({"v": 4})];
    let mixed = [json!({"v": 1}), json!({"v": "a"}), json!({"v": null}), json!({"v": true})];
    let objects = [json!({"v": 1}), json!({"v": {"a": 1}})];
    let cases: [(&str, &[Value], Option<Value>); 24] = [
        ("COUNT(1)", &numbers, Some(json!(4))),
        ("COUNT(c.v)", &numbers, Some(json!(3))),
        ("SUM(c.v)", &numbers, Some(json!(7.5))),
        ("AVG(c.v)", &numbers, Some(json!(2.5))),
        ("MIN(c.v)", &numbers, Some(json!(1))),
        ("MAX(c.v)", &numbers, Some(json!(4))),
        ("COUNTIF(c.v > 2)", &numbers, Some(json!(2))),
        ("MAKELIST(c.v)", &numbers, Some(json!([1, 2.5, 4]))),
        ("MAKESET(c.v > 2)", &numbers, Some(json!([false, true]))),
        ("COUNT(c.v)", &mixed, Some(json!(4))),
        ("SUM(c.v)", &mixed, None),
        ("AVG(c.v)", &mixed, None),
        ("MIN(c.v)", &mixed, Some(json!(null))),
        ("MAX(c.v)", &mixed, Some(json!("a"))),
        ("MIN(c.v)", &objects, None),
        ("MAX(c.v)", &objects, None),
        ("COUNT(1)", &[], Some(json!(0))),
        ("SUM(c.v)", &[], Some(json!(0))),
        ("AVG(c.v)", &[], None),
        ("MIN(c.v)", &[], None),
        ("COUNTIF(true)", &[], Some(json!(0))),
        ("MAKELIST(c.v)", &[], Some(json!([]))),
        ("SUM(c.v) / COUNT(c.v) + 1", &numbers, Some(json!(3.5))),
        ("[{item: COUNT(1)}]", &numbers, Some(json!([{"item": 4}]))),
    ];
    for (aggregate, documents, expected) in cases {
        let rows = run(&format!("SELECT VALUE {aggregate} FROM c"), documents);
        assert_eq!(rows.first(), expected.as_ref(), "{aggregate}");
        assert_eq!(rows.len(), usize::from(expected.is_some()), "{aggregate}");
    }
    assert_eq!(
        run("SELECT COUNT(1), AVG(c.v) AS a, SUM(c.w) FROM c", &mixed),
        [json!({"$1": 4, "$2": 0})]
    );
}

#[test]
fn groups_keep_undefined_apart_from_null() {
    let documents = [
        json!({"k": "a", "v": 1}),
        json!({"k": null, "v": 2}),
        json!({"v": 3}),
        json!({"k": "a", "v": 4}),
        json!({"k": {"x": 1, "y": 2}, "v": 5}),
        json!({"k": {"y": 2, "x": 1}, "v": 6}),
    ];
    assert_eq!(
        run("SELECT c.k, COUNT(1) AS n, SUM(c.v) AS s FROM c GROUP BY c.k", &documents),
        [
            json!({"k": "a", "n": 2, "s": 5}),
            json!({"k": null, "n": 1, "s": 2}),
            json!({"n": 1, "s": 3}),
            json!({"k": {"x": 1, "y": 2}, "n": 2, "s": 11}),
        ]
    );
    assert_eq!(
        run("SELECT VALUE {k: c.k, m: MAX(c.v + 1)} FROM c WHERE c.v < 3 GROUP BY c.k", &documents),
        [json!({"k": "a", "m": 2}), json!({"k": null, "m": 3})]
    );
    assert_eq!(
        run("SELECT IS_STRING(c.k) AS s, COUNT(1) AS n FROM c GROUP BY IS_STRING(c.k)", &documents),
        [json!({"s": true, "n": 2}), json!({"s": false, "n": 4})]
    );
    assert_eq!(
        run("SELECT VALUE c.k FROM c GROUP BY c.k OFFSET 1 LIMIT 1", &documents),
        [json!({"x": 1, "y": 2})].map(|_| json!(null))
    );
    assert_eq!(
        run("SELECT COUNT(1) AS n FROM c WHERE false GROUP BY c.k", &documents),
        [] as [Value; 0]
    );
}

#[test]
fn what_means_nothing_is_refused() {
    use CompileError as E;
    let name = |text: &str| text.to_owned();
    let cases = [
        ("SELECT * FROM c WHERE d.x = 1", E::UnknownIdentifier(name("d"))),
        ("SELECT * FROM c WHERE C.x = 1", E::UnknownIdentifier(name("C"))),
        ("SELECT c.x", E::UnknownIdentifier(name("c"))),
        ("SELECT VALUE 1 FROM c JOIN t IN d.tags", E::UnknownIdentifier(name("d"))),
        ("SELECT * FROM c f WHERE c.x = 1", E::UnknownIdentifier(name("c"))),
        ("SELECT * FROM c WHERE c.x = @p", E::MissingParameter(name("@p"))),
        ("SELECT TOP @p * FROM c", E::MissingParameter(name("@p"))),
        ("SELECT *", E::StarWithoutFrom),
        ("SELECT * FROM c JOIN t IN c.tags", E::AmbiguousStar),
        ("SELECT 1 FROM c JOIN c IN c.tags", E::DuplicateAlias(name("c"))),
        ("SELECT c.x, COUNT(1) FROM c", E::NotGrouped(name("c.x"))),
        ("SELECT c.x.y FROM c GROUP BY c.z", E::NotGrouped(name("c.x.y"))),
        ("SELECT * FROM c GROUP BY c.z", E::NotGrouped(name("*"))),
        ("SELECT COUNT(1), (SELECT VALUE c.x) FROM c", E::NotGrouped(name("c.x"))),
        ("SELECT VALUE 1 FROM c WHERE COUNT(1) > 1", E::MisplacedAggregate("a WHERE clause")),
        ("SELECT VALUE 1 FROM c GROUP BY COUNT(1)", E::MisplacedAggregate("a GROUP BY clause")),
        ("SELECT VALUE 1 FROM c ORDER BY COUNT(1)", E::MisplacedAggregate("an ORDER BY clause")),
        ("SELECT SUM(COUNT(1)) FROM c", E::MisplacedAggregate("the argument of another aggregate")),
        ("SELECT * FROM c WHERE c.x LIKE 'a' ESCAPE 'bc'", E::BadEscape),
        (
            "SELECT * FROM c ORDER BY RANK FullTextScore(c.t, 'x')",
            E::UnavailableFunction(name("FullTextScore")),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(error(text), expected, "{text}");
    }
    assert!(matches!(error("SELECT COUNT(1, 2) FROM c"), E::ArgumentCount { .. }));
    assert_eq!(error("SELECT COUNT(1) FROM c ORDER BY d.x"), E::UnknownIdentifier(name("d")));
    let ungrouped = "SELECT c.a, COUNT(1) FROM c GROUP BY c.a ORDER BY c.b";
    assert_eq!(error(ungrouped), E::NotGrouped(name("c.b")));
    assert!(matches!(error("SELECT TOP 1 * FROM c OFFSET 0 LIMIT 1"), E::Unsupported(_)));
    let bad = Parameters::from([("@n".to_owned(), json!(-1))]);
    let query = parse("SELECT TOP @n * FROM c").unwrap();
    assert_eq!(Program::new(&query, &bad).unwrap_err(), E::BadCount("TOP"));
}

/// `WHERE c.lastName != null` found nothing: a comparison with another type was undefined.
#[test]
fn a_comparison_with_null_finds_what_is_there_and_not_null() {
    let documents = [
        json!({"id": "a", "x": "text"}),
        json!({"id": "b", "x": null}),
        json!({"id": "c"}),
        json!({"id": "d", "x": 5}),
    ];
    let ids = |filter: &str| run(&format!("SELECT VALUE c.id FROM c WHERE {filter}"), &documents);
    assert_eq!(ids("c.x != null"), [json!("a"), json!("d")]);
    assert_eq!(ids("NOT (c.x = null)"), [json!("a"), json!("d")]);
    assert_eq!(ids("c.x != 'text'"), [json!("b"), json!("d")]);
    assert_eq!(ids("c.x = null"), [json!("b")]);
    let names = run("SELECT VALUE c.x != null ? c.x : 'ZZ' FROM c", &documents);
    assert_eq!(names, [json!("text"), json!("ZZ"), json!("ZZ"), json!(5)]);
}

#[test]
fn a_scalar_subquery_with_several_rows_is_an_error() {
    let query = parse("SELECT VALUE (SELECT VALUE t FROM t IN c.tags) FROM c").unwrap();
    let program = Program::new(&query, &Parameters::new()).unwrap();
    let over = |tags: serde_json::Value| program.run([&json!({"tags": tags})], &Context::new(0, 0));
    assert_eq!(over(json!(["one"])), Ok(vec![json!("one")]));
    assert_eq!(over(json!([])), Ok(Vec::new()));
    assert_eq!(over(json!(["one", "two"])), Err(EvalError::ScalarSubqueryRows));
}

#[test]
fn an_aggregate_alone_is_one_row_whatever_it_is_sorted_by() {
    let documents = [json!({"key": 2}), json!({"key": 1}), json!({})];
    assert_eq!(run("SELECT VALUE COUNT(r.key) FROM r ORDER BY r.key", &documents), [json!(2)]);
    assert_eq!(run("SELECT COUNT(1) AS n FROM r ORDER BY r.a, r.b DESC", &[]), [json!({"n": 0})]);
}

#[test]
fn groups_are_sorted_by_their_keys_and_aggregates() {
    let documents = [
        json!({"k": "b", "n": 1}),
        json!({"k": "a", "n": 5}),
        json!({"k": "b", "n": 2}),
        json!({"k": "c", "n": 3}),
    ];
    let keys = |order: &str| {
        let text = format!("SELECT VALUE c.k FROM c GROUP BY c.k ORDER BY {order}");
        run(&text, &documents)
    };
    assert_eq!(keys("c.k"), [json!("a"), json!("b"), json!("c")]);
    assert_eq!(keys("c.k DESC"), [json!("c"), json!("b"), json!("a")]);
    assert_eq!(keys("SUM(c.n) DESC"), [json!("a"), json!("b"), json!("c")], "ties go by key");
    assert_eq!(keys("COUNT(1) DESC, c.k DESC"), [json!("b"), json!("c"), json!("a")]);
    let top = "SELECT TOP 1 c.k, COUNT(1) AS n FROM c GROUP BY c.k ORDER BY COUNT(1) DESC";
    assert_eq!(run(top, &documents), [json!({"k": "b", "n": 2})]);
}

#[test]
fn a_parameter_is_a_value_and_never_text() {
    let evil = json!("x' OR true --");
    let parameters = Parameters::from([("@p".to_owned(), evil.clone())]);
    let documents = [json!({"v": "x"}), json!({"v": evil})];
    assert_eq!(run_with("SELECT VALUE c.v FROM c WHERE c.v = @p", &parameters, &documents), [evil]);
    let shapes = Parameters::from([("@o".to_owned(), json!({"a": [1]}))]);
    assert_eq!(run_with("SELECT VALUE @o.a[0]", &shapes, &[]), [json!(1)]);
    assert_eq!(run_with("SELECT VALUE ARRAY_CONTAINS(@o.a, 1)", &shapes, &[]), [json!(true)]);
}

#[test]
fn shapes_say_what_a_run_must_remember() {
    let shape =
        |text: &str| Program::new(&parse(text).unwrap(), &Parameters::new()).unwrap().shape();
    assert_eq!(shape("SELECT c.x FROM c JOIN t IN c.tags WHERE c.y"), Shape::Streaming);
    assert_eq!(shape("SELECT TOP 5 * FROM c"), Shape::Counting);
    assert_eq!(shape("SELECT * FROM c OFFSET 5 LIMIT 5"), Shape::Counting);
    for text in [
        "SELECT * FROM c ORDER BY c.x",
        "SELECT DISTINCT c.x FROM c",
        "SELECT COUNT(1) FROM c",
        "SELECT c.x FROM c GROUP BY c.x",
        "SELECT * FROM (SELECT TOP 5 * FROM c) t",
    ] {
        assert_eq!(shape(text), Shape::Buffering, "{text}");
    }
}

#[test]
fn a_streaming_run_can_stop_after_any_document_and_go_on() {
    let program = Program::new(
        &parse("SELECT VALUE c.id FROM c OFFSET 1 LIMIT 2").unwrap(),
        &Parameters::new(),
    )
    .unwrap();
    let (context, documents) = (context(), families());
    for stop in 0..=documents.len() {
        let mut rows = Vec::new();
        let mut first = program.start(&context);
        for document in &documents[..stop] {
            first.feed(document, &mut rows).unwrap();
        }
        let mut second = program.start(&context).resumed_at(first.progress());
        for document in &documents[stop..] {
            second.feed(document, &mut rows).unwrap();
        }
        second.finish(&mut rows).unwrap();
        assert_eq!(rows, [json!("b"), json!("c")], "stopped after {stop}");
    }
}

#[test]
fn a_run_counts_what_it_did_and_says_when_it_has_enough() {
    let program = Program::new(
        &parse("SELECT TOP 2 c.id, t FROM c JOIN t IN c.tags").unwrap(),
        &Parameters::new(),
    )
    .unwrap();
    let (context, documents) = (context(), families());
    let mut run = program.start(&context);
    let mut rows = Vec::new();
    assert_eq!(run.feed(&documents[2], &mut rows).unwrap(), Flow::More);
    assert_eq!(run.feed(&documents[0], &mut rows).unwrap(), Flow::Enough);
    assert_eq!(run.counters(), Counters { documents_loaded: 2, documents_matched: 1, rows: 2 });
    assert_eq!(run.feed(&documents[1], &mut rows).unwrap(), Flow::Enough);
    run.finish(&mut rows).unwrap();
    assert_eq!(rows.len(), 2);
}

#[test]
fn a_query_without_from_has_one_row_whatever_the_documents() {
    for documents in [&[][..], &families()[..]] {
        assert_eq!(run("SELECT 1 AS one", documents), [json!({"one": 1})]);
        assert_eq!(run("SELECT VALUE 1 WHERE false", documents), [] as [Value; 0]);
        assert_eq!(run("SELECT VALUE COUNT(1)", documents), [json!(1)]);
    }
}

#[test]
fn conditions_accept_or_reject_one_document() {
    let document = json!({"id": "1", "v": 5, "tags": ["a"]});
    let cases = [
        ("FROM c WHERE c.v > 0", true),
        ("from c where c.v > 9", false),
        ("from c where c.missing > 9", false),
        ("from root r where r.v = 5 and array_contains(r.tags, 'a')", true),
        ("FROM c", true),
        ("FROM t IN c.tags WHERE t = 'b'", false),
        ("FROM c JOIN t IN c.tags WHERE t = 'a'", true),
    ];
    for (text, expected) in cases {
        let condition = Condition::parse(text).expect(text);
        assert_eq!(condition.matches(&document, &context()).unwrap(), expected, "{text}");
    }
    for bad in [
        "SELECT * FROM c",
        "WHERE c.v > 0",
        "FROM c WHERE c.v > 0 ORDER BY c.v",
        "",
        "FROM c WHERE d.x",
    ] {
        assert!(Condition::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_join_product_stops_at_the_step_limit() {
    let document = json!({"a": vec![1; 100]});
    let text =
        "SELECT VALUE 1 FROM c JOIN d IN c.a JOIN e IN c.a JOIN f IN c.a JOIN g IN c.a WHERE false";
    let program = Program::new(&parse(text).unwrap(), &Parameters::new()).unwrap();
    let limits = Limits { max_steps: 10_000, ..Limits::DEFAULT };
    let context = context().with_limits(limits);
    assert_eq!(program.run([&document], &context).unwrap_err(), EvalError::RunTooLong(10_000));
}

#[test]
fn a_query_that_cannot_stream_stops_at_the_row_limit() {
    let documents: Vec<Value> = (0..10).map(|i| json!({"i": i})).collect();
    let limits = Limits { max_buffered_rows: 5, ..Limits::DEFAULT };
    let context = context().with_limits(limits);
    for text in [
        "SELECT * FROM c ORDER BY c.i",
        "SELECT c.i FROM c GROUP BY c.i",
        "SELECT DISTINCT c.i FROM c",
    ] {
        let program = Program::new(&parse(text).unwrap(), &Parameters::new()).unwrap();
        assert_eq!(
            program.run(&documents, &context).unwrap_err(),
            EvalError::TooManyRows(5),
            "{text}"
        );
    }
}

#[test]
fn a_sorted_window_over_many_rows_holds_only_what_it_may_give() {
    let documents: Vec<Value> =
        (0..10_000_u64).map(|i| json!({"i": i, "v": i * 7919 % 1000})).collect();
    let limits = Limits { max_buffered_rows: 2_100, ..Limits::DEFAULT };
    let context = context().with_limits(limits);
    let text = "SELECT VALUE c.i FROM c ORDER BY c.v DESC OFFSET 3 LIMIT 5";
    let program = Program::new(&parse(text).unwrap(), &Parameters::new()).unwrap();
    let rows = program.run(&documents, &context).unwrap();
    let all = run("SELECT VALUE c.i FROM c ORDER BY c.v DESC", &documents);
    assert_eq!(rows, all[3..8]);
}

#[test]
fn programs_and_runs_may_move_between_threads() {
    fn movable<T: Send>() {}
    movable::<Program>();
    movable::<Run<'_>>();
    movable::<Context>();
}
