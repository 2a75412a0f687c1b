//! Table tests: every function with usual, undefined, null, wrong-typed and edge arguments.

use serde_json::{Value, json};

use super::*;
use crate::{Context, Limits, Parameters, Program, parse};

/// 2024-02-29T12:34:56.1234567Z
const NOW: i64 = 17_092_100_961_234_567;

/// The value of an expression; `None` is undefined.
fn value(expression: &str) -> Option<Value> {
    let query = parse(&format!("SELECT VALUE {expression}")).expect(expression);
    let program = Program::new(&query, &Parameters::new()).expect(expression);
    let context = Context::new(NOW, 7);
    program.run([], &context).expect(expression).pop()
}

#[track_caller]
fn table(cases: &[(&str, Value)], undefined: &[&str]) {
    for (expression, expected) in cases {
        assert_eq!(value(expression).as_ref(), Some(expected), "{expression}");
    }
    for expression in undefined {
        assert_eq!(value(expression), None, "{expression}");
    }
}

/// One value of each type, undefined included.
const EACH_TYPE: [&str; 7] = ["undefined", "null", "true", "1", "'a'", "[1]", "{'a': 1}"];

/// Checks that a function is undefined for every type of its argument but the ones it takes.
/// The template has `?` where the argument goes.
#[track_caller]
fn refuses_all_but(taken: &[&str], template: &str) {
    for argument in EACH_TYPE {
        let expression = template.replace('?', argument);
        assert_eq!(value(&expression).is_some(), taken.contains(&argument), "{expression}");
    }
}

#[test]
fn type_checks_answer_for_every_type() {
    let truth: [(&str, [bool; 7]); 9] = [
        ("IS_ARRAY", [false, false, false, false, false, true, false]),
        ("IS_BOOL", [false, false, true, false, false, false, false]),
        ("IS_DEFINED", [false, true, true, true, true, true, true]),
        ("IS_FINITE_NUMBER", [false, false, false, true, false, false, false]),
        ("IS_NULL", [false, true, false, false, false, false, false]),
        ("IS_NUMBER", [false, false, false, true, false, false, false]),
        ("IS_OBJECT", [false, false, false, false, false, false, true]),
        ("IS_PRIMITIVE", [false, true, true, true, true, false, false]),
        ("IS_STRING", [false, false, false, false, true, false, false]),
    ];
    for (name, answers) in truth {
        for (argument, answer) in EACH_TYPE.iter().zip(answers) {
            let expression = format!("{name}({argument})");
            assert_eq!(value(&expression), Some(json!(answer)), "{expression}");
        }
    }
}

#[test]
fn integers_and_dates_are_recognised() {
    for yes in ["0", "-5", "1.0", "1e15", "-9223372036854775808"] {
        assert_eq!(value(&format!("IS_INTEGER({yes})")), Some(json!(true)), "{yes}");
    }
    for no in ["1.5", "1e19", "'1'", "null", "undefined", "[1]", "true"] {
        assert_eq!(value(&format!("IS_INTEGER({no})")), Some(json!(false)), "{no}");
    }
    for yes in ["2024-02-29T23:59:59Z", "0001-01-01T00:00:00.1Z", "2000-01-01T00:00:00.1234567Z"] {
        assert_eq!(value(&format!("IS_DATETIME('{yes}')")), Some(json!(true)), "{yes}");
    }
    for no in [
        "2023-02-29T00:00:00Z",
        "2024-13-01T00:00:00Z",
        "2024-01-01T24:00:00Z",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00.Z",
        "2024-01-01T00:00:00.12345678Z",
        "2024-01-01",
        "é024-01-01T00:00:00Z",
        "",
    ] {
        assert_eq!(value(&format!("IS_DATETIME('{no}')")), Some(json!(false)), "{no}");
    }
    assert_eq!(value("IS_DATETIME(5)"), Some(json!(false)));
    assert_eq!(value("IS_DATETIME(undefined)"), Some(json!(false)));
}

