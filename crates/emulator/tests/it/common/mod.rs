//! A bare client for tests: signs requests, sends them over a socket, and reads the answers.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sidereal_emulator::{Account, Emulator, EmulatorBuilder, ManualClock, Timestamp};
use sidereal_protocol::{AccountKey, HttpDate, PartitionKey, PartitionKeyValue, RequestPath};
use tokio::net::TcpStream;

/// No request of a test takes longer.
const TIMEOUT: Duration = Duration::from_secs(20);

/// An emulator behind a socket, with a database `db` where the test wants one.
pub(crate) struct Client {
    pub(crate) emulator: Emulator,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

impl Client {
    pub(crate) async fn start() -> Self {
        Self::with(Emulator::builder()).await
    }

    pub(crate) async fn with(builder: EmulatorBuilder) -> Self {
        Self { emulator: builder.start().await.expect("a free port on loopback") }
    }

    /// An emulator with a container `db/c`, partitioned by `/pk`, of so many partitions.
    pub(crate) async fn with_container(partitions: u32) -> Self {
        let client = Self::with(Emulator::builder().partitions(partitions)).await;
        client.create_container(json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } })).await;
        client
    }

    /// Creates `db`, if it is not there, and a container in it.
    pub(crate) async fn create_container(&self, definition: Value) {
        let database = self.send(Method::POST, "/dbs", &[], json!({ "id": "db" })).await;
        assert!([201, 409].contains(&database.status), "{database:?}");
        let container = self.send(Method::POST, "/dbs/db/colls", &[], definition).await;
        assert_eq!(container.status, 201, "{container:?}");
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: Value,
    ) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.send_text(method, path, headers, body).await
    }

    pub(crate) async fn send_text(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: String,
    ) -> Answer {
        let request = signed(self.emulator.key(), SystemTime::now(), method, path, headers, body);
        self.exchange(request).await
    }

    /// Sends a request as it is.
    pub(crate) async fn exchange(&self, request: Request<Bytes>) -> Answer {
        tokio::time::timeout(TIMEOUT, self.exchange_on_new_connection(request))
            .await
            .expect("an answer in time")
    }

    async fn exchange_on_new_connection(&self, mut request: Request<Bytes>) -> Answer {
        let authority =
            self.emulator.http_endpoint().trim_start_matches("http://").trim_end_matches('/');
        request.headers_mut().insert("host", authority.parse().expect("an authority is a header"));
        let stream = TcpStream::connect(authority).await.expect("the emulator listens");
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
        tokio::spawn(connection);
        let response = sender.send_request(request.map(Full::new)).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let text = body.collect().await.expect("a whole body").to_bytes();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(text.to_vec()).expect("text"),
        }
    }

    pub(crate) async fn get(&self, path: &str, headers: Headers<'_>) -> Answer {
        self.send(Method::GET, path, headers, Value::Null).await
    }

    /// Creates an item whose key is its `pk`.
    pub(crate) async fn create(&self, item: Value) -> Answer {
        let key = key_of(&item);
        self.send(Method::POST, DOCS, &[(KEY, &key)], item).await
    }

    pub(crate) async fn read(&self, id: &str, key: &str) -> Answer {
        self.get(&format!("{DOCS}/{id}"), &[(KEY, &format!("[\"{key}\"]"))]).await
    }

    /// Runs a query with these headers and no parameters.
    pub(crate) async fn query(&self, text: &str, headers: Headers<'_>) -> Answer {
        let mut all =
            vec![("x-ms-documentdb-isquery", "True"), ("content-type", "application/query+json")];
        all.extend_from_slice(headers);
        self.send(Method::POST, DOCS, &all, json!({ "query": text, "parameters": [] })).await
    }
}

pub(crate) const DOCS: &str = "/dbs/db/colls/c/docs";
pub(crate) const KEY: &str = "x-ms-documentdb-partitionkey";
pub(crate) const CROSS: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "True");

