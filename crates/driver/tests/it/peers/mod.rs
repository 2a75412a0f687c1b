//! The scripted peers do what the tests of the transport rely on.
//!
//! The clients here are the plain `h2` client and raw sockets, so a failure is the peers' own.

mod frame_by_frame;
mod http1;
mod proxy;
mod serving;
mod tls;
mod unresponsive;

use std::net::SocketAddr;

use bytes::{Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use sidereal_testing::peers::{Frame, FrameReader, PeerSettings};
use sidereal_testing::within_timeout;

/// Speaks HTTP/2 over a socket, with nothing done on its own but the connection driven.
async fn http2_over<S>(socket: S) -> SendRequest<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    client
}

async fn http2_to(address: SocketAddr) -> SendRequest<Bytes> {
    http2_over(TcpStream::connect(address).await.unwrap()).await
}

/// Sends a request without a body.
fn get(client: &mut SendRequest<Bytes>, path: &str) -> ResponseFuture {
    let request = Request::get(format!("http://localhost{path}")).body(()).unwrap();
    client.send_request(request, true).unwrap().0
}

/// Waits for a response to its end, and makes room for its body as it comes.
async fn whole(response: ResponseFuture) -> Result<Response<Bytes>, h2::Error> {
    within_timeout("a response", async {
        let (head, mut body) = response.await?.into_parts();
        let mut received = BytesMut::new();
        while let Some(piece) = body.data().await {
            let piece = piece?;
            received.extend_from_slice(&piece);
            body.flow_control().release_capacity(piece.len())?;
        }
        Ok(Response::from_parts(head, received.freeze()))
    })
    .await
}

/// Sends bytes and reads what is answered, up to and with `end`.
async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut S,
    bytes: &str,
    end: &str,
) -> String {
    within_timeout(end, async {
        socket.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with(end) {
            answer.push(socket.read_u8().await.unwrap().into());
        }
        answer
    })
    .await
}

/// A client that sends frames as they are, and keeps to no limit.
struct RawClient {
    socket: TcpStream,
    reader: FrameReader,
    incoming: BytesMut,
}

impl RawClient {
    async fn to(address: SocketAddr) -> Self {
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut client = Self { socket, reader: FrameReader::new(), incoming: BytesMut::new() };
        client.send(Frame::Settings(PeerSettings::new())).await;
        client
    }

    async fn send(&mut self, frame: Frame) {
        let mut bytes = BytesMut::new();
        frame.write(&mut bytes);
        self.socket.write_all(&bytes).await.unwrap();
    }

    async fn get(&mut self, stream: u32, path: &str) {
        let fields = [(":method", "GET"), (":path", path), (":scheme", "http")];
        let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        self.send(Frame::Headers { stream, fields, end: true }).await;
    }

    async fn recv(&mut self) -> Frame {
        within_timeout("a frame of the peer", async {
            loop {
                if let Some(frame) = self.reader.next(&mut self.incoming).unwrap() {
                    return frame;
                }
                let read = self.socket.read_buf(&mut self.incoming).await.unwrap();
                assert_ne!(read, 0, "the peer closed the connection");
            }
        })
        .await
    }
}
