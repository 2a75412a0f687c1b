//! The evaluator against a slow, obvious reference, for generated filters and documents.
//!
//! The reference walks the syntax tree directly, copies every value, and spells out the rules of
//! three-valued logic case by case.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use sidereal_query::tree::{BinaryOp, Expr, Literal, UnaryOp};
use sidereal_query::{Condition, Context, Parameters, Program, parse};

/// The value of an expression over a document; `None` is undefined.
fn value(expression: &Expr, document: &Value) -> Option<Value> {
    match expression {
        Expr::Literal(Literal::Undefined) => None,
        Expr::Literal(Literal::Null) => Some(Value::Null),
        Expr::Literal(Literal::Bool(b)) => Some(json!(b)),
        Expr::Literal(Literal::Number(n)) => Some(json!(**n)),
        Expr::Literal(Literal::String(s)) => Some(json!(**s)),
        Expr::Identifier(_) => Some(document.clone()),
        Expr::Property(base, name) => value(base, document)?.get(name).cloned(),
        Expr::Unary(UnaryOp::Not, inner) => match value(inner, document) {
            Some(Value::Bool(b)) => Some(json!(!b)),
            _ => None,
        },
        Expr::Unary(_, inner) => number(-value(inner, document)?.as_f64()?),
        Expr::And(terms) => logic(terms, document, false),
        Expr::Or(terms) => logic(terms, document, true),
        Expr::Conditional(operands) => match value(&operands[0], document) {
            Some(Value::Bool(true)) => value(&operands[1], document),
            _ => value(&operands[2], document),
        },
        Expr::Between { negated, operands } => {
            let at_least = Expr::Binary(
                BinaryOp::GreaterOrEqual,
                operands[0].clone().into(),
                operands[1].clone().into(),
            );
            let at_most = Expr::Binary(
                BinaryOp::LessOrEqual,
                operands[0].clone().into(),
                operands[2].clone().into(),
            );
            flip(logic(&[at_least, at_most], document, false), *negated)
        }
        Expr::In { negated, value: wanted, list } => {
            let wanted = value(wanted, document)?;
            let found = list
                .iter()
                .any(|item| value(item, document).is_some_and(|item| same(&item, &wanted)));
            Some(json!(found != *negated))
        }
        Expr::Binary(op, left, right) => {
            binary(*op, value(left, document), || value(right, document))
        }
        other => panic!("the reference does not know {other}"),
    }
}

fn flip(truth: Option<Value>, negated: bool) -> Option<Value> {
    Some(json!(truth?.as_bool()? != negated))
}

/// A term that is `decisive` decides; otherwise anything but a boolean makes it undefined.
fn logic(terms: &[Expr], document: &Value, decisive: bool) -> Option<Value> {
    let values: Vec<Option<Value>> = terms.iter().map(|term| value(term, document)).collect();
    if values.contains(&Some(json!(decisive))) {
        return Some(json!(decisive));
    }
    values.iter().all(|v| *v == Some(json!(!decisive))).then(|| json!(!decisive))
}

fn binary(op: BinaryOp, left: Option<Value>, right: impl Fn() -> Option<Value>) -> Option<Value> {
    if op == BinaryOp::Coalesce {
        return left.or_else(right);
    }
    let (left, right) = (left?, right()?);
    match op {
        BinaryOp::Equal => Some(json!(kind(&left) == kind(&right) && same(&left, &right))),
        BinaryOp::NotEqual => Some(json!(kind(&left) != kind(&right) || !same(&left, &right))),
        BinaryOp::Less | BinaryOp::LessOrEqual | BinaryOp::Greater | BinaryOp::GreaterOrEqual => {
            let order = match (&left, &right) {
                (Value::Null, Value::Null) => std::cmp::Ordering::Equal,
                (Value::Bool(l), Value::Bool(r)) => l.cmp(r),
                (Value::Number(l), Value::Number(r)) => l.as_f64()?.partial_cmp(&r.as_f64()?)?,
                (Value::String(l), Value::String(r)) => l.cmp(r),
                _ => return None,
            };
            Some(json!(match op {
                BinaryOp::Less => order.is_lt(),
                BinaryOp::LessOrEqual => order.is_le(),
                BinaryOp::Greater => order.is_gt(),
                _ => order.is_ge(),
            }))
        }
        BinaryOp::Concat => Some(json!(format!("{}{}", left.as_str()?, right.as_str()?))),
        BinaryOp::Add => number(left.as_f64()? + right.as_f64()?),
        BinaryOp::Multiply => number(left.as_f64()? * right.as_f64()?),
        BinaryOp::Divide => number(left.as_f64()? / right.as_f64()?),
        other => panic!("the reference does not know {other:?}"),
    }
}

