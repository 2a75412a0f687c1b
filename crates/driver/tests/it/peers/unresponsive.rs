//! Addresses at which nothing happens.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::TcpStream;

use sidereal_testing::peers::{FullListener, SilentListener};

#[tokio::test]
async fn a_silent_listener_accepts_and_says_nothing() {
    let listener = SilentListener::start().await;
    let socket = TcpStream::connect(listener.address()).await.unwrap();
    listener.until_accepted(1).await;
    assert_eq!(socket.try_read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
}

/// That nothing happens can be shown for some time only.
#[tokio::test]
async fn connecting_to_a_full_listener_hangs() {
    let listener = FullListener::start().await;
    let connecting = TcpStream::connect(listener.address());
    assert!(tokio::time::timeout(Duration::from_millis(200), connecting).await.is_err());
}
