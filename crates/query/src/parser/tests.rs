//! The texts that the parser accepts, how it groups operators, and its errors.

use serde_json::json;

use super::*;
use crate::tree::{BinaryOp, UnaryOp};

/// The expression with every operation in parentheses.
fn grouped(text: &str) -> String {
    fn show(expression: &Expr) -> String {
        match expression {
            Expr::Binary(op, left, right) => {
                format!("({} {} {})", show(left), op.symbol(), show(right))
            }
            Expr::And(terms) => {
                format!("({})", terms.iter().map(show).collect::<Vec<_>>().join(" AND "))
            }
            Expr::Or(terms) => {
                format!("({})", terms.iter().map(show).collect::<Vec<_>>().join(" OR "))
            }
            Expr::Unary(UnaryOp::Not, inner) => format!("(NOT {})", show(inner)),
            Expr::Unary(UnaryOp::Minus, inner) => format!("(-{})", show(inner)),
            Expr::Conditional(o) => {
                format!("({} ? {} : {})", show(&o[0]), show(&o[1]), show(&o[2]))
            }
            Expr::Between { operands: o, .. } => {
                format!("({} BETWEEN {} AND {})", show(&o[0]), show(&o[1]), show(&o[2]))
            }
            Expr::In { value, .. } => format!("({} IN …)", show(value)),
            Expr::Like { operands: o, .. } => format!("({} LIKE {})", show(&o[0]), show(&o[1])),
            other => other.to_string(),
        }
    }
    let query = parse(&format!("SELECT VALUE {text}")).expect(text);
    match &query.select.projection {
        Projection::Value(expression) => show(expression),
        _ => unreachable!(),
    }
}

#[test]
fn operators_bind_in_the_documented_order() {
    let cases = [
        ("a OR b AND c", "(a OR (b AND c))"),
        ("a AND b AND c", "(a AND b AND c)"),
        ("a AND (b AND c)", "(a AND (b AND c))"),
        ("NOT a AND b", "((NOT a) AND b)"),
        ("NOT a = b", "((NOT a) = b)"),
        ("a = b AND c < d", "((a = b) AND (c < d))"),
        ("a < b = c", "((a < b) = c)"),
        ("a + b * c - d", "((a + (b * c)) - d)"),
        ("a << b + c", "(a << (b + c))"),
        ("a & b = c", "(a & (b = c))"),
        ("a | b ^ c & d", "(a | (b ^ (c & d)))"),
        ("a || b | c", "(a || (b | c))"),
        ("a - b - c", "((a - b) - c)"),
        ("-a * b", "((-a) * b)"),
        ("-a.b[0]", "(-a.b[0])"),
        ("a ?? b ?? c", "((a ?? b) ?? c)"),
        ("a ?? b OR c", "(a ?? (b OR c))"),
        ("a ? b : c ? d : e", "(a ? b : (c ? d : e))"),
        ("a ?? b ? c : d", "((a ?? b) ? c : d)"),
        ("a + 1 BETWEEN b AND c AND d", "(((a + 1) BETWEEN b AND c) AND d)"),
        ("a + 1 IN (1) OR b", "(((a + 1) IN …) OR b)"),
        ("a LIKE b || c AND d", "((a LIKE (b || c)) AND d)"),
    ];
    for (text, expected) in cases {
        assert_eq!(grouped(text), expected, "{text}");
    }
}

