//! Printing a tree and parsing the text gives the tree again, for generated trees.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde_json::{Number, Value};
use sidereal_query::parse;
use sidereal_query::tree::*;

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-zA-Z_][a-zA-Z0-9_]{0,6}".prop_filter("not reserved", |word| !is_reserved(word)),
        1 => Just("é_ñ1".to_owned()),
    ]
}

fn is_reserved(word: &str) -> bool {
    parse(&format!("SELECT VALUE {word} FROM {word}")).is_err() || word.eq_ignore_ascii_case("udf")
}

/// Any text at all: property names and strings are free.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![3 => name(), 1 => any::<String>(), 1 => Just("SELECT".to_owned()), 1 => Just("a\"b'\\\n".to_owned())]
}

fn literal() -> impl Strategy<Value = Literal> {
    let float = prop::num::f64::POSITIVE | prop::num::f64::ZERO;
    prop_oneof![
        Just(Literal::Undefined),
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        any::<u64>().prop_map(|n| rounded(n.into())),
        float.prop_filter_map("finite", |f| Number::from_f64(f.abs()).map(rounded)),
        text().prop_map(|text| Literal::String(text.into())),
    ]
}

/// A number as the parser reads it: the double nearest to what was written.
fn rounded(number: Number) -> Literal {
    let mut value = Value::Number(number);
    sidereal_query::round_numbers(&mut value);
    match value {
        Value::Number(number) => Literal::Number(number.into()),
        other => unreachable!("{other}"),
    }
}

fn binary_op() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp::*;
    prop::sample::select(vec![
        Coalesce,
        Concat,
        BitOr,
        BitXor,
        BitAnd,
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        ShiftLeft,
        ShiftRight,
        ShiftRightUnsigned,
        Add,
        Subtract,
        Multiply,
        Divide,
        Modulo,
    ])
}

fn unary_op() -> impl Strategy<Value = UnaryOp> {
    use UnaryOp::*;
    prop::sample::select(vec![Not, Minus, Plus, BitNot])
}

/// An index with a constant string is a property, and is read as one.
fn index(base: Expr, index: Expr) -> Expr {
    match index {
        Expr::Literal(Literal::String(name)) => Expr::Property(Box::new(base), name.into_value()),
        index => Expr::Index(Box::new(base), Box::new(index)),
    }
}

fn expression() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        literal().prop_map(Expr::Literal),
        name().prop_map(Expr::Identifier),
        name().prop_map(|name| Expr::Parameter(format!("@{name}"))),
        Just(Expr::ResumeFilter),
    ];
    leaf.prop_recursive(5, 48, 4, |inner| {
        let boxed = || inner.clone().prop_map(Box::new);
        let list = |size| vec(inner.clone(), size);
        prop_oneof![
            (boxed(), text()).prop_map(|(base, name)| Expr::Property(base, name)),
            (inner.clone(), inner.clone()).prop_map(|(base, at)| index(base, at)),
            (unary_op(), boxed()).prop_map(|(op, e)| Expr::Unary(op, e)),
            (binary_op(), boxed(), boxed()).prop_map(|(op, l, r)| Expr::Binary(op, l, r)),
            list(2..4).prop_map(Expr::And),
            list(2..4).prop_map(Expr::Or),
            [inner.clone(), inner.clone(), inner.clone()]
                .prop_map(|operands| Expr::Conditional(Box::new(operands))),
            (any::<bool>(), [inner.clone(), inner.clone(), inner.clone()])
                .prop_map(|(negated, o)| Expr::Between { negated, operands: Box::new(o) }),
            (any::<bool>(), boxed(), list(1..4)).prop_map(|(negated, value, list)| Expr::In {
                negated,
                value,
                list
            }),
            (any::<bool>(), [inner.clone(), inner.clone()], option::of(text())).prop_map(
                |(negated, o, escape)| Expr::Like { negated, operands: Box::new(o), escape }
            ),
            (name(), list(0..4)).prop_map(|(name, arguments)| Expr::Call { name, arguments }),
            (name(), list(0..3)).prop_map(|(name, arguments)| Expr::UserCall { name, arguments }),
            list(0..4).prop_map(Expr::Array),
            vec((text(), inner.clone()), 0..4).prop_map(Expr::Object),
            query_of(inner.clone(), false).prop_map(|q| Expr::Exists(Box::new(q))),
            query_of(inner.clone(), false).prop_map(|q| Expr::ArrayOf(Box::new(q))),
            query_of(inner.clone(), false).prop_map(|q| Expr::Subquery(Box::new(q))),
        ]
    })
    .boxed()
}

fn count() -> impl Strategy<Value = Count> {
    prop_oneof![
        (0_u64..1 << 40).prop_map(Count::Number),
        name().prop_map(|name| Count::Parameter(format!("@{name}"))),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => text().prop_map(Step::Name), 1 => (0_u64..99).prop_map(Step::Index)]
}

fn source(nested: Option<BoxedStrategy<Query>>) -> BoxedStrategy<Source> {
    let path =
        (name(), vec(step(), 0..3)).prop_map(|(root, steps)| Collection::Path { root, steps });
    let collection = match nested {
        None => path.boxed(),
        Some(query) => {
            prop_oneof![3 => path, 1 => query.prop_map(|q| Collection::Subquery(Box::new(q)))]
                .boxed()
        }
    };
    prop_oneof![
        (collection.clone(), option::of(name()))
            .prop_map(|(collection, alias)| Source::Collection { collection, alias }),
        (name(), collection).prop_map(|(alias, collection)| Source::Elements { alias, collection }),
    ]
    .boxed()
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Ascending), Just(Direction::Descending)]
}

fn query_of(
    inner: impl Strategy<Value = Expr> + Clone + 'static,
    nest: bool,
) -> BoxedStrategy<Query> {
    let item = (inner.clone(), option::of(name()))
        .prop_map(|(expression, alias)| SelectItem { expression, alias });
    let projection = prop_oneof![
        Just(Projection::All),
        inner.clone().prop_map(Projection::Value),
        vec(item, 1..4).prop_map(Projection::List),
    ];
    let select = (any::<bool>(), option::of(count()), projection)
        .prop_map(|(distinct, top, projection)| Select { distinct, top, projection });
    let nested = nest.then(|| query_of(inner.clone(), false));
    let from = (source(nested.clone()), vec(source(nested), 0..3))
        .prop_map(|(source, joins)| From { source, joins });
    let key = (inner.clone(), direction())
        .prop_map(|(expression, direction)| OrderKey { expression, direction });
    let order = prop_oneof![
        4 => vec(key, 1..3).prop_map(OrderBy::Keys),
        1 => inner.clone().prop_map(OrderBy::Rank),
    ];
    let window = (count(), count()).prop_map(|(offset, limit)| Window { offset, limit });
    (
        select,
        option::of(from),
        option::of(inner.clone()),
        vec(inner, 0..3),
        option::of(order),
        option::of(window),
    )
        .prop_map(|(select, from, filter, group_by, order_by, window)| Query {
            select,
            from,
            filter,
            group_by,
            order_by,
            window,
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_printed_reads_back_as_the_same_tree(query in query_of(expression(), true)) {
        let text = query.to_string();
        let read = parse(&text);
        prop_assert_eq!(read.as_ref(), Ok(&query), "{}", text);
    }
}
