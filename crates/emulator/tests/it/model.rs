//! The emulator against a model: whatever is done, in whatever order, both agree on what there is.
//!
//! The model is a map. It knows ids, keys and one number per item; it knows nothing of partitions,
//! logs, etags or HTTP.

use std::collections::BTreeMap;

use crate::common::{CROSS, DOCS, Fixture, KEY, key_of};
use http::Method;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

const KEYS: u8 = 4;
const IDS: u8 = 5;

/// An item's key and id.
type Name = (u8, u8);

#[derive(Clone, Debug)]
enum Operation {
    Create(Name, i64),
    Upsert(Name, i64),
    Replace(Name, i64),
    Rename(Name, u8, i64),
    Increment(Name, i64),
    Delete(Name),
    Read(Name),
    Batch(u8, Vec<Step>),
    DeleteKey(u8),
    Query(i64),
    Sum(u8),
}

/// An operation of a batch: all of one key.
#[derive(Clone, Debug)]
enum Step {
    Create(u8, i64),
    Upsert(u8, i64),
    Rename(u8, u8, i64),
    Increment(u8, i64),
    Delete(u8),
}

fn name() -> impl Strategy<Value = Name> {
    (0..KEYS, 0..IDS)
}

fn number() -> impl Strategy<Value = i64> {
    -50..50_i64
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..IDS, number()).prop_map(|(id, n)| Step::Create(id, n)),
        (0..IDS, number()).prop_map(|(id, n)| Step::Upsert(id, n)),
        (0..IDS, 0..IDS, number()).prop_map(|(id, to, n)| Step::Rename(id, to, n)),
        (0..IDS, number()).prop_map(|(id, n)| Step::Increment(id, n)),
        (0..IDS).prop_map(Step::Delete),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        4 => (name(), number()).prop_map(|(name, n)| Operation::Create(name, n)),
        2 => (name(), number()).prop_map(|(name, n)| Operation::Upsert(name, n)),
        2 => (name(), number()).prop_map(|(name, n)| Operation::Replace(name, n)),
        2 => (name(), 0..IDS, number()).prop_map(|(name, to, n)| Operation::Rename(name, to, n)),
        2 => (name(), number()).prop_map(|(name, n)| Operation::Increment(name, n)),
        2 => name().prop_map(Operation::Delete),
        2 => name().prop_map(Operation::Read),
        2 => (0..KEYS, vec(step(), 1..6)).prop_map(|(key, steps)| Operation::Batch(key, steps)),
        1 => (0..KEYS).prop_map(Operation::DeleteKey),
        1 => number().prop_map(Operation::Query),
        1 => (0..KEYS).prop_map(Operation::Sum),
    ]
}

type Model = BTreeMap<Name, i64>;

fn item((key, id): Name, n: i64) -> Value {
    json!({ "id": id.to_string(), "pk": key, "n": n })
}

/// The model's answer to a single operation: a status, and the number if there is a body.
fn on_model(model: &mut Model, operation: &Operation) -> (u16, Option<i64>) {
    match *operation {
        Operation::Create(name, _) if model.contains_key(&name) => (409, None),
        Operation::Create(name, n) => {
            model.insert(name, n);
            (201, Some(n))
        }
        Operation::Upsert(name, n) => match model.insert(name, n) {
            None => (201, Some(n)),
            Some(_) => (200, Some(n)),
        },
        Operation::Replace(name, n) => match model.get_mut(&name) {
            None => (404, None),
            Some(current) => {
                *current = n;
                (200, Some(n))
            }
        },
        Operation::Rename(name, to, n) => match rename_on_model(model, name, to, n) {
            200 => (200, Some(n)),
            refused => (refused, None),
        },
        Operation::Increment(name, by) => match model.get_mut(&name) {
            None => (404, None),
            Some(current) => {
                *current += by;
                (200, Some(*current))
            }
        },
        Operation::Delete(name) => (if model.remove(&name).is_some() { 204 } else { 404 }, None),
        Operation::Read(name) => match model.get(&name) {
            None => (404, None),
            Some(n) => (200, Some(*n)),
        },
        Operation::Batch(key, ref steps) => {
            let mut trial = model.clone();
            let done = steps.iter().all(|step| step_on_model(&mut trial, key, step));
            if done {
                *model = trial;
            }
            (if done { 200 } else { 207 }, None)
        }
        Operation::DeleteKey(key) => {
            model.retain(|name, _| name.0 != key);
            (200, None)
        }
        Operation::Query(_) | Operation::Sum(_) => (200, None),
    }
}

