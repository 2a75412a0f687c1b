//! What `sidereal emulator` costs: its start, its memory when empty, point reads over cleartext HTTP/2.
//!
//!     cargo bench -p sidereal-cli --bench emulator
//!
//! The emulator is the command itself, a process of its own; this process is the load generator, on one
//! thread, so that the two share the machine as an application and its emulator would. Requests are
//! signed before the clock runs: the emulator checks every signature, the generator does not pay for
//! making them. Figures of the processes come from `/proc`, so they need Linux.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::Value;
use sidereal_protocol::headers::names;
use sidereal_protocol::{AccountKey, HttpDate, RequestPath};

const STARTS: usize = 21;
const ITEMS: usize = 1000;
const CONNECTIONS: usize = 4;
const STREAMS_PER_CONNECTION: usize = 20;
const WARM_UP: Duration = Duration::from_secs(1);
const MEASURED: Duration = Duration::from_secs(5);

/// What one tick of `/proc/PID/stat` is on every Linux that Rust runs on.
const TICK: Duration = Duration::from_millis(10);

/// The regions of the account: one, and three of which two only read.
const ACCOUNTS: [&str; 2] = ["West US", "West US,East US,North Europe"];

fn main() {
    let directory = std::env::temp_dir().join(format!("sidereal-bench-{}", std::process::id()));
    let first = Emulator::start(&directory, ACCOUNTS[0]).started;
    for regions in ACCOUNTS {
        println!("\nregions: {regions}");
        measure(&directory, regions);
    }
    println!("\nfirst start, with a new certificate: {first:.1?}");
    let _ = fs::remove_dir_all(directory); // Best effort: the system empties its own.
}

fn measure(directory: &PathBuf, regions: &str) {
    let mut starts: Vec<Duration> =
        (0..STARTS).map(|_| Emulator::start(directory, regions).started).collect();
    starts.sort();
    let (median, slowest) = (starts[STARTS / 2], starts[STARTS - 1]);
    println!("start to first answer   {median:.1?} (median of {STARTS}; slowest {slowest:.1?})");

    let emulator = Emulator::start(directory, regions);
    println!("memory when empty       {:.1} MB resident", emulator.resident_megabytes());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let load = runtime.block_on(load(&emulator));
    let rate = load.reads as f64 / load.elapsed.as_secs_f64();
    let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / load.reads as f64;
    println!(
        "point reads             {rate:.0} /s over cleartext HTTP/2 \
         ({CONNECTIONS} connections of {STREAMS_PER_CONNECTION} streams)"
    );
    println!("  CPU per read            {:.1} µs emulator", each(load.emulator_cpu));
    println!("                          {:.1} µs load generator", each(load.own_cpu));
    println!("memory with {ITEMS} items  {:.1} MB resident", emulator.resident_megabytes());
}

/// The command at work; killed when dropped.
struct Emulator {
    process: Child,
    address: SocketAddr,
    key: AccountKey,
    /// From its start as a process to its first answer.
    started: Duration,
}

impl Emulator {
    fn start(certificates: &PathBuf, regions: &str) -> Self {
        let start = Instant::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_sidereal"))
            .args(["emulator", "--json", "--port", "0", "--regions", regions, "--certificate-dir"])
            .arg(certificates)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let facts: Value = serde_json::from_str(&line).unwrap();
        let endpoint = facts["http_endpoint"].as_str().unwrap();
        let address = endpoint.trim_start_matches("http://").trim_end_matches('/');
        let address: SocketAddr = address.parse().unwrap();
        probe(address);
        let started = start.elapsed();
        let key = AccountKey::from_base64(facts["key"].as_str().unwrap()).unwrap();
        Self { process, address, key, started }
    }

    fn resident_megabytes(&self) -> f64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kilobytes: f64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kilobytes * 1024.0 / 1e6
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It may have ended by itself.
        let _ = self.process.wait();
    }
}

