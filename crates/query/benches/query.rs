//! How fast queries are read, planned and run.
//!
//! `cargo bench -p sidereal-query`

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};
use sidereal_protocol::PartitionKeyDefinition;
use sidereal_query::{
    Condition, Context, Features, Parameters, Program, parse, parse_document, plan, round_numbers,
};

const FIVE_CLAUSES: &str = "SELECT TOP 10 c.id, c.name, c.price * 1.2 AS gross FROM c \
    WHERE c.category = @category AND c.price BETWEEN 10 AND 200 AND ARRAY_CONTAINS(c.tags, 'new') \
    ORDER BY c.price DESC";

/// About 1 KB of JSON each, no two alike.
fn documents() -> Vec<Value> {
    (0..1000)
        .map(|i| {
            json!({
                "id": format!("item-{i}"),
                "category": if i % 3 == 0 { "gear" } else { "food" },
                "name": format!("A product with a middling name, number {i}"),
                "price": i % 300,
                "tags": ["new", "blue", "large"],
                "stock": {"warehouse": i % 7, "shelf": "B-12", "count": i},
                "description": "x".repeat(500),
                "ratings": [5, 4, 3, 5, 5, 2],
                "_rid": "3hYnAKJZzN4BAAAAAAAAAA==",
                "_self": "dbs/3hYnAA==/colls/3hYnAKJZzN4=/docs/3hYnAKJZzN4BAAAAAAAAAA==/",
                "_etag": "\"00000000-0000-0000-0000-000000000000\"",
                "_attachments": "attachments/",
                "_ts": 1_700_000_000 + i,
            })
        })
        .collect()
}

fn reading(c: &mut Criterion) {
    let definition = PartitionKeyDefinition::new(["/category"]).expect("a valid path");
    let parameters = Parameters::from([("@category".to_owned(), json!("gear"))]);
    c.bench_function("parse a five-clause query", |b| b.iter(|| parse(black_box(FIVE_CLAUSES))));
    c.bench_function("parse and plan a five-clause query", |b| {
        b.iter(|| {
            let query = parse(black_box(FIVE_CLAUSES)).expect("a valid query");
            plan(&query, &parameters, &definition, Features::ALL)
        });
    });
}

/// Rounding numbers while a document is parsed, against parsing alone and against a second walk.
fn documents_as_text(c: &mut Criterion) {
    let text = documents()[0].to_string();
    let mut group = c.benchmark_group("one document of text");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.bench_function("parse_document", |b| {
        b.iter(|| parse_document(black_box(text.as_bytes())));
    });
    group.bench_function("serde_json alone", |b| {
        b.iter(|| serde_json::from_slice::<Value>(black_box(text.as_bytes())));
    });
    group.bench_function("serde_json, then round_numbers", |b| {
        b.iter(|| {
            let mut value: Value =
                serde_json::from_slice(black_box(text.as_bytes())).expect("JSON");
            round_numbers(&mut value);
            value
        });
    });
    group.finish();
}

fn running(c: &mut Criterion) {
    let documents = documents();
    let context = Context::new(0, 0);
    let mut group = c.benchmark_group("documents");
    group.throughput(Throughput::Elements(documents.len() as u64));
    let filter = "FROM c WHERE c.category = 'gear' AND c.price > 100";
    let condition = Condition::parse(filter).expect("a valid condition");
    group.bench_function("simple filter", |b| {
        b.iter(|| {
            let matches = |document| condition.matches(document, &context).expect("within limits");
            documents.iter().filter(|document| matches(document)).count()
        });
    });
    for (name, text) in [
        (
            "filter and project",
            "SELECT c.id, c.price FROM c WHERE c.category = 'gear' AND c.price > 100",
        ),
        ("filter and give whole", "SELECT * FROM c WHERE c.category = 'gear' AND c.price > 100"),
        ("sort", "SELECT c.id FROM c ORDER BY c.price DESC"),
        (
            "group",
            "SELECT c.category, COUNT(1) AS n, AVG(c.price) AS mean FROM c GROUP BY c.category",
        ),
        ("join", "SELECT c.id, t FROM c JOIN t IN c.tags WHERE t = 'blue'"),
    ] {
        let query = parse(text).expect("a valid query");
        let program = Program::new(&query, &Parameters::new()).expect("a meaningful query");
        group.bench_function(name, |b| b.iter(|| program.run(&documents, &context)));
    }
    group.finish();
}

criterion_group!(benches, reading, documents_as_text, running);
criterion_main!(benches);