#[test]
fn text_is_searched() {
    table(
        &[
            ("CONTAINS('abc', 'b')", json!(true)),
            ("CONTAINS('abc', 'B')", json!(false)),
            ("CONTAINS('abc', 'B', true)", json!(true)),
            ("CONTAINS('abc', 'B', false)", json!(false)),
            ("CONTAINS('abc', '')", json!(true)),
            ("STARTSWITH('abc', 'ab')", json!(true)),
            ("STARTSWITH('abc', 'AB')", json!(false)),
            ("STARTSWITH('abc', 'AB', true)", json!(true)),
            ("ENDSWITH('abc', 'bc')", json!(true)),
            ("ENDSWITH('abc', 'ab')", json!(false)),
            ("ENDSWITH('abc', 'BC', true)", json!(true)),
            ("StringEquals('abc', 'abc')", json!(true)),
            ("StringEquals('abc', 'aBC')", json!(false)),
            ("StringEquals('abc', 'aBC', true)", json!(true)),
            ("INDEX_OF('abcabc', 'bc')", json!(1)),
            ("INDEX_OF('abcabc', 'bc', 2)", json!(4)),
            ("INDEX_OF('abc', 'x')", json!(-1)),
            ("INDEX_OF('abc', 'a', 99)", json!(-1)),
            ("INDEX_OF('abc', 'a', -5)", json!(0)),
            ("INDEX_OF('日本語', '語')", json!(2)),
            ("INDEX_OF('日本語', '語', 2)", json!(2)),
            ("LASTINDEXOF('abcabc', 'bc')", json!(4)),
            ("LASTINDEXOF('abcabc', 'bc', 3)", json!(1)),
            ("LASTINDEXOF('abcabc', 'bc', 1)", json!(1)),
            ("LASTINDEXOF('日本日本', '日')", json!(2)),
            ("LASTINDEXOF('日本日本', '本', 2)", json!(1)),
            ("LASTINDEXOF('abc', 'x')", json!(-1)),
            ("CONTAINS_ALL_CS('abcd', 'ab', 'd')", json!(true)),
            ("CONTAINS_ALL_CS('abcd', 'ab', 'D')", json!(false)),
            ("CONTAINS_ALL_CI('abcd', 'AB', 'D')", json!(true)),
            ("CONTAINS_ALL_CS('abcd', 'x', undefined)", json!(false)),
            ("CONTAINS_ANY_CS('abcd', 'x', 'd')", json!(true)),
            ("CONTAINS_ANY_CS('abcd', 'x', 'D')", json!(false)),
            ("CONTAINS_ANY_CI('abcd', 'x', 'D')", json!(true)),
            ("CONTAINS_ANY_CI('abcd', 'D', undefined)", json!(true)),
        ],
        &[
            "CONTAINS('abc', 'b', 1)",
            "INDEX_OF('abc', 'a', 'x')",
            "CONTAINS_ALL_CS('abcd', 'a', undefined)",
            "CONTAINS_ANY_CS('abcd', 'x', undefined)",
        ],
    );
    for name in ["CONTAINS", "STARTSWITH", "ENDSWITH", "StringEquals", "INDEX_OF", "LASTINDEXOF"] {
        refuses_all_but(&["'a'"], &format!("{name}(?, 'a')"));
        refuses_all_but(&["'a'"], &format!("{name}('a', ?)"));
    }
    for name in ["CONTAINS_ALL_CS", "CONTAINS_ALL_CI", "CONTAINS_ANY_CS", "CONTAINS_ANY_CI"] {
        refuses_all_but(&["'a'"], &format!("{name}(?, 'a')"));
        refuses_all_but(&["'a'"], &format!("{name}('x', ?)"));
    }
}

#[test]
fn text_is_cut() {
    table(
        &[
            ("LEFT('abc', 2)", json!("ab")),
            ("LEFT('abc', 9)", json!("abc")),
            ("LEFT('abc', 0)", json!("")),
            ("LEFT('abc', -1)", json!("")),
            ("LEFT('🚀b', 1)", json!("🚀")),
            ("RIGHT('abc', 2)", json!("bc")),
            ("RIGHT('abc', 9)", json!("abc")),
            ("RIGHT('abc', -1)", json!("")),
            ("RIGHT('a🚀', 1)", json!("🚀")),
            ("SUBSTRING('abcd', 1, 2)", json!("bc")),
            ("SUBSTRING('abcd', 1, 99)", json!("bcd")),
            ("SUBSTRING('abcd', 9, 1)", json!("")),
            ("SUBSTRING('abcd', -1, 2)", json!("ab")),
            ("SUBSTRING('abcd', 1, -1)", json!("")),
            ("SUBSTRING('日本語', 1, 1)", json!("本")),
            ("TRIM('  a b ')", json!("a b")),
            ("LTRIM('  a ')", json!("a ")),
            ("RTRIM(' a  ')", json!(" a")),
            ("TRIM('xyaxy', 'xy')", json!("a")),
            ("LTRIM('xyaxy', 'yx')", json!("axy")),
            ("RTRIM('xyaxy', 'yx')", json!("xya")),
            ("TRIM('aaa', 'a')", json!("")),
            ("TRIM('-_-Works-_-', '-_')", json!("Works")),
            ("RTRIM('AdventureWorks', 'Works')", json!("Adventure")),
            ("RTRIM('AdventureWorks', 'Adventure')", json!("AdventureWorks")),
            ("RTRIM('AdventureWorks', '')", json!("AdventureWorks")),
            ("TRIM(UPPER(' a '))", json!("A")),
        ],
        &["LEFT('a', 'b')", "TRIM('a', 1)", "SUBSTRING('a', 0, null)", "SUBSTRING('a', null, 1)"],
    );
    for name in ["TRIM", "LTRIM", "RTRIM"] {
        refuses_all_but(&["'a'"], &format!("{name}(?)"));
    }
    refuses_all_but(&["'a'"], "LEFT(?, 1)");
    refuses_all_but(&["1"], "LEFT('a', ?)");
    refuses_all_but(&["'a'"], "RIGHT(?, 1)");
    refuses_all_but(&["1"], "RIGHT('a', ?)");
    refuses_all_but(&["'a'"], "SUBSTRING(?, 0, 1)");
}

