//! TCP connections: name resolution, Happy Eyeballs (RFC 8305), keep-alive.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpSocket, TcpStream, lookup_host};
use tokio::task::JoinSet;

use crate::transport::HttpClientConfig;

/// The connection attempt delay: how long one address may be silent before the next is tried beside it.
/// RFC 8305, section 5, recommends this value.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The most addresses of a name that are tried: with the delay above, all have begun within two seconds.
const MAX_ADDRESSES: usize = 8;

/// Connects to the first address of a host that answers.
///
/// Addresses are tried in the resolver's order (RFC 6724), each with a head start, so that an unreachable one
/// costs a quarter of a second and not the whole connect timeout. Attempts that lose are closed.
pub(super) async fn connect(
    host: &str,
    port: u16,
    config: &HttpClientConfig,
) -> io::Result<TcpStream> {
    let mut addresses = resolve(host, port, config.local_address).await?.into_iter();
    let mut attempts = JoinSet::new();
    let mut failure = None;
    loop {
        if let Some(address) = addresses.next() {
            attempts.spawn(connect_to(
                address,
                config.local_address,
                config.tcp_keepalive_interval,
            ));
        }
        let more = addresses.len() > 0;
        let finished = tokio::select! {
            // The connection first: one that is ready when the delay ends needs no competitor.
            biased;
            finished = attempts.join_next() => finished,
            () = tokio::time::sleep(ATTEMPT_DELAY), if more => continue,
        };
        match finished {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => failure = Some(error),
            Some(Err(error)) => failure = Some(io::Error::other(error)),
            None if more => {}
            None => break,
        }
    }
    Err(failure.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "it has no address")))
}

async fn resolve(host: &str, port: u16, local: Option<IpAddr>) -> io::Result<Vec<SocketAddr>> {
    let reachable =
        |address: &SocketAddr| local.is_none_or(|local| local.is_ipv4() == address.is_ipv4());
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let addresses = lookup_host((host, port)).await?;
    Ok(addresses.filter(reachable).take(MAX_ADDRESSES).collect())
}

async fn connect_to(
    address: SocketAddr,
    local: Option<IpAddr>,
    keepalive: Duration,
) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(local) = local {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    let stream = socket.connect(address).await?;
    // Nagle's algorithm would hold a small request back until the last one is acknowledged.
    stream.set_nodelay(true)?;
    let probing = TcpKeepalive::new().with_time(keepalive).with_interval(keepalive);
    SockRef::from(&stream).set_tcp_keepalive(&probing)?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;
    use crate::transport::net::factory::tests::plain_config;

    #[tokio::test]
    async fn a_connection_is_probed_at_the_interval_of_the_settings() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let config = plain_config();
        let port = listener.local_addr().unwrap().port();
        let stream = connect("127.0.0.1", port, &config).await.unwrap();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), config.tcp_keepalive_interval);
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), config.tcp_keepalive_interval);
    }

    #[tokio::test]
    async fn a_connection_starts_from_the_local_address_of_the_settings() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let local = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 3));
        let config = HttpClientConfig { local_address: Some(local), ..plain_config() };
        let port = listener.local_addr().unwrap().port();
        let stream = connect("127.0.0.1", port, &config).await.unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), local);
    }

    #[tokio::test]
    async fn a_refused_connection_is_an_error_with_its_cause() {
        let port = {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            listener.local_addr().unwrap().port()
        };
        let error = connect("localhost", port, &plain_config()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