/// The key header of an item whose key is its `pk`.
pub(crate) fn key_of(item: &Value) -> String {
    let key = item.get("pk").map_or(PartitionKeyValue::Undefined, PartitionKeyValue::from_json);
    PartitionKey::from(key).to_string()
}

impl Answer {
    pub(crate) fn of(response: http::Response<Bytes>) -> Self {
        let (parts, body) = response.into_parts();
        Self {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(body.to_vec()).expect("text"),
        }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().expect("text"))
    }

    pub(crate) fn sub_status(&self) -> u32 {
        self.header("x-ms-substatus").map_or(0, |text| text.parse().expect("a number"))
    }

    pub(crate) fn charge(&self) -> f64 {
        self.header("x-ms-request-charge")
            .expect("every answer has a charge")
            .parse()
            .expect("a number")
    }

    /// The rows of a query or feed.
    pub(crate) fn rows(&self) -> Vec<Value> {
        assert_eq!(self.status, 200, "{}", self.text);
        self.json()["Documents"].as_array().expect("a feed").clone()
    }

    /// The ids of the rows.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.rows().iter().map(|row| row["id"].as_str().expect("an id").to_owned()).collect()
    }
}

/// A request with a date and a signature.
pub(crate) fn signed(
    key: &AccountKey,
    now: SystemTime,
    method: Method,
    path: &str,
    headers: Headers<'_>,
    body: String,
) -> Request<Bytes> {
    let date = HttpDate::new(now).expect("a date of this age");
    let target: RequestPath = path.parse().expect("the path of a resource");
    let link = target.signed_link().into_owned();
    let authorization = key.authorize(&target.signed(&method, &link, date.as_str()));
    let mut request = Request::builder().method(method).uri(path);
    request = request.header("x-ms-date", date.as_str()).header("authorization", authorization);
    request = request.header("x-ms-version", "2020-07-15");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Bytes::from(body)).expect("a well-formed request")
}

/// An account without a socket, whose clock the test advances.
pub(crate) struct Fixture {
    pub(crate) account: Arc<Account>,
    pub(crate) clock: Arc<ManualClock>,
}

impl Fixture {
    pub(crate) fn new(change: impl FnOnce(&mut sidereal_emulator::AccountOptions)) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let mut options =
            sidereal_emulator::AccountOptions { clock: clock.clone(), ..Default::default() };
        change(&mut options);
        Self { account: Arc::new(Account::new(options)), clock }
    }

    pub(crate) fn send(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: Value,
    ) -> Answer {
        Answer::of(self.account.handle(self.request(method, path, headers, body)))
    }

    /// Sends a request to the endpoint of a region; `None` is a refused connection.
    pub(crate) fn send_in(
        &self,
        region: &str,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: Value,
    ) -> Option<Answer> {
        let request = self.request(method, path, headers, body);
        self.account.handle_in(&region.into(), request).map(Answer::of)
    }

    /// A request with the fixture's date and key.
    pub(crate) fn request(
        &self,
        method: Method,
        path: &str,
        headers: Headers<'_>,
        body: Value,
    ) -> Request<Bytes> {
        use sidereal_emulator::Clock;

        let now = self.clock.now().system_time();
        let body = if body.is_null() { String::new() } else { body.to_string() };
        signed(&self.account.options().key, now, method, path, headers, body)
    }

    /// Creates a container `db/c` partitioned by `/pk`, with more properties.
    pub(crate) fn create_container(&self, properties: Value) {
        assert_eq!(self.send(Method::POST, "/dbs", &[], json!({ "id": "db" })).status, 201);
        let mut definition = json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
        for (name, value) in properties.as_object().expect("an object") {
            definition[name] = value.clone();
        }
        let created = self.send(Method::POST, "/dbs/db/colls", &[], definition);
        assert_eq!(created.status, 201, "{created:?}");
    }
}