#[test]
fn text_is_made() {
    table(
        &[
            ("CONCAT('a', 'b', 'c')", json!("abc")),
            ("CONCAT('', '')", json!("")),
            ("LENGTH('')", json!(0)),
            ("LENGTH('日🚀')", json!(2)),
            ("LOWER('ÀB')", json!("àb")),
            ("UPPER('àb')", json!("ÀB")),
            ("REVERSE('a🚀b')", json!("b🚀a")),
            ("REPLACE('aXbX', 'X', 'yy')", json!("ayybyy")),
            ("REPLACE('abc', '', 'x')", json!("abc")),
            ("REPLACE('abc', 'z', 'x')", json!("abc")),
            ("REPLICATE('ab', 3)", json!("ababab")),
            ("REPLICATE('ab', 0)", json!("")),
            ("REPLICATE('', 99999999)", json!("")),
            ("LENGTH(REPLICATE('a', 10000))", json!(10000)),
            ("StringJoin(['a', 'b'], '-')", json!("a-b")),
            ("StringJoin([], '-')", json!("")),
            ("StringSplit('a-b-', '-')", json!(["a", "b", ""])),
            ("StringSplit('abc', '')", json!(["abc"])),
            ("StringSplit('', ',')", json!([""])),
        ],
        &[
            "CONCAT('a', 1)",
            "CONCAT('a', undefined)",
            "REPLICATE('ab', -1)",
            "REPLICATE('a', 10001)",
            "REPLICATE('a', 1e300)",
            "REPLICATE('a', 'b')",
            "StringJoin(['a', 1], '-')",
            "REPLACE('a', 'b', 1)",
        ],
    );
    for name in ["LENGTH", "LOWER", "UPPER", "REVERSE"] {
        refuses_all_but(&["'a'"], &format!("{name}(?)"));
    }
    refuses_all_but(&["'a'"], "CONCAT(?, 'b')");
    refuses_all_but(&["'a'"], "REPLACE(?, 'a', 'b')");
    refuses_all_but(&["'a'"], "REPLICATE(?, 1)");
    refuses_all_but(&["'a'"], "StringSplit(?, 'b')");
    refuses_all_but(&["'a'"], "StringSplit('b', ?)");
    refuses_all_but(&["'a'"], "StringJoin(['b'], ?)");
}

#[test]
fn text_is_matched_by_regular_expressions() {
    table(
        &[
            ("RegexMatch('abcd', 'B')", json!(false)),
            ("RegexMatch('abcd', 'B', 'i')", json!(true)),
            ("RegexMatch('abcd', '^a.*d$')", json!(true)),
            ("RegexMatch('a\\nb', '^b', 'm')", json!(true)),
            ("RegexMatch('a\\nb', 'a.b', 's')", json!(true)),
            ("RegexMatch('ab', 'a b', 'x')", json!(true)),
            ("RegexMatch('ab', LOWER('B'))", json!(true)),
            ("RegexMatch('aB', 'b', LOWER('I'))", json!(true)),
        ],
        &[
            "RegexMatch('a', 1)",
            "RegexMatch('a', undefined)",
            "RegexMatch('a', 'a', 1)",
            "RegexMatch('a', LOWER('('))",
            "RegexMatch('a', LOWER('a'), 'q')",
        ],
    );
    refuses_all_but(&["'a'"], "RegexMatch(?, 'a')");
    let query = parse("SELECT VALUE RegexMatch('a', '(')").unwrap();
    let error = Program::new(&query, &Parameters::new()).unwrap_err();
    assert_eq!(error, CompileError::BadRegex("(".to_owned()));
}

#[test]
fn text_is_converted() {
    table(
        &[
            ("StringToArray('[1, \"a\"] ')", json!([1, "a"])),
            ("StringToBoolean(' true')", json!(true)),
            ("StringToBoolean('false')", json!(false)),
            ("StringToNull('null ')", json!(null)),
            ("StringToNumber('1.50')", json!(1.5)),
            ("StringToNumber(' -7 ')", json!(-7)),
            ("StringToNumber('9007199254740993')", json!(9_007_199_254_740_993_u64)),
            ("StringToObject('{\"a\":[]}')", json!({"a": []})),
            ("ToString('a')", json!("a")),
            ("ToString(1.0)", json!("1")),
            ("ToString(1.25)", json!("1.25")),
            ("ToString(-3)", json!("-3")),
            ("ToString(true)", json!("true")),
            ("ToString(null)", json!("null")),
            ("ToString([1, 'a'])", json!("[1,\"a\"]")),
            ("ToString({a: {b: null}})", json!("{\"a\":{\"b\":null}}")),
        ],
        &[
            "StringToArray('{}')",
            "StringToArray('[1')",
            "StringToBoolean('True')",
            "StringToBoolean('1')",
            "StringToNull('')",
            "StringToNumber('1e999')",
            "StringToNumber('NaN')",
            "StringToNumber('0x1')",
            "StringToObject('[]')",
            "StringToObject('{\\'a\\': 1}')",
            "ToString(undefined)",
        ],
    );
    for name in ["Array", "Boolean", "Null", "Number", "Object"] {
        refuses_all_but(&[], &format!("StringTo{name}(?)"));
    }
}

