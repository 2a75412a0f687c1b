//! Tunnels through a proxy: `CONNECT` and its responses.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::exchange::{Endpoint, HttpError, HttpErrorKind, RequestSentStatus};
use crate::transport::ProxyConfig;

/// The most bytes of a proxy's response that are read.
const MAX_REPLY_BYTES: usize = 8 * 1024;

/// Asks the proxy at the other end of a connection for a tunnel to an endpoint.
pub(super) async fn open(
    mut stream: TcpStream,
    endpoint: &Endpoint,
    proxy: &ProxyConfig,
) -> Result<TcpStream, HttpError> {
    let request = request(endpoint, proxy);
    let lost = |error: io::Error| transient(proxy, "closed the connection").caused_by(error);
    stream.write_all(&request).await.map_err(lost)?;
    let reply = read_reply(&mut stream, proxy).await?;
    match status_of(&reply) {
        // RFC 9110, section 9.3.6: any 2xx switches to tunnel mode.
        Some(200..=299) => Ok(stream),
        Some(407) => Err(tunnel_error(
            proxy,
            "wants credentials it did not get (407): put them into its address, \
             as in http://user:password@proxy:3128",
        )),
        // The proxy, or its way to the endpoint, fails for the moment (RFC 9110, section 15.6).
        Some(status @ (408 | 429 | 500..=599)) => Err(transient(
            proxy,
            &format!("failed to open a tunnel to {endpoint} (status {status})"),
        )),
        Some(status) => {
            Err(tunnel_error(proxy, &format!("refused a tunnel to {endpoint} (status {status})")))
        }
        None => Err(tunnel_error(proxy, "does not speak HTTP")),
    }
}

fn request(endpoint: &Endpoint, proxy: &ProxyConfig) -> Vec<u8> {
    // Authority form (RFC 9112, section 3.2.3): an IPv6 address needs its brackets.
    let host = match endpoint.host().contains(':') {
        true => format!("[{}]", endpoint.host()),
        false => endpoint.host().to_owned(),
    };
    let target = format!("{host}:{}", endpoint.port());
    let mut request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(authorization) = proxy.authorization() {
        request.extend_from_slice(b"Proxy-Authorization: ");
        request.extend_from_slice(authorization.expose_secret().as_bytes());
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"\r\n");
    request
}

/// Reads up to the empty line, byte by byte: what follows belongs to the tunnel, and a buffered reader would
/// swallow it.
async fn read_reply(stream: &mut TcpStream, proxy: &ProxyConfig) -> Result<Vec<u8>, HttpError> {
    let mut reply = Vec::with_capacity(256);
    while !reply.ends_with(b"\r\n\r\n") {
        if reply.len() == MAX_REPLY_BYTES {
            return Err(tunnel_error(proxy, "answered with a head that does not end"));
        }
        let byte = stream.read_u8().await;
        reply.push(
            byte.map_err(|error| transient(proxy, "closed the connection").caused_by(error))?,
        );
    }
    Ok(reply)
}

fn status_of(reply: &[u8]) -> Option<u16> {
    let line = str::from_utf8(reply).ok()?.lines().next()?;
    let mut words = line.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    words.next()?.parse().ok()
}

/// A refusal that a retry would meet again.
fn tunnel_error(proxy: &ProxyConfig, what: &str) -> HttpError {
    error(HttpErrorKind::Proxy, proxy, what)
}

/// A failure that a retry may not meet.
fn transient(proxy: &ProxyConfig, what: &str) -> HttpError {
    error(HttpErrorKind::Connect, proxy, what)
}

fn error(kind: HttpErrorKind, proxy: &ProxyConfig, what: &str) -> HttpError {
    let sentence = format!("the proxy {}:{} {what}", proxy.host(), proxy.port());
    HttpError::new(kind, RequestSentStatus::NotSent, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        assert_eq!(status_of(b"HTTP/1.1 200 Connection established\r\n\r\n"), Some(200));
        assert_eq!(status_of(b"HTTP/1.0 407 \r\nX: y\r\n\r\n"), Some(407));
        assert_eq!(status_of(b"SSH-2.0-OpenSSH\r\n\r\n"), None);
        assert_eq!(status_of(b"\r\n\r\n"), None);
    }

    #[test]
    fn the_target_names_host_and_port_and_the_credentials_go_along() {
        let endpoint = "https://contoso.documents.azure.com/".parse().unwrap();
        let proxy = ProxyConfig::parse("http://me:secret@proxy:3128").unwrap();
        let text = String::from_utf8(request(&endpoint, &proxy)).unwrap();
        assert!(text.starts_with("CONNECT contoso.documents.azure.com:443 HTTP/1.1\r\nHost: "));
        assert!(text.contains("\r\nProxy-Authorization: Basic "));
        assert!(text.ends_with("\r\n\r\n"));
    }
}
