//! The end of standard input, which a child process takes for the end of its parent.

use std::io::{self, Read};

use tokio::sync::oneshot;

/// Resolves when standard input is closed. Input is read and dropped.
///
/// The pipe is closed by the system too: the parent may have been killed.
pub(crate) async fn closed() {
    let (sender, receiver) = oneshot::channel::<()>();
    // A thread and not a task: a blocked read would keep the runtime from ending. It ends with the process.
    std::thread::spawn(move || {
        let _sender = sender; // Dropped at the end of the input.
        let mut buffer = [0; 512];
        loop {
            match io::stdin().read(&mut buffer) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    });
    let _ = receiver.await; // Only ever dropped: nothing is sent.
}
