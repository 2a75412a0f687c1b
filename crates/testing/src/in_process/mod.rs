//! Driver and account in one process, without sockets: an [`HttpClientFactory`](sidereal_driver::transport::HttpClientFactory)
//! that hands requests to an account of the emulator over a simulated network.
//!
//! Latency, loss and outages are values drawn from a seed, and all waiting is tokio's. On a paused clock
//! (`start_paused`) a test therefore runs thousands of operations a second, and the same seed gives the
//! same run, down to the diagnostics.
//!
//! The network is simulated, not HTTP: framing, flow control and TLS have tests over sockets.

mod account_clock;
mod client;
mod factory;
mod interruption;
mod network;
mod recorder;
pub mod scripting;

pub use account_clock::TokioAccountClock;
pub use factory::{InProcessAccount, InProcessFactory};
pub use interruption::{InterruptingFactory, Interruption};
pub use network::{Delivery, NetworkFaults, SimulatedNetwork};
pub use recorder::{RecordingFactory, SentRequest};
