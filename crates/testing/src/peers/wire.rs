//! Moving bytes between a socket and two buffers.
//!
//! The protocols ([`http1`](super::http1), [`http2`](super::http2)) only ever see the buffers, so
//! they are plain state machines: what a peer thinks of a frame is settled before any byte of its
//! answer leaves, and a record of it is never behind what the client can know.

use std::io;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::stream::PeerStream;
use crate::{TEST_TIMEOUT, within_timeout};

/// How much is read at a time.
const READ_SIZE: usize = 16 * 1024;

/// Bytes that were received and not parsed yet, and bytes to send.
#[derive(Default)]
pub(crate) struct Buffers {
    pub(crate) incoming: BytesMut,
    pub(crate) outgoing: BytesMut,
}

/// A socket that reads and writes at the same time.
pub(crate) struct Wire {
    reader: ReadHalf<PeerStream>,
    writer: WriteHalf<PeerStream>,
    reading: bool,
    unflushed: bool,
}

/// The result of moving bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Traffic {
    Moved,
    /// The client will send no more.
    Ended,
}

impl Wire {
    pub(crate) fn new(stream: PeerStream) -> Self {
        let (reader, writer) = tokio::io::split(stream);
        Self { reader, writer, reading: true, unflushed: false }
    }

    /// Moves some bytes in whichever direction is possible first. Nothing is lost if this is
    /// dropped before it is done.
    pub(crate) async fn exchange(&mut self, buffers: &mut Buffers) -> io::Result<Traffic> {
        let Self { reader, writer, reading, unflushed } = self;
        let Buffers { incoming, outgoing } = buffers;
        let writing = *unflushed || !outgoing.is_empty();
        incoming.reserve(READ_SIZE);
        // Unbiased, so that neither direction starves the other.
        tokio::select! {
            read = reader.read_buf(incoming), if *reading => {
                Ok(if read? == 0 { Traffic::Ended } else { Traffic::Moved })
            }
            written = write_some(writer, outgoing, unflushed), if writing => {
                written.map(|()| Traffic::Moved)
            }
            else => std::future::pending().await,
        }
    }

    /// Writes everything that is to go, and reads nothing meanwhile.
    pub(crate) async fn flush(&mut self, buffers: &mut Buffers) -> io::Result<()> {
        within_timeout("the client to read what the peer wrote", async {
            while self.unflushed || !buffers.outgoing.is_empty() {
                write_some(&mut self.writer, &mut buffers.outgoing, &mut self.unflushed).await?;
            }
            Ok(())
        })
        .await
    }

    /// From now on whatever the client sends stays in the sockets' buffers.
    pub(crate) fn stop_reading(&mut self) {
        self.reading = false;
    }

    /// Says that nothing more will come (FIN), after what is still to go, and reads on into nothing:
    /// closing a socket with unread bytes would turn the orderly end into a reset.
    pub(crate) async fn close(mut self, mut buffers: Buffers) {
        let ending = async {
            self.flush(&mut buffers).await?;
            self.writer.shutdown().await?;
            tokio::io::copy(&mut self.reader, &mut tokio::io::sink()).await
        };
        // A client that is gone already is what closing is for, and one that never closes its own
        // side must not keep the peer forever.
        let _ = tokio::time::timeout(TEST_TIMEOUT, ending).await;
    }

    /// Resets the connection, after what is still to go.
    pub(crate) async fn abort(mut self, mut buffers: Buffers) {
        let _ = self.flush(&mut buffers).await; // The client may be gone; so will be the connection.
        self.reader.unsplit(self.writer).abort();
    }
}

/// Whether the error is only how a client's departure looks from here: with something unread a close
/// becomes a reset, and TLS misses its close_notify.
pub(crate) fn is_loss(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

async fn write_some(
    writer: &mut WriteHalf<PeerStream>,
    outgoing: &mut BytesMut,
    unflushed: &mut bool,
) -> io::Result<()> {
    if outgoing.is_empty() {
        writer.flush().await?;
        *unflushed = false;
    } else {
        // Set first: TLS may hold bytes back even when the write is dropped half way.
        *unflushed = true;
        writer.write_buf(outgoing).await?;
    }
    Ok(())
}