#[test]
fn only_true_chooses_the_first() {
    table(
        &[
            ("IIF(true, 1, 2)", json!(1)),
            ("IIF(false, 1, 2)", json!(2)),
            ("IIF(null, 1, 2)", json!(2)),
            ("IIF(1, 1, 2)", json!(2)),
            ("IIF('true', 1, 2)", json!(2)),
            ("IIF(undefined, 1, 2)", json!(2)),
        ],
        &["IIF(true, undefined, 2)", "IIF(false, 1, undefined)"],
    );
}

#[test]
fn arrays_are_searched() {
    table(
        &[
            ("ARRAY_CONTAINS([1, 'a'], 'a')", json!(true)),
            ("ARRAY_CONTAINS([1], 1.0)", json!(true)),
            ("ARRAY_CONTAINS([1], '1')", json!(false)),
            ("ARRAY_CONTAINS([], 1)", json!(false)),
            ("ARRAY_CONTAINS([null], null)", json!(true)),
            ("ARRAY_CONTAINS([[1, 2]], [1, 2])", json!(true)),
            ("ARRAY_CONTAINS([{a: 1, b: 2}], {a: 1})", json!(false)),
            ("ARRAY_CONTAINS([{a: 1, b: 2}], {b: 2, a: 1})", json!(true)),
            ("ARRAY_CONTAINS([{a: 1, b: 2}], {a: 1}, true)", json!(true)),
            ("ARRAY_CONTAINS([{a: {b: 1, c: 2}}], {a: {b: 1}}, true)", json!(true)),
            ("ARRAY_CONTAINS([{a: 1}], {a: 2}, true)", json!(false)),
            ("ARRAY_CONTAINS([1], 1, true)", json!(true)),
            ("ARRAY_CONTAINS_ANY([1, true, '3', [1]], 9, [1])", json!(true)),
            ("ARRAY_CONTAINS_ANY([1, 2], 1, undefined)", json!(true)),
            ("ARRAY_CONTAINS_ANY([1, 2], 5, 6)", json!(false)),
            ("ARRAY_CONTAINS_ANY([], 1)", json!(false)),
            ("ARRAY_CONTAINS_ALL([1, 2], 2, 1)", json!(true)),
            ("ARRAY_CONTAINS_ALL([1, 2], 2, 3)", json!(false)),
            ("ARRAY_CONTAINS_ALL([1, 2], 5, undefined)", json!(false)),
        ],
        &[
            "ARRAY_CONTAINS([1], undefined)",
            "ARRAY_CONTAINS([1], 1, 'x')",
            "ARRAY_CONTAINS_ANY([1, 2], 5, undefined)",
            "ARRAY_CONTAINS_ALL([1, 2], 1, undefined)",
        ],
    );
    for name in ["ARRAY_CONTAINS", "ARRAY_CONTAINS_ANY", "ARRAY_CONTAINS_ALL"] {
        refuses_all_but(&["[1]"], &format!("{name}(?, 1)"));
    }
}

#[test]
fn arrays_are_cut_and_joined() {
    table(
        &[
            ("ARRAY_LENGTH([])", json!(0)),
            ("ARRAY_LENGTH([1, undefined, 2])", json!(2)),
            ("ARRAY_CONCAT([1], [], ['a', [2]])", json!([1, "a", [2]])),
            ("ARRAY_SLICE([1, 2, 3], 1)", json!([2, 3])),
            ("ARRAY_SLICE([1, 2, 3], 1, 1)", json!([2])),
            ("ARRAY_SLICE([1, 2, 3], -2, 1)", json!([2])),
            ("ARRAY_SLICE([1, 2, 3], -9)", json!([1, 2, 3])),
            ("ARRAY_SLICE([1, 2, 3], 9)", json!([])),
            ("ARRAY_SLICE([1, 2, 3], 0, -1)", json!([])),
            ("ARRAY_SLICE([1, 2, 3], 0, 1e300)", json!([1, 2, 3])),
            ("CHOOSE(1, 'a', 'b')", json!("a")),
            ("CHOOSE(2, 'a', 'b')", json!("b")),
            ("ObjectToArray({a: 1, b: 'x'})", json!([{"k": "a", "v": 1}, {"k": "b", "v": "x"}])),
            ("ObjectToArray({a: 1}, 'n', 'm')", json!([{"n": "a", "m": 1}])),
            ("ObjectToArray({})", json!([])),
        ],
        &[
            "ARRAY_CONCAT([1], 2)",
            "ARRAY_CONCAT([1], undefined)",
            "ARRAY_SLICE([1], 'x')",
            "ARRAY_SLICE([1], 0, null)",
            "CHOOSE(0, 'a')",
            "CHOOSE(2, 'a')",
            "CHOOSE(1.5, 'a', 'b')",
            "CHOOSE('1', 'a')",
            "CHOOSE(1, undefined)",
            "ObjectToArray({}, 1)",
        ],
    );
    refuses_all_but(&["[1]"], "ARRAY_LENGTH(?)");
    refuses_all_but(&["[1]"], "ARRAY_CONCAT(?, [1])");
    refuses_all_but(&["[1]"], "ARRAY_SLICE(?, 0)");
    refuses_all_but(&["{'a': 1}"], "ObjectToArray(?)");
    refuses_all_but(&["1"], "CHOOSE(?, 1)");
}