fn rename_on_model(model: &mut Model, name: Name, to: u8, n: i64) -> u16 {
    if !model.contains_key(&name) {
        return 404;
    }
    if to != name.1 && model.contains_key(&(name.0, to)) {
        return 409;
    }
    model.remove(&name);
    model.insert((name.0, to), n);
    200
}

fn step_on_model(model: &mut Model, key: u8, step: &Step) -> bool {
    match *step {
        Step::Create(id, n) => model.insert((key, id), n).is_none(),
        Step::Upsert(id, n) => {
            model.insert((key, id), n);
            true
        }
        Step::Rename(id, to, n) => rename_on_model(model, (key, id), to, n) == 200,
        Step::Increment(id, by) => match model.get_mut(&(key, id)) {
            None => false,
            Some(current) => {
                *current += by;
                true
            }
        },
        Step::Delete(id) => model.remove(&(key, id)).is_some(),
    }
}

fn increment(by: i64) -> Value {
    json!({ "operations": [{ "op": "incr", "path": "/n", "value": by }] })
}

/// The emulator's answer to a single operation.
fn on_emulator(fixture: &Fixture, operation: &Operation) -> (u16, Option<i64>) {
    let key = |key: u8| key_of(&json!({ "pk": key }));
    let path = |name: Name| format!("{DOCS}/{}", name.1);
    let answer = match *operation {
        Operation::Create(name, n) => {
            fixture.send(Method::POST, DOCS, &[(KEY, &key(name.0))], item(name, n))
        }
        Operation::Upsert(name, n) => {
            let headers = [(KEY, key(name.0)), ("x-ms-documentdb-is-upsert", "true".to_owned())];
            let headers =
                [(headers[0].0, headers[0].1.as_str()), (headers[1].0, headers[1].1.as_str())];
            fixture.send(Method::POST, DOCS, &headers, item(name, n))
        }
        Operation::Replace(name, n) => {
            fixture.send(Method::PUT, &path(name), &[(KEY, &key(name.0))], item(name, n))
        }
        Operation::Rename(name, to, n) => {
            let renamed = item((name.0, to), n);
            fixture.send(Method::PUT, &path(name), &[(KEY, &key(name.0))], renamed)
        }
        Operation::Increment(name, by) => {
            fixture.send(Method::PATCH, &path(name), &[(KEY, &key(name.0))], increment(by))
        }
        Operation::Delete(name) => {
            fixture.send(Method::DELETE, &path(name), &[(KEY, &key(name.0))], Value::Null)
        }
        Operation::Read(name) => {
            fixture.send(Method::GET, &path(name), &[(KEY, &key(name.0))], Value::Null)
        }
        Operation::Batch(of, ref steps) => {
            let operations: Vec<Value> = steps.iter().map(|step| step_of(of, step)).collect();
            let key = key(of);
            let headers = [
                (KEY, key.as_str()),
                ("x-ms-cosmos-is-batch-request", "True"),
                ("x-ms-cosmos-batch-atomic", "True"),
            ];
            let status = fixture.send(Method::POST, DOCS, &headers, json!(operations)).status;
            return (status, None);
        }
        Operation::DeleteKey(of) => {
            let path = "/dbs/db/colls/c/operations/partitionkeydelete";
            fixture.send(Method::POST, path, &[(KEY, &key(of))], Value::Null)
        }
        Operation::Query(_) | Operation::Sum(_) => return (200, None),
    };
    let n = (answer.status < 300 && !answer.text.is_empty())
        .then(|| answer.json()["n"].as_i64())
        .flatten();
    (answer.status, n)
}