#[test]
fn the_whole_language_is_read() {
    for text in [
        "SELECT * FROM c",
        "select value c from c",
        "SELECT TOP @n DISTINCT c.x FROM c",
        "SELECT DISTINCT TOP 5 c.x AS y, c['a b'] z, 1, 'two', {a: 1, \"b\": [c.x, {}]} FROM c AS d",
        "SELECT VALUE c['value'] FROM c WHERE c['order'] = c['top']['limit'] AND c['select'][0] != null",
        "SELECT VALUE x FROM x IN c.list.of[\"things\"][3]",
        "SELECT 1 FROM c JOIN a IN c.a JOIN (SELECT VALUE b FROM b IN c.b) AS b JOIN (SELECT 1)",
        "SELECT 1 FROM (SELECT * FROM c) WHERE EXISTS(SELECT VALUE 1) AND ARRAY(SELECT VALUE 1) = [1]",
        "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a, LOWER(c.b)",
        "SELECT * FROM c ORDER BY c.a, c.b DESC, c.c ASC OFFSET 5 LIMIT @l",
        "SELECT TOP 10 * FROM c ORDER BY RANK RRF(FullTextScore(c.t, 'a'), VectorDistance(c.v, [1, 2]))",
        "SELECT udf.tax(c.x), udf.value(1) FROM c -- comment\n /* another \n one */ WHERE true",
        "SELECT VALUE .5 + 1e3 + 1.5E-2 + 0",
        "SELECT VALUE -1 - -1 - +1 + ~1",
        "SELECT VALUE é.ñ FROM é",
        "SELECT * FROM c WHERE c.x NOT IN (1, 2) AND c.y NOT LIKE '%' ESCAPE '\\\\' AND c.z NOT BETWEEN 1 AND 2",
        "SELECT c._rid, [{\"item\": c.v}] AS orderByItems, c AS payload\nFROM c\nWHERE ({documentdb-formattableorderbyquery-filter})\nORDER BY c.v ASC",
    ] {
        if text.contains("TOP @n DISTINCT") {
            assert!(parse(text).is_err());
            continue;
        }
        let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parse(&query.to_string()).as_ref(), Ok(&query), "{query}");
    }
}

#[test]
fn strings_have_both_quotes_and_all_escapes() {
    let text = r#"SELECT VALUE ['it"s', "it's", '\'', "\"", "\\\/\b\f\n\r\t", "\u00e9\ud83d\ude80\ud83dx"]"#;
    let query = parse(text).unwrap();
    let program = crate::Program::new(&query, &crate::Parameters::new()).unwrap();
    let rows = program.run([], &crate::Context::new(0, 0)).unwrap();
    assert_eq!(rows, [json!(["it\"s", "it's", "'", "\"", "\\/\u{8}\u{c}\n\r\t", "é🚀\u{FFFD}x"])]);
}

#[test]
fn errors_point_at_the_place_and_say_what_was_expected() {
    let cases = [
        ("", 0, 0, "SELECT"),
        ("SELEC * FROM c", 0, 5, "SELECT"),
        ("SELECT", 6, 6, "an expression"),
        ("SELECT * FROM", 13, 13, "a container, a path or a sub-query"),
        ("SELECT * FROM c WHERE", 21, 21, "an expression"),
        ("SELECT * FROM c c2 x", 19, 20, "the end of the query"),
        ("SELECT , FROM c", 7, 8, "an expression"),
        ("SELECT * FROM c ORDER c.x", 22, 23, "BY"),
        ("SELECT * FROM c OFFSET 5", 24, 24, "LIMIT"),
        ("SELECT TOP x * FROM c", 11, 12, "a number of rows or a parameter"),
        ("SELECT TOP 1.5 * FROM c", 11, 14, "a whole number"),
        ("SELECT c.x FROM c WHERE c.x IN 5", 31, 32, "'('"),
        ("SELECT VALUE (1 + 2", 19, 19, "')'"),
        ("SELECT VALUE {1: 2}", 14, 15, "a property name or '}'"),
        ("SELECT VALUE 1e999", 13, 18, "a number in the range of a double"),
        ("SELECT VALUE 'abc", 13, 17, "the end of a string"),
        ("SELECT VALUE 'a\\qb'", 13, 19, "a known escape sequence after '\\'"),
        ("SELECT VALUE #", 13, 14, "a token of the query language"),
        ("SELECT VALUE @ FROM c", 13, 14, "a parameter name after '@'"),
        ("SELECT /* x", 7, 11, "the end of a comment, '*/'"),
        ("SELECT VALUE c.[0] FROM c", 15, 16, "a property name"),
    ];
    for (text, start, end, expected) in cases {
        let error = parse(text).expect_err(text);
        assert_eq!(
            (error.start, error.end, error.expected.as_str()),
            (start, end, expected),
            "{text}"
        );
    }
}

#[test]
fn errors_have_the_services_shape() {
    let error = parse("SELECT ? FROM c").unwrap_err();
    assert_eq!(
        error.to_service_error().to_json(),
        r#"{"errors":[{"severity":"Error","location":{"start":7,"end":8},"code":"SC1001","message":"Syntax error, incorrect syntax near '?'."}]}"#
    );
}