#[test]
fn arrays_are_summed_up() {
    table(
        &[
            ("ARRAY_SUM([1, 2.5])", json!(3.5)),
            ("ARRAY_SUM([])", json!(0)),
            ("ARRAY_AVG([1, 2])", json!(1.5)),
            ("ARRAY_MEDIAN([4, 1, 3, 2])", json!(2.5)),
            ("ARRAY_MEDIAN([7.8, 1, 3.3])", json!(3.3)),
            ("ARRAY_MEDIAN([1, -2.7, 3, -4, undefined])", json!(-0.850_000_000_000_000_1)),
            ("ARRAY_MIN([3, 1, 2])", json!(1)),
            ("ARRAY_MAX([3, 1, 2])", json!(3)),
            ("ARRAY_MIN(['b', 1, true, null])", json!(null)),
            ("ARRAY_MAX([null, 'b', 1, true])", json!("b")),
        ],
        &[
            "ARRAY_SUM([1, 'a'])",
            "ARRAY_SUM([null])",
            "ARRAY_AVG([])",
            "ARRAY_AVG([1, null])",
            "ARRAY_MEDIAN([])",
            "ARRAY_MEDIAN(['a'])",
            "ARRAY_MIN([])",
            "ARRAY_MAX([[1], 2])",
        ],
    );
    for name in ["SUM", "AVG", "MEDIAN", "MIN", "MAX"] {
        refuses_all_but(&["[1]"], &format!("ARRAY_{name}(?)"));
    }
}

#[test]
fn arrays_are_sets() {
    table(
        &[
            ("SetUnion([1, 2, 1], [2.0, 'a'])", json!([1, 2, "a"])),
            ("SetIntersect([3, 1, 2, 1], [1, 3])", json!([3, 1])),
            ("SetDifference([3, 1, 2, 1], [3])", json!([1, 2])),
            ("SetEqual([1, 2, 2], [2, 1])", json!(true)),
            ("SetEqual([1], [1, 2])", json!(false)),
            ("SetEqual([], [])", json!(true)),
            ("SetEqual([{a: 1, b: 2}], [{b: 2, a: 1}])", json!(true)),
            ("SetIntersect([], [1])", json!([])),
        ],
        &[],
    );
    for name in ["SetUnion", "SetIntersect", "SetDifference", "SetEqual"] {
        refuses_all_but(&["[1]"], &format!("{name}(?, [1])"));
        refuses_all_but(&["[1]"], &format!("{name}([1], ?)"));
    }
}

#[test]
fn numbers_are_computed() {
    table(
        &[
            ("ABS(-1.5)", json!(1.5)),
            ("ACOS(-1)", json!(std::f64::consts::PI)),
            ("ASIN(0)", json!(0)),
            ("ATAN(0)", json!(0)),
            ("ATN2(1, 1)", json!(std::f64::consts::FRAC_PI_4)),
            ("CEILING(-1.5)", json!(-1)),
            ("COS(0)", json!(1)),
            ("COT(1)", json!(1.0 / 1_f64.tan())),
            ("DEGREES(PI())", json!(180)),
            ("EXP(0)", json!(1)),
            ("FLOOR(-1.5)", json!(-2)),
            ("LOG(1)", json!(0)),
            ("LOG(8, 2)", json!(3)),
            ("LOG10(1000)", json!(3)),
            ("NumberBin(37.752, -100)", json!(100)),
            ("NumberBin(37.752, 10)", json!(30)),
            ("NumberBin(37.752)", json!(37)),
            ("NumberBin(37.752, 0.01)", json!(37.75)),
            ("PI()", json!(std::f64::consts::PI)),
            ("POWER(2, 10)", json!(1024)),
            ("POWER(4, 0.5)", json!(2)),
            ("RADIANS(180)", json!(std::f64::consts::PI)),
            ("ROUND(2.5)", json!(3)),
            ("ROUND(-2.5)", json!(-3)),
            ("SIGN(-9)", json!(-1)),
            ("SIGN(0)", json!(0)),
            ("SIGN(0.1)", json!(1)),
            ("SIN(0)", json!(0)),
            ("SQRT(9)", json!(3)),
            ("SQUARE(-3)", json!(9)),
            ("TAN(0)", json!(0)),
            ("TRUNC(-2.9)", json!(-2)),
            ("FLOOR(1e300)", json!(1e300)),
        ],
        &[
            "ACOS(2)",
            "ASIN(-2)",
            "COT(0)",
            "EXP(1e9)",
            "LOG(-1)",
            "LOG(0)",
            "LOG(8, 1)",
            "LOG(8, 'x')",
            "NumberBin(1, 0)",
            "NumberBin(1, null)",
            "POWER(-1, 0.5)",
            "POWER(1, undefined)",
            "SQRT(-1)",
            "SQUARE(1e200)",
        ],
    );
    for name in [
        "ABS",
        "ACOS",
        "ASIN",
        "ATAN",
        "CEILING",
        "COS",
        "COT",
        "DEGREES",
        "EXP",
        "FLOOR",
        "LOG",
        "LOG10",
        "NumberBin",
        "RADIANS",
        "ROUND",
        "SIGN",
        "SIN",
        "SQRT",
        "SQUARE",
        "TAN",
        "TRUNC",
    ] {
        refuses_all_but(&["1"], &format!("{name}(?)"));
    }
    for name in ["ATN2", "POWER", "NumberBin"] {
        refuses_all_but(&["1"], &format!("{name}(?, 1)"));
        refuses_all_but(&["1"], &format!("{name}(1, ?)"));
    }
    let random = value("RAND()").and_then(|v| v.as_f64()).unwrap();
    assert!((0.0..1.0).contains(&random));
    assert_eq!(value("RAND()"), value("RAND()"), "one seed, one sequence");
    assert_eq!(value("RAND() = RAND()"), Some(json!(false)));
}