fn number(n: f64) -> Option<Value> {
    n.is_finite().then(|| json!(n))
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Equality that does not care how a number is written or in which order members come.
fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(l), Value::Number(r)) => l.as_f64() == r.as_f64(),
        (Value::Array(l), Value::Array(r)) => {
            l.len() == r.len() && l.iter().zip(r).all(|(l, r)| same(l, r))
        }
        (Value::Object(l), Value::Object(r)) => {
            l.len() == r.len() && l.iter().all(|(name, l)| r.get(name).is_some_and(|r| same(l, r)))
        }
        (l, r) => l == r,
    }
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(|b| json!(b)),
        (-3_i64..4).prop_map(|n| json!(n)),
        prop_oneof![Just(0.5), Just(1.0), Just(-2.0)].prop_map(|n: f64| json!(n)),
        prop_oneof![Just("a"), Just("b"), Just("")].prop_map(|s| json!(s)),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(|items| json!(items)),
            vec((prop_oneof![Just("x"), Just("y")], inner), 0..3)
                .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

fn document() -> impl Strategy<Value = Value> {
    let name = prop_oneof![Just("x"), Just("y"), Just("z")];
    vec((name, json_value()), 0..5)
        .prop_map(|members| members.into_iter().map(|(k, v)| (k.to_owned(), v)).collect())
}

fn filter() -> impl Strategy<Value = Expr> {
    let path = vec(prop_oneof![Just("x"), Just("y"), Just("z")], 1..3).prop_map(|names| {
        names.into_iter().fold(Expr::Identifier("c".to_owned()), |base, name| {
            Expr::Property(Box::new(base), name.to_owned())
        })
    });
    let literal = prop_oneof![
        Just(Literal::Undefined),
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        (0_u64..4).prop_map(|n| Literal::Number(serde_json::Number::from(n).into())),
        prop_oneof![Just("a"), Just("b")].prop_map(|s| Literal::String(s.to_owned().into())),
    ];
    let leaf = prop_oneof![2 => path, 1 => literal.prop_map(Expr::Literal)];
    let operators = prop::sample::select(vec![
        BinaryOp::Equal,
        BinaryOp::NotEqual,
        BinaryOp::Less,
        BinaryOp::LessOrEqual,
        BinaryOp::Greater,
        BinaryOp::GreaterOrEqual,
        BinaryOp::Coalesce,
        BinaryOp::Concat,
        BinaryOp::Add,
        BinaryOp::Multiply,
        BinaryOp::Divide,
    ]);
    leaf.prop_recursive(4, 40, 4, move |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        prop_oneof![
            4 => (operators.clone(), boxed(), boxed()).prop_map(|(op, l, r)| Expr::Binary(op, l, r)),
            2 => vec(inner.clone(), 2..4).prop_map(Expr::And),
            2 => vec(inner.clone(), 2..4).prop_map(Expr::Or),
            1 => boxed().prop_map(|e| Expr::Unary(UnaryOp::Not, e)),
            1 => boxed().prop_map(|e| Expr::Unary(UnaryOp::Minus, e)),
            1 => [inner.clone(), inner.clone(), inner.clone()].prop_map(|o| Expr::Conditional(Box::new(o))),
            1 => (any::<bool>(), [inner.clone(), inner.clone(), inner.clone()])
                .prop_map(|(negated, o)| Expr::Between { negated, operands: Box::new(o) }),
            1 => (any::<bool>(), boxed(), vec(inner.clone(), 1..4))
                .prop_map(|(negated, value, list)| Expr::In { negated, value, list }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_evaluator_agrees_with_the_reference(filter in filter(), documents in vec(document(), 1..4)) {
        let context = Context::new(0, 0);
        let query = parse(&format!("SELECT VALUE [{filter}] FROM c")).unwrap();
        let program = Program::new(&query, &Parameters::new()).unwrap();
        let condition = Condition::parse(&format!("FROM c WHERE {filter}")).unwrap();
        for document in &documents {
            let expected = value(&filter, document);
            let rows = program.run([document], &context).unwrap();
            let found = rows[0].get(0);
            let agree = match (found, &expected) {
                (Some(found), Some(expected)) => same(found, expected),
                (found, expected) => found.is_none() && expected.is_none(),
            };
            prop_assert!(agree, "{filter} over {document}: {found:?} but {expected:?}");
            let matches = condition.matches(document, &context).unwrap();
            prop_assert_eq!(matches, expected == Some(json!(true)), "{} over {}", filter, document);
        }
    }
}
