//! A blocking connection that signs its requests: HTTP/1.1 as plainly as it gets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use http::Method;
use sidereal_protocol::{AccountKey, HttpDate, RequestPath};

/// A connection to the emulator, and the key that requests are signed with.
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    host: String,
    key: AccountKey,
}

/// A response: its status, session token and body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) body: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(endpoint: &str, key: &str) -> Self {
        let host = endpoint.trim_start_matches("http://").trim_end_matches('/').to_owned();
        let stream = TcpStream::connect(&host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let key = AccountKey::from_base64(key).unwrap();
        Self { stream: BufReader::new(stream), host, key }
    }

    /// Sends a request; `None` where the process ended before it had answered.
    pub(crate) fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Option<Answer> {
        let request = signed(&self.key, &method, path, headers).body(()).unwrap();
        let mut head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n",
            self.host,
            body.len()
        );
        for (name, value) in request.headers() {
            head.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        self.stream.get_mut().write_all(format!("{head}\r\n{body}").as_bytes()).ok()?;
        self.answer()
    }

    fn answer(&mut self) -> Option<Answer> {
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let (mut length, mut session) = (0, None);
        loop {
            line.clear();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            match name {
                "content-length" => length = value.parse().ok()?,
                "x-ms-session-token" => session = Some(value.to_owned()),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some(Answer { status, session, body })
    }
}

/// A request with a date, a signature and these headers.
pub(crate) fn signed(
    key: &AccountKey,
    method: &Method,
    path: &str,
    headers: &[(&str, &str)],
) -> http::request::Builder {
    let date = HttpDate::new(SystemTime::now()).unwrap();
    let target: RequestPath = path.parse().unwrap();
    let link = target.signed_link().into_owned();
    let authorization = key.authorize(&target.signed(method, &link, date.as_str()));
    let request = http::Request::builder().method(method).uri(path);
    let request = request.header("x-ms-version", "2020-07-15").header("x-ms-date", date.as_str());
    let request = request.header("authorization", authorization);
    headers.iter().fold(request, |request, (name, value)| request.header(*name, *value))
}