#[test]
fn the_time_is_the_contexts() {
    for suffix in ["", "Static"] {
        table(
            &[
                (&format!("GetCurrentDateTime{suffix}()"), json!("2024-02-29T12:34:56.1234567Z")),
                // Ticks of our time are beyond 2^53, so the nearest double is given.
                (&format!("GetCurrentTicks{suffix}()"), json!(17_092_100_961_234_568_i64)),
                (&format!("GetCurrentTimestamp{suffix}()"), json!(1_709_210_096_123_i64)),
            ],
            &[],
        );
    }
    assert_eq!(value("NOW()"), value("GetCurrentDateTime()"));
}

#[test]
fn dates_and_times_are_moved_cut_and_taken_apart() {
    table(
        &[
            (
                "DateTimeAdd('yyyy', 1, '2020-07-03T00:00:00.0000000')",
                json!("2021-07-03T00:00:00.0000000Z"),
            ),
            (
                "DateTimeAdd('mm', -1, '2020-07-31T00:00:00Z')",
                json!("2020-06-30T00:00:00.0000000Z"),
            ),
            (
                "DateTimeAdd('ss', 5 * -5, '2020-07-03T00:00:00Z')",
                json!("2020-07-02T23:59:35.0000000Z"),
            ),
            (
                "DateTimeAdd('ns', 250, '2020-07-03T00:00:00Z')",
                json!("2020-07-03T00:00:00.0000002Z"),
            ),
            ("Ago('yyyy', 1)", json!("2023-02-28T12:34:56.1234567Z")),
            ("Ago('ss', 30)", json!("2024-02-29T12:34:26.1234567Z")),
            ("DateTimeBin('2021-01-08T18:35:00Z', 'dd')", json!("2021-01-08T00:00:00.0000000Z")),
            ("DateTimeBin('2021-01-08T18:35:00Z', 'hh', 5)", json!("2021-01-08T15:00:00.0000000Z")),
            (
                "DateTimeBin('2021-01-08T18:35:00Z', 'hh', 5, '2021-01-08T18:00:00Z')",
                json!("2021-01-08T18:00:00.0000000Z"),
            ),
            ("DateTimeDiff('yyyy', '2019-02-04T16:00:00', '2018-03-05T05:00:00')", json!(-1)),
            ("DateTimeDiff('mm', '2018-03-05T05:00:00', '2019-02-04T16:00:00')", json!(11)),
            ("DateTimeDiff('dd', '2018-03-05T05:00:00', '2019-02-04T16:00:00')", json!(336)),
            ("DateTimeDiff('hh', '2018-03-05T05:59:59', '2018-03-05T06:00:00')", json!(1)),
            ("DateTimeFormat('2024-10-10 14:40:20', 'yyyyMMdd')", json!("20241010")),
            ("DateTimeFromParts(2020, 9, 4)", json!("2020-09-04T00:00:00.0000000Z")),
            (
                "DateTimeFromParts(2020, 9, 4, 10, 52, 12, 3456789)",
                json!("2020-09-04T10:52:12.3456789Z"),
            ),
            ("DateTimePart('mcs', '2016-05-29T08:30:00.1301617')", json!(130_161)),
            ("DateTimePart('ns', '2016-05-29T08:30:00.1301617')", json!(130_161_700)),
            ("DateTimePart('hh', '2016-05-29T08:30:00.1301617')", json!(8)),
            ("DateTimeToTicks('1970-01-02T00:00:00Z')", json!(864_000_000_000_i64)),
            ("DateTimeToTimestamp('1970-01-02T00:00:00.0015Z')", json!(86_400_001)),
            ("TicksToDateTime(864000000000)", json!("1970-01-02T00:00:00.0000000Z")),
            ("TimestampToDateTime(86400001)", json!("1970-01-02T00:00:00.0010000Z")),
            ("[Year('2024-02-29'), Month('2024-02-29'), Day('2024-02-29')]", json!([2024, 2, 29])),
        ],
        &[
            "DateTimeAdd('week', 1, '2020-07-03T00:00:00Z')",
            "DateTimeAdd('day', 1.5, '2020-07-03T00:00:00Z')",
            "DateTimeAdd('day', 1, 'yesterday')",
            "DateTimeAdd('yyyy', 9000, '2020-07-03T00:00:00Z')",
            "DateTimeAdd('dd', 9e17, '2020-07-03T00:00:00Z')",
            "DateTimeBin('2021-01-08T18:35:00Z', 'mm')",
            "DateTimeBin('2021-01-08T18:35:00Z', 'dd', 0)",
            "DateTimeBin('2021-01-08T18:35:00Z', 'dd', 1, '1600-01-01')",
            "DateTimeFromParts(2020, 2, 30)",
            "DateTimeFromParts(-1, 2, 3)",
            "DateTimeFromParts(2020, 1, 1, 8e18)",
            "DateTimeFromParts(8e18, 1, 1)",
            "DateTimeDiff('ns', '0001-01-01', '9999-12-31')",
            "TicksToDateTime('1')",
            "TimestampToDateTime(1e18)",
            "Year(2024)",
        ],
    );
}

