//! An HTTP proxy for CONNECT, on loopback.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use super::http1::{read_head, take_head};
use super::record::Record;
use super::request::PeerRequest;
use super::wire::Buffers;

/// A proxy at work. It stops when dropped, with all its tunnels.
pub struct ConnectProxy {
    address: SocketAddr,
    seen: Record<ProxySeen>,
    accepting: JoinHandle<()>,
}

/// The record of a proxy.
#[derive(Clone, Debug, Default)]
pub struct ProxySeen {
    /// The requests in the order in which they came, whatever became of them.
    pub requests: Vec<ProxyRequest>,
    /// Tunnels that were ever opened.
    pub tunnels: usize,
    /// Tunnels that are open now.
    pub open_tunnels: usize,
}

/// One request to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyRequest {
    /// The method; CONNECT for a tunnel.
    pub method: String,
    /// The host and port that the client wants to reach.
    pub target: String,
    /// The `proxy-authorization` field.
    pub authorization: Option<String>,
}

#[derive(Clone, Debug)]
enum Policy {
    Open,
    /// Opens tunnels for who sends this `proxy-authorization`, and answers others with 407.
    Credentials(String),
    Refuse {
        status: u16,
        body: String,
    },
    /// Takes the request and never answers it.
    Silent,
}

#[derive(Debug)]
struct Rules {
    policy: Policy,
    /// Where every tunnel leads, whatever its target.
    to: Option<SocketAddr>,
}

impl ConnectProxy {
    /// Opens a tunnel for anybody, to targets on loopback.
    pub async fn open() -> Self {
        Self::start(Rules { policy: Policy::Open, to: None }).await
    }

    /// Opens a tunnel for anybody, and leads each to `address`: so a target can have any name.
    pub async fn open_to(address: SocketAddr) -> Self {
        Self::start(Rules { policy: Policy::Open, to: Some(address) }).await
    }

    /// Opens a tunnel for who knows the user and the password.
    pub async fn with_credentials(user: &str, password: &str) -> Self {
        let expected = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        Self::start(Rules { policy: Policy::Credentials(expected), to: None }).await
    }

    /// Opens no tunnel, and says so.
    pub async fn refusing(status: u16, body: &str) -> Self {
        let policy = Policy::Refuse { status, body: body.to_owned() };
        Self::start(Rules { policy, to: None }).await
    }

    /// Accepts connections and requests, and says nothing.
    pub async fn silent() -> Self {
        Self::start(Rules { policy: Policy::Silent, to: None }).await
    }

    /// The socket address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address as a client is given it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The record of the proxy so far.
    pub fn seen(&self) -> ProxySeen {
        self.seen.now()
    }

    /// Waits until what the proxy has seen meets the condition.
    pub async fn until(&self, condition: impl Fn(&ProxySeen) -> bool) -> ProxySeen {
        self.seen.until(condition).await
    }

    async fn start(rules: Rules) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Record::new(ProxySeen::default());
        let accepting = tokio::spawn(accept_all(listener, Arc::new(rules), seen.clone()));
        Self { address, seen, accepting }
    }
}

impl Drop for ConnectProxy {
    fn drop(&mut self) {
        self.accepting.abort(); // The tunnels are the task's own and end with it.
    }
}

async fn accept_all(listener: TcpListener, rules: Arc<Rules>, seen: Record<ProxySeen>) {
    let mut clients = JoinSet::new();
    loop {
        let (client, _) = listener.accept().await.unwrap();
        let (rules, seen) = (Arc::clone(&rules), seen.clone());
        clients.spawn(async move {
            // A client or target that goes away ends its tunnel, which is all there is to it.
            let _ = attend(client, &rules, &seen).await;
        });
    }
}

async fn attend(mut client: TcpStream, rules: &Rules, seen: &Record<ProxySeen>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut buffers = Buffers::default();
    let request = read_request(&mut client, &mut buffers).await?;
    let authorization = request.header("proxy-authorization").map(str::to_owned);
    let noted = ProxyRequest {
        method: request.method.clone(),
        target: request.path.clone(),
        authorization: authorization.clone(),
    };
    seen.change(|seen| seen.requests.push(noted));
    match &rules.policy {
        Policy::Credentials(expected) if authorization.as_ref() != Some(expected) => {
            let challenge = "proxy-authenticate: Basic realm=\"sidereal\"\r\n";
            refuse(client, 407, challenge, "credentials are required").await
        }
        Policy::Refuse { status, body } => refuse(client, *status, "", body).await,
        Policy::Silent => std::future::pending().await,
        Policy::Open | Policy::Credentials(_) => match target_of(&request, rules) {
            Some(target) => tunnel(client, target, &buffers, seen).await,
            None => refuse(client, 502, "", "no way leads there").await,
        },
    }
}

async fn read_request(client: &mut TcpStream, buffers: &mut Buffers) -> io::Result<PeerRequest> {
    loop {
        if let Some(head) = take_head(buffers)? {
            return Ok(read_head(1, &head)?.0);
        }
        if client.read_buf(&mut buffers.incoming).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

/// Where the tunnel leads: never beyond loopback.
fn target_of(request: &PeerRequest, rules: &Rules) -> Option<SocketAddr> {
    let (host, port) = request.path.rsplit_once(':')?;
    match rules.to {
        _ if request.method != "CONNECT" => None,
        Some(address) => Some(address),
        None if matches!(host, "localhost" | "127.0.0.1") => {
            Some((Ipv4Addr::LOCALHOST, port.parse().ok()?).into())
        }
        None => None,
    }
}

async fn refuse(mut client: TcpStream, status: u16, fields: &str, body: &str) -> io::Result<()> {
    let length = body.len();
    let answer =
        format!("HTTP/1.1 {status} Refused\r\n{fields}content-length: {length}\r\n\r\n{body}");
    client.write_all(answer.as_bytes()).await?;
    client.shutdown().await
}

async fn tunnel(
    mut client: TcpStream,
    target: SocketAddr,
    read_ahead: &Buffers,
    seen: &Record<ProxySeen>,
) -> io::Result<()> {
    let Ok(mut server) = TcpStream::connect(target).await else {
        return refuse(client, 502, "", "the target does not answer").await;
    };
    server.set_nodelay(true)?;
    seen.change(|seen| {
        seen.tunnels += 1;
        seen.open_tunnels += 1;
    });
    let carried = async {
        client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
        server.write_all(&read_ahead.incoming).await?;
        tokio::io::copy_bidirectional(&mut client, &mut server).await
    };
    let result = carried.await;
    seen.change(|seen| seen.open_tunnels -= 1);
    result.map(drop)
}