fn probe(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /probe HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// The processor time that a process has used, in user and kernel mode.
fn cpu_of(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: u32 =
        after_name.split_whitespace().skip(11).take(2).map(|n| n.parse::<u32>().unwrap()).sum();
    TICK * ticks
}

struct Load {
    reads: u64,
    elapsed: Duration,
    emulator_cpu: Duration,
    own_cpu: Duration,
}

async fn load(emulator: &Emulator) -> Load {
    fill(emulator).await;
    let requests: Vec<Request<()>> = (0..ITEMS).map(|number| read(emulator, number)).collect();
    let requests: &'static [Request<()>] = requests.leak();
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        connections.push(connect(emulator.address).await);
    }
    let begin = Instant::now() + WARM_UP;
    let end = begin + MEASURED;
    let mut readers = Vec::new();
    for (index, connection) in connections.iter().cycle().enumerate() {
        if index == CONNECTIONS * STREAMS_PER_CONNECTION {
            break;
        }
        let first = index * ITEMS / (CONNECTIONS * STREAMS_PER_CONNECTION);
        readers.push(tokio::spawn(read_until(connection.clone(), requests, first, begin, end)));
    }
    tokio::time::sleep_until(begin.into()).await;
    let own = std::process::id();
    let (emulator_before, own_before) = (cpu_of(emulator.process.id()), cpu_of(own));
    tokio::time::sleep_until(end.into()).await;
    let (emulator_after, own_after) = (cpu_of(emulator.process.id()), cpu_of(own));
    let elapsed = begin.elapsed();
    let mut reads = 0;
    for reader in readers {
        reads += reader.await.unwrap();
    }
    Load {
        reads,
        elapsed,
        emulator_cpu: emulator_after - emulator_before,
        own_cpu: own_after - own_before,
    }
}

/// Reads one item after the other on one stream; answers how many reads fell into the measured time.
async fn read_until(
    mut connection: SendRequest<Bytes>,
    requests: &'static [Request<()>],
    first: usize,
    begin: Instant,
    end: Instant,
) -> u64 {
    let mut reads = 0;
    for request in requests.iter().cycle().skip(first) {
        let (status, _) = exchange(&mut connection, request.clone(), Bytes::new()).await;
        assert_eq!(status, StatusCode::OK);
        let now = Instant::now();
        if now >= end {
            break;
        }
        reads += u64::from(now >= begin);
    }
    reads
}

async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let (connection, driver) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(async move { driver.await.unwrap() });
    connection
}

async fn exchange(
    connection: &mut SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
) -> (StatusCode, usize) {
    std::future::poll_fn(|context| connection.poll_ready(context)).await.unwrap();
    let (response, mut stream) = connection.send_request(request, body.is_empty()).unwrap();
    if !body.is_empty() {
        stream.send_data(body, true).unwrap();
    }
    let (parts, mut body) = response.await.unwrap().into_parts();
    let mut size = 0;
    while let Some(data) = body.data().await {
        let data = data.unwrap();
        size += data.len();
        body.flow_control().release_capacity(data.len()).unwrap();
    }
    (parts.status, size)
}

/// A database, a container, and the items to read.
async fn fill(emulator: &Emulator) {
    let mut connection = connect(emulator.address).await;
    let container = r#"{"id":"c","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    for (path, body) in [("/dbs", r#"{"id":"d"}"#), ("/dbs/d/colls", container)] {
        let request = signed(emulator, Method::POST, path, HeaderMap::new());
        let (status, _) = exchange(&mut connection, request, body.into()).await;
        assert_eq!(status, StatusCode::CREATED, "{path}");
    }
    for number in 0..ITEMS {
        let body = format!(r#"{{"id":"{number}","text":"{}"}}"#, "x".repeat(500));
        let request = signed(emulator, Method::POST, "/dbs/d/colls/c/docs", key_of(number));
        let (status, _) = exchange(&mut connection, request, body.into()).await;
        assert_eq!(status, StatusCode::CREATED);
    }
}

fn read(emulator: &Emulator, number: usize) -> Request<()> {
    signed(emulator, Method::GET, &format!("/dbs/d/colls/c/docs/{number}"), key_of(number))
}

fn key_of(number: usize) -> HeaderMap {
    let key = HeaderValue::try_from(format!(r#"["{number}"]"#)).unwrap();
    HeaderMap::from_iter([(names::PARTITION_KEY, key)])
}

fn signed(emulator: &Emulator, method: Method, path: &str, mut headers: HeaderMap) -> Request<()> {
    let date = HttpDate::new(SystemTime::now()).unwrap().to_string();
    let parsed: RequestPath = path.parse().unwrap();
    let link = parsed.signed_link();
    let token = emulator.key.authorize(&parsed.signed(&method, &link, &date));
    headers.insert(names::DATE, HeaderValue::try_from(date).unwrap());
    headers.insert(http::header::AUTHORIZATION, token);
    headers.insert(names::VERSION, HeaderValue::from_static("2020-07-15"));
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = format!("http://{}{path}", emulator.address).parse().unwrap();
    *request.headers_mut() = headers;
    request
}