#[test]
fn integers_have_64_bits_and_wrap_around() {
    table(
        &[
            ("IntAdd(20, -7)", json!(13)),
            ("IntSub(1, 3)", json!(-2)),
            ("IntMul(6, 7)", json!(42)),
            ("IntDiv(-7, 2)", json!(-3)),
            ("IntMod(-7, 2)", json!(-1)),
            ("IntBitAnd(15, 25)", json!(9)),
            ("IntBitOr(56, 100)", json!(124)),
            ("IntBitXor(56, 100)", json!(92)),
            ("IntBitNot(65535)", json!(-65_536)),
            ("IntBitLeftShift(16, 4)", json!(256)),
            ("IntBitRightShift(-16, 4)", json!(-1)),
            ("IntMul(4611686018427387904, 4)", json!(0)),
            ("IntBitLeftShift(1, 64)", json!(1)),
        ],
        &["IntDiv(1, 0)", "IntMod(1, 0)", "IntAdd(1.5, 1)", "IntAdd('1', 1)", "IntMul(1e19, 1)"],
    );
}

#[test]
fn geometries_are_measured_and_compared() {
    const SQUARE: &str =
        "{'type': 'Polygon', 'coordinates': [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]]}";
    const HOLED: &str = "{'type': 'Polygon', 'coordinates': [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]], \
                         [[3, 3], [3, 6], [6, 6], [6, 3], [3, 3]]]}";
    let point = |x: f64, y: f64| format!("{{'type': 'Point', 'coordinates': [{x}, {y}]}}");
    let truth = |name: &str, left: &str, right: &str| value(&format!("{name}({left}, {right})"));
    assert_eq!(truth("ST_WITHIN", &point(1.0, 1.0), SQUARE), Some(json!(true)));
    assert_eq!(truth("ST_WITHIN", &point(3.0, 1.0), SQUARE), Some(json!(false)));
    assert_eq!(truth("ST_WITHIN", &point(4.0, 4.0), HOLED), Some(json!(false)), "in the hole");
    assert_eq!(truth("ST_WITHIN", SQUARE, HOLED), Some(json!(true)));
    assert_eq!(truth("ST_WITHIN", HOLED, SQUARE), Some(json!(false)));
    assert_eq!(truth("ST_INTERSECTS", SQUARE, HOLED), Some(json!(true)));
    assert_eq!(
        truth("ST_INTERSECTS", &point(2.0, 1.0), SQUARE),
        Some(json!(true)),
        "on the border"
    );
    // Its first polygon is far away, its second inside the square: no borders cross.
    let apart = "{type: 'MultiPolygon', coordinates: [[[[50, 50], [51, 50], [51, 51], [50, 50]]], \
                 [[[1, 1], [1.5, 1], [1.5, 1.5], [1, 1]]]]}";
    assert_eq!(truth("ST_INTERSECTS", apart, SQUARE), Some(json!(true)));
    assert_eq!(truth("ST_INTERSECTS", SQUARE, apart), Some(json!(true)));
    assert_eq!(truth("ST_DISTANCE", apart, SQUARE), Some(json!(0)));
    assert_eq!(truth("ST_DISTANCE", &point(1.0, 1.0), SQUARE), Some(json!(0)));

    // A degree of the meridian at the equator, on WGS 84.
    let north = value(&format!("ST_DISTANCE({}, {})", point(0.0, 0.0), point(0.0, 1.0)));
    assert!((north.unwrap().as_f64().unwrap() - 110_574.388_6).abs() < 0.001);
    let line = "{'type': 'LineString', 'coordinates': [[0, -5], [0, 5]]}";
    let east = value(&format!("ST_DISTANCE({}, {line})", point(1.0, 0.0)));
    assert!((east.unwrap().as_f64().unwrap() - 111_319.490_8).abs() < 0.001);
    let area = value(&format!("ST_AREA({SQUARE})")).unwrap().as_f64().unwrap();
    assert!((area / 49_231_000_000.0 - 1.0).abs() < 0.01, "{area}");
    assert_eq!(value(&format!("ST_AREA({})", point(0.0, 0.0))), Some(json!(0)));
}