fn step_of(key: u8, step: &Step) -> Value {
    match *step {
        Step::Create(id, n) => {
            json!({ "operationType": "Create", "resourceBody": item((key, id), n) })
        }
        Step::Upsert(id, n) => {
            json!({ "operationType": "Upsert", "resourceBody": item((key, id), n) })
        }
        Step::Rename(id, to, n) => {
            json!({ "operationType": "Replace", "id": id.to_string(), "resourceBody": item((key, to), n) })
        }
        Step::Increment(id, by) => {
            json!({ "operationType": "Patch", "id": id.to_string(), "resourceBody": increment(by) })
        }
        Step::Delete(id) => json!({ "operationType": "Delete", "id": id.to_string() }),
    }
}

fn query(fixture: &Fixture, text: &str, more: &[(&str, &str)]) -> Vec<Value> {
    let mut rows = Vec::new();
    let mut token = String::new();
    loop {
        let mut headers = vec![("x-ms-documentdb-isquery", "true"), ("x-ms-max-item-count", "3")];
        headers.extend_from_slice(more);
        if !token.is_empty() {
            headers.push(("x-ms-continuation", &token));
        }
        let page = fixture.send(Method::POST, DOCS, &headers, json!({ "query": text }));
        rows.extend(page.rows());
        match page.header("x-ms-continuation") {
            Some(next) => token = next.to_owned(),
            None => return rows,
        }
    }
}

/// Both answer a question about many items alike.
fn agree_on_many(
    fixture: &Fixture,
    model: &Model,
    operation: &Operation,
) -> Result<(), TestCaseError> {
    match *operation {
        Operation::Query(least) => {
            let text = format!("SELECT VALUE c.n FROM c WHERE c.n >= {least}");
            let mut rows: Vec<i64> =
                query(fixture, &text, &[CROSS]).iter().filter_map(Value::as_i64).collect();
            rows.sort_unstable();
            let mut expected: Vec<i64> = model.values().copied().filter(|n| *n >= least).collect();
            expected.sort_unstable();
            prop_assert_eq!(rows, expected);
        }
        Operation::Sum(key) => {
            let header = key_of(&json!({ "pk": key }));
            let rows = query(fixture, "SELECT VALUE SUM(c.n) FROM c", &[(KEY, &header)]);
            let expected: i64 =
                model.iter().filter(|(name, _)| name.0 == key).map(|(_, n)| n).sum();
            prop_assert_eq!(rows, vec![json!(expected)]);
        }
        _ => {}
    }
    Ok(())
}

/// The items that all change feeds together report.
fn from_feeds(fixture: &Fixture, partitions: u32) -> Model {
    let mut model = Model::new();
    for range in 0..partitions {
        let range = range.to_string();
        let headers =
            [("a-im", "Incremental Feed"), ("x-ms-documentdb-partitionkeyrangeid", range.as_str())];
        let page = fixture.send(Method::GET, DOCS, &headers, Value::Null);
        if page.status == 304 {
            continue;
        }
        for row in page.rows() {
            let number = |name: &str| row[name].as_u64().and_then(|n| u8::try_from(n).ok());
            let id = row["id"].as_str().and_then(|id| id.parse().ok()).expect("an id of the model");
            let key = number("pk").expect("a key of the model");
            model.insert((key, id), row["n"].as_i64().expect("a number"));
        }
    }
    model
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_emulator_and_the_model_agree(
        partitions in 1..5_u32,
        operations in vec(operation(), 1..60),
    ) {
        let fixture = Fixture::new(|options| options.partitions = Some(partitions));
        fixture.create_container(json!({}));
        let mut model = Model::new();
        for operation in &operations {
            prop_assert_eq!(on_emulator(&fixture, operation), on_model(&mut model, operation), "{:?}", operation);
            agree_on_many(&fixture, &model, operation)?;
        }
        prop_assert_eq!(from_feeds(&fixture, partitions), model);
    }
}