#[test]
fn nesting_is_bounded_whatever_makes_it() {
    let within = |depth: usize| format!("SELECT VALUE {}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&within(100)).is_ok());
    let deep = 100_000;
    for text in [
        within(deep),
        format!("SELECT VALUE {}", "[".repeat(deep)),
        format!("SELECT VALUE {}", "{a:".repeat(deep)),
        format!("SELECT VALUE {}1", "NOT ".repeat(deep)),
        format!("SELECT VALUE {}1", "- ".repeat(deep)),
        format!("SELECT VALUE 1{}", "+1".repeat(deep)),
        format!("SELECT VALUE 1{}", "??1".repeat(deep)),
        format!("SELECT VALUE c{}", ".a".repeat(deep)),
        format!("SELECT VALUE c{}", "[0]".repeat(deep)),
        format!("SELECT VALUE {}", "f(".repeat(deep)),
        format!("SELECT VALUE {}", "1?".repeat(deep)),
        format!("SELECT VALUE 1{}", " IN (1)".repeat(deep / 2)),
        format!("SELECT VALUE {}", "(SELECT VALUE ".repeat(30_000)),
        format!("SELECT * FROM {}", "(SELECT * FROM ".repeat(30_000)),
    ] {
        let error = parse(&text).expect_err(&text[..40]);
        assert_eq!(error.kind, SyntaxErrorKind::TooLarge, "{}", &text[..40]);
    }
}

/// A chain under a sub-query under a chain must not multiply: the height counts through queries.
#[test]
fn nesting_is_bounded_across_subqueries() {
    let mut text = "1".to_owned();
    for _ in 0..40 {
        text = format!("(SELECT VALUE {text}{})", " + 1".repeat(40));
    }
    let error = parse(&format!("SELECT VALUE {text}")).unwrap_err();
    assert_eq!(error.kind, SyntaxErrorKind::TooLarge);
}

#[test]
fn long_chains_of_and_and_or_are_flat() {
    let terms: Vec<String> = (0..20_000).map(|i| format!("c.x = {i}")).collect();
    for between in [" OR ", " AND "] {
        let query = parse(&format!("SELECT * FROM c WHERE {}", terms.join(between))).unwrap();
        assert_eq!(parse(&query.to_string()).unwrap(), query);
    }
}

#[test]
fn text_and_joins_are_bounded() {
    let long = format!("SELECT VALUE '{}'", "x".repeat(MAX_TEXT_LENGTH));
    assert_eq!(parse(&long).unwrap_err().kind, SyntaxErrorKind::TooLarge);
    let joins = |count: usize| format!("SELECT VALUE 1 FROM c{}", " JOIN x IN c.x".repeat(count));
    assert!(parse(&joins(MAX_JOINS)).is_ok());
    assert_eq!(parse(&joins(MAX_JOINS + 1)).unwrap_err().kind, SyntaxErrorKind::TooLarge);
}

#[test]
fn numbers_are_doubles_decimal_or_hexadecimal() {
    for (text, expected) in [
        ("9007199254740992", json!(9_007_199_254_740_992_u64)),
        ("9007199254740993", json!(9_007_199_254_740_992_u64)),
        ("18446744073709551616", json!(18_446_744_073_709_551_616.0)),
        ("1.0", json!(1)),
        ("1e2", json!(100)),
        ("0.5", json!(0.5)),
        ("0x1F", json!(31)),
        ("0xffffffffffff", json!(0xffff_ffff_ffff_u64)),
    ] {
        let query = parse(&format!("SELECT VALUE {text}")).unwrap();
        let Projection::Value(Expr::Literal(Literal::Number(number))) = &query.select.projection
        else {
            panic!("{text}");
        };
        assert_eq!(json!(**number), expected);
        assert!(query.to_string().ends_with(text), "{query}");
    }
    assert_eq!(BinaryOp::Add.symbol(), "+");
}

#[test]
fn a_reserved_word_after_a_dot_is_a_syntax_error() {
    for text in ["c.order", "c.value", "c.top", "c.a.Select", "c.limit[0]"] {
        let error = parse(&format!("SELECT VALUE {text} FROM c")).expect_err(text);
        assert!(error.expected.contains("reserved word"), "{text}: {error}");
    }
    assert!(parse("SELECT * FROM c.order").is_err());
    for text in ["c[\"order\"]", "c['value'].x", "c.orders", "c.rank", "c.count"] {
        parse(&format!("SELECT VALUE {text} FROM c")).expect(text);
    }
}