#[test]
fn a_geometry_that_is_not_valid_says_why() {
    table(
        &[
            ("ST_ISVALID({'type': 'Point', 'coordinates': [-84.4, 33.7]})", json!(true)),
            ("ST_ISVALID({'type': 'Point', 'coordinates': [133.7, -184.4]})", json!(false)),
            ("ST_ISVALID('Point')", json!(false)),
            (
                "ST_ISVALIDDETAILED({'type': 'Point', 'coordinates': [-84.4, 33.7]})",
                json!({"valid": true}),
            ),
            (
                "ST_ISVALIDDETAILED({'type': 'Point', 'coordinates': [133.7, -184.4]})",
                json!({"valid": false, "reason": "Latitude values must be between -90 and 90 degrees."}),
            ),
        ],
        &[
            "ST_ISVALID(undefined)",
            "ST_DISTANCE({'type': 'Point', 'coordinates': [0, 91]}, {'type': 'Point', 'coordinates': [0, 0]})",
            "ST_WITHIN(1, 2)",
        ],
    );
    let open = "{'type': 'Polygon', 'coordinates': [[[0, 0], [1, 0], [1, 1], [0, 1]]]}";
    let verdict = value(&format!("ST_ISVALIDDETAILED({open})")).unwrap();
    assert!(verdict["reason"].as_str().unwrap().contains("ring number 1"), "{verdict}");
}

#[test]
fn an_item_has_a_number_within_its_partition() {
    let rid = sidereal_protocol::Rid::database(1).container(2).unwrap().document(7).unwrap();
    let document = json!({"_rid": rid.to_string()});
    let query = parse("SELECT VALUE DOCUMENTID(c) FROM c").unwrap();
    let program = Program::new(&query, &Parameters::new()).unwrap();
    let context = Context::new(NOW, 7);
    assert_eq!(program.run([&document], &context).unwrap(), [json!(7)]);
    assert!(program.run([&json!({})], &context).unwrap().is_empty());
}

fn error(expression: &str) -> CompileError {
    let query = parse(&format!("SELECT VALUE {expression}")).unwrap();
    Program::new(&query, &Parameters::new()).unwrap_err()
}

#[test]
fn every_function_checks_how_many_arguments_it_gets() {
    for function in TABLE {
        for count in [function.least.checked_sub(1), function.most.checked_add(1)] {
            let Some(count) = count else { continue };
            let arguments = vec!["1"; count].join(", ");
            let error = error(&format!("{}({arguments})", function.name));
            assert!(matches!(error, CompileError::ArgumentCount { given, .. } if given == count));
        }
    }
}

#[test]
fn a_function_that_is_not_there_is_named_in_the_error() {
    assert_eq!(error("Foo(1)"), CompileError::UnknownFunction("Foo".to_owned()));
    assert_eq!(
        error("VectorDistance([1], [2])"),
        CompileError::UnavailableFunction("VectorDistance".to_owned())
    );
    assert_eq!(error("udf.tax(1)"), CompileError::UserDefinedFunction("tax".to_owned()));
    assert!(error("udf.tax(1)").to_string().contains("udf.tax"));
    assert!(TABLE.iter().all(|function| !KNOWN_ELSEWHERE.contains(&function.name)));
}

#[test]
fn no_function_builds_more_than_it_may() {
    let limits = Limits { max_value_size: 1000, ..Limits::DEFAULT };
    let context = Context::new(NOW, 0).with_limits(limits);
    let document = json!({
        "text": "x".repeat(600),
        "list": vec!["x"; 60],
        "texts": ["y".repeat(300), "y".repeat(300)],
        "object": {"a": "y".repeat(300)},
        "long": ["a".repeat(600), "b".repeat(600)],
    });
    for (expression, function) in [
        ("c.text || c.text", "||"),
        ("CONCAT(c.text, c.text)", "CONCAT"),
        ("REPLACE(c.text, 'x', 'yyy')", "REPLACE"),
        ("REPLICATE(c.text, 2)", "REPLICATE"),
        ("StringJoin(c.list, c.text)", "StringJoin"),
        ("StringSplit(c.text, 'x')", "StringSplit"),
        ("ARRAY_CONCAT(c.list, c.list)", "ARRAY_CONCAT"),
        ("SetUnion(c.list, c.list)", "SetUnion"),
        ("ToString([c.texts, c.texts])", "an array"),
        ("StringToArray(c.text)", "StringToArray"),
        ("ObjectToArray(c.object, c.text, c.text)", "ObjectToArray"),
        ("{a: c.text, b: c.text}", "an object"),
        ("[c.text, c.text]", "an array"),
        ("ARRAY(SELECT VALUE c.text FROM x IN c.list)", "an array"),
        ("(SELECT VALUE MAKELIST(c.text) FROM x IN c.list)", "an aggregate"),
        ("(SELECT VALUE MAKESET(t) FROM t IN c.long)", "an aggregate"),
    ] {
        let query = parse(&format!("SELECT VALUE {expression} FROM c")).unwrap();
        let program = Program::new(&query, &Parameters::new()).unwrap();
        let error = program.run([&document], &context).unwrap_err();
        let limit = limits.max_value_size;
        assert_eq!(error, EvalError::ValueTooLarge { function, limit }, "{expression}");
    }
}
