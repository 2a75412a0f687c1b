//! One request to the admin API and its answer: HTTP/1.1 in cleartext, a connection for each.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use sidereal_emulator::{ADMIN_KEY_HEADER, ADMIN_PATH_PREFIX};
use sidereal_protocol::AccountKey;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::ChaosError;

/// No response of the admin API takes longer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Host and port of an emulator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint(String);

impl FromStr for Endpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Option<Uri> = text.parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority).map(ToString::to_string);
        // The emulator's port is never HTTP's default one, so an address without a port is a slip.
        let authority = authority.filter(|authority| authority.rsplit_once(':').is_some());
        match (uri.as_ref().and_then(Uri::scheme_str), authority) {
            (Some("http"), Some(authority)) => Ok(Self(authority)),
            (Some("https"), Some(authority)) => Err(format!(
                "the emulator answers without TLS on the same port: write http://{authority}"
            )),
            _ => Err("expected an address such as http://127.0.0.1:8081".to_owned()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "http://{}", self.0)
    }
}

/// One request to the admin API.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) method: Method,
    /// Below the API's prefix.
    pub(super) path: String,
    pub(super) body: Option<Value>,
}

/// Sends a request and gives the answer's body.
pub(super) async fn send(
    endpoint: &Endpoint,
    key: &AccountKey,
    call: Call,
) -> Result<Value, ChaosError> {
    let timed_out = |_| ChaosError::TimedOut { address: endpoint.to_string() };
    let (status, body) =
        timeout(TIMEOUT, exchange(endpoint, key, call)).await.map_err(timed_out)??;
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let not_an_emulator = || ChaosError::NotAnEmulator { address: endpoint.to_string() };
    match (status, body) {
        (StatusCode::OK, Some(body)) => Ok(body),
        (StatusCode::UNAUTHORIZED, _) => Err(ChaosError::WrongKey),
        (status, Some(body)) => {
            let message = body["message"].as_str().ok_or_else(not_an_emulator)?.to_owned();
            Err(ChaosError::Refused { status, message })
        }
        (_, None) => Err(not_an_emulator()),
    }
}

async fn exchange(
    endpoint: &Endpoint,
    key: &AccountKey,
    call: Call,
) -> Result<(StatusCode, Bytes), ChaosError> {
    let Endpoint(authority) = endpoint;
    let stream = TcpStream::connect(authority)
        .await
        .map_err(|source| ChaosError::Connect { address: endpoint.to_string(), source })?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::spawn(connection);
    let body = call.body.map(|body| body.to_string()).unwrap_or_default();
    let request = Request::builder()
        .method(call.method)
        .uri(format!("{ADMIN_PATH_PREFIX}{}", call.path))
        .header(HOST, authority)
        .header(ADMIN_KEY_HEADER, key.expose_secret())
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body)))
        .expect("the path is encoded, and keys and addresses are header values");
    let (parts, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    driver.abort(); // Keep-alive would hold the connection open for nothing.
    Ok((parts.status, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_an_http_address_with_a_port() {
        assert_eq!("http://127.0.0.1:8081/".parse(), Ok(Endpoint("127.0.0.1:8081".to_owned())));
        let tls = "https://127.0.0.1:8081".parse::<Endpoint>().unwrap_err();
        assert!(tls.contains("http://127.0.0.1:8081"), "{tls}");
        for wrong in ["127.0.0.1:8081", "http://localhost", "nonsense", ""] {
            assert!(wrong.parse::<Endpoint>().is_err(), "{wrong}");
        }
    }
}
