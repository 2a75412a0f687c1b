//! A minimal HTTP/2 server over TLS, as a process of its own.

use std::convert::Infallible;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::CertificateDer;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::request::BODY_BYTES;

/// The argument that makes this program the server.
pub(crate) const ARGUMENT: &str = "--serve";

/// The server at work; killed when dropped.
pub(crate) struct ServerProcess {
    process: Child,
    pub(crate) port: u16,
    pub(crate) root: CertificateDer<'static>,
}

impl ServerProcess {
    pub(crate) fn start() -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .arg(ARGUMENT)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap().parse().unwrap();
        let root = lines.next().unwrap().unwrap();
        let byte = |at: usize| u8::from_str_radix(&root[at..at + 2], 16).unwrap();
        let root: Vec<u8> = (0..root.len()).step_by(2).map(byte).collect();
        Self { process, port, root: root.into() }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It may have ended by itself.
        let _ = self.process.wait();
    }
}

/// Serves until it is killed. Port and certificate go to the standard output.
pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = made.signing_key.serialize_der().try_into().unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tls = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let hex: String = certificate.iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{}\n{hex}", listener.local_addr().unwrap().port());
        std::io::stdout().flush().unwrap();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let tls = tls.clone();
            tokio::spawn(async move {
                let stream = TokioIo::new(tls.accept(stream).await.unwrap());
                let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .max_concurrent_streams(20)
                    .serve_connection(stream, service_fn(answer))
                    .await;
                // A client that is done closes its connection as it likes.
                let _ = served;
            });
        }
    });
}

async fn answer(
    request: http::Request<hyper::body::Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if !hyper::body::Body::is_end_stream(request.body()) {
        // The body counts; what is in it does not.
        let _ = request.into_body().collect().await;
    }
    let answer = Response::builder()
        .header("content-type", "application/json")
        .header("x-ms-request-charge", "1.0")
        .header("x-ms-activity-id", "0b64d8c2-5b8e-4d1c-9d0e-6f1f0c7f2b22")
        .header("x-ms-session-token", "0:1#4712#1=4700#2=4699")
        .header("etag", "\"0000d826-0000-0700-0000-5f2d1ff00000\"")
        .header("x-ms-request-duration-ms", "0.412")
        .body(Full::new(Bytes::from_static(&[b'x'; BODY_BYTES])));
    Ok(answer.unwrap())
}
