//! The client to compare with: hyper, its connections shared by hand.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::request::{BODY_BYTES, PATH, Shape, common_headers, own_headers};
use crate::server::ServerProcess;

pub(crate) struct Bare {
    connections: Vec<SendRequest<Full<Bytes>>>,
    shape: Shape,
    uri: http::Uri,
    common: Vec<(HeaderName, HeaderValue)>,
    own: HeaderMap,
    body: Bytes,
}

impl Bare {
    pub(crate) async fn connect(server: &ServerProcess, connections: usize, shape: Shape) -> Self {
        let mut made = Vec::new();
        for _ in 0..connections {
            made.push(connect(server).await);
        }
        Self {
            connections: made,
            shape,
            uri: format!("https://localhost:{}{PATH}", server.port).parse().unwrap(),
            common: common_headers(),
            own: own_headers(),
            body: shape.body(),
        }
    }

    pub(crate) async fn request(&self, index: usize) {
        let mut headers = HeaderMap::with_capacity(24);
        for (name, value) in &self.common {
            headers.insert(name, value.clone());
        }
        for (name, value) in &self.own {
            headers.insert(name, value.clone());
        }
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.shape.method();
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = headers;
        let mut connection = self.connections[index % self.connections.len()].clone();
        let answer = connection.send_request(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(body.len(), BODY_BYTES);
    }
}

async fn connect(server: &ServerProcess) -> SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(("127.0.0.1", server.port)).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(server.root.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let tls = TlsConnector::from(Arc::new(config));
    let stream = tls.connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(2 * 1024 * 1024)
        .initial_connection_window_size(16 * 1024 * 1024)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(async move {
        connection.await.unwrap();
    });
    sender
}
