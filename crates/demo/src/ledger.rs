//! The contents of the account after a run, read within the process: neither the driver nor the client takes part, whose
//! work is being checked.

use std::collections::BTreeSet;
use std::time::SystemTime;

use bytes::Bytes;
use http::{Method, Request, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sidereal_emulator::Account;
use sidereal_protocol::{HttpDate, RequestPath};

use crate::error::DemoError;
use crate::observe::created_in;
use crate::stage::{DATABASE, EFFECTS, EFFECTS_PATH, ORCHESTRATIONS, RECEIPTS, RECEIPTS_PATH};
use crate::verdict::{Found, FoundInstance};

/// Rows of a page.
const PAGE: &str = "1000";

/// Pages that are read of one partition at most: far more than a run of the longest duration fills.
const MOST_PAGES: usize = 10_000;

/// Reads what the orchestrations left behind.
pub(crate) fn read(account: &Account) -> Result<Found, DemoError> {
    // Before anything is read: reading counts too.
    let counters = account.counters();
    let created = |container: &str| {
        let rows = counters.iter().filter(|row| created_in(row, container));
        rows.map(|row| row.requests).sum()
    };
    let repeated = counters.iter().filter(|row| {
        row.status == 409
            && [EFFECTS_PATH, RECEIPTS_PATH].map(Some).contains(&row.container.as_deref())
    });
    Ok(Found {
        effects_created: created(EFFECTS_PATH),
        receipts_created: created(RECEIPTS_PATH),
        repeated: repeated.map(|row| row.requests).sum(),
        instances: instances(account)?,
        completions: completions(account)?,
        effects: items(account, EFFECTS, "SELECT c[\"order\"], c.id, c.amount FROM c")?,
        receipts: items(account, RECEIPTS, "SELECT c[\"order\"], c.id, c.amount FROM c")?,
    })
}

/// How many orchestrations have reached an end, whatever it is.
pub(crate) fn ended(account: &Account) -> Result<usize, DemoError> {
    let instances = instances(account)?;
    Ok(instances.iter().filter(|instance| instance.status != "Running").count())
}

/// The ids of a container's items.
pub(crate) fn ids(account: &Account, container: &str) -> Result<BTreeSet<String>, DemoError> {
    let ids: Vec<String> = items(account, container, "SELECT VALUE c.id FROM c")?;
    Ok(ids.into_iter().collect())
}

fn instances(account: &Account) -> Result<Vec<FoundInstance>, DemoError> {
    let text = "SELECT c.instanceId, c.status, c.output FROM c WHERE c.type = 'instance'";
    items(account, ORCHESTRATIONS, text)
}

/// The instance of every event that says that an orchestration has completed.
fn completions(account: &Account) -> Result<Vec<String>, DemoError> {
    let text = "SELECT VALUE c.instanceId FROM c WHERE c.type = 'history' \
                AND CONTAINS(c.eventData, '\"OrchestrationCompleted\"')";
    items(account, ORCHESTRATIONS, text)
}

fn items<T: DeserializeOwned>(
    account: &Account,
    container: &str,
    query: &str,
) -> Result<Vec<T>, DemoError> {
    let mut found = Vec::new();
    for range in ranges(account, container)? {
        let mut continuation: Option<String> = None;
        for _ in 0..MOST_PAGES {
            let (page, next) = page(account, (container, &range), query, continuation.as_deref())?;
            found.extend(page);
            continuation = next;
            if continuation.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

/// The ids of a container's partition ranges.
fn ranges(account: &Account, container: &str) -> Result<Vec<String>, DemoError> {
    #[derive(Deserialize)]
    struct Ranges {
        #[serde(rename = "PartitionKeyRanges")]
        ranges: Vec<Range>,
    }
    #[derive(Deserialize)]
    struct Range {
        id: String,
    }
    let path = format!("/dbs/{DATABASE}/colls/{container}/pkranges");
    let response = send(account, &Method::GET, &path, &[], Bytes::new())?;
    let read: Ranges = decode(response.body())?;
    Ok(read.ranges.into_iter().map(|range| range.id).collect())
}

/// A page of one partition's rows, and where the next one begins.
fn page<T: DeserializeOwned>(
    account: &Account,
    (container, range): (&str, &str),
    query: &str,
    continuation: Option<&str>,
) -> Result<(Vec<T>, Option<String>), DemoError> {
    #[derive(Deserialize)]
    struct Rows {
        #[serde(rename = "Documents")]
        rows: Vec<Value>,
    }
    let mut headers = vec![
        ("content-type", "application/query+json"),
        ("x-ms-documentdb-isquery", "true"),
        ("x-ms-documentdb-partitionkeyrangeid", range),
        ("x-ms-max-item-count", PAGE),
    ];
    headers.extend(continuation.map(|token| ("x-ms-continuation", token)));
    let body = Bytes::from(json!({ "query": query, "parameters": [] }).to_string());
    let path = format!("/dbs/{DATABASE}/colls/{container}/docs");
    let response = send(account, &Method::POST, &path, &headers, body)?;
    let rows = decode::<Rows>(response.body())?.rows.into_iter().map(serde_json::from_value);
    let rows: Result<Vec<T>, _> = rows.collect();
    let next = response.headers().get("x-ms-continuation");
    let next = next.and_then(|token| token.to_str().ok()).map(str::to_owned);
    Ok((rows.map_err(unreadable)?, next))
}

fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, DemoError> {
    serde_json::from_slice(body).map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> DemoError {
    DemoError::Ledger(error.to_string())
}

/// Sends a signed request to the account, without a socket.
fn send(
    account: &Account,
    method: &Method,
    path: &str,
    headers: &[(&str, &str)],
    body: Bytes,
) -> Result<Response<Bytes>, DemoError> {
    let date = HttpDate::new(SystemTime::now()).map_err(unreadable)?;
    let target: RequestPath = path.parse()?;
    let link = target.signed_link().into_owned();
    let signature = target.signed(method, &link, date.as_str());
    let authorization = account.options().key.authorize(&signature);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("x-ms-version", "2020-07-15")
        .header("x-ms-date", date.as_str())
        .header("authorization", authorization);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = account.handle(request.body(body).map_err(unreadable)?);
    match response.status().is_success() {
        true => Ok(response),
        false => {
            let said = String::from_utf8_lossy(response.body()).into_owned();
            Err(DemoError::Ledger(format!("{path}: {} {said}", response.status())))
        }
    }
}
