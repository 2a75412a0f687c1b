//! An embedded Cosmos DB account.
//!
//! Three ways to talk to it:
//!
//! - [`Emulator`] puts an account behind sockets, for any SDK in any language.
//! - [`AccountEndpoint`] takes requests without a socket and carries out what fault rules do to time and
//!   connections; on a paused tokio clock delays take no time.
//! - [`Account::handle`] is synchronous: a request in, a response out, with time as a parameter.

mod account;
mod admin;
mod advertised_host;
mod blocking_pool;
mod certificate;
mod charge;
mod clock;
mod control;
mod counters;
mod disguise;
mod durability;
mod emulator;
mod endpoint;
mod error;
mod faults;
mod grease;
mod handlers;
mod interruption;
mod millis;
mod operation;
mod options;
mod outcome;
mod region_listeners;
mod reply;
mod request;
mod server;
mod service;
mod state;
mod store;
mod throttle;
mod topology;
mod transient;

pub use account::Account;
pub use admin::{ADMIN_KEY_HEADER, ADMIN_PATH_PREFIX};
pub use advertised_host::{AdvertisedHost, InvalidHost};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use control::{ControlError, LostWrite, RegionState, WriteRegionChange};
pub use counters::CounterRow;
pub use emulator::{Emulator, EmulatorBuilder, StartError};
pub use endpoint::AccountEndpoint;
pub use faults::{
    FaultCondition, FaultEffect, FaultReport, FaultRule, HeaderCondition, InvalidFault, Occurrence,
};
pub use grease::{Certainty, Grease, Latitude, UnknownLatitude};
pub use operation::{Operation, UnknownOperation};
pub use options::AccountOptions;
pub use outcome::{ClientOrigin, ConnectionOutcome};
pub use region_listeners::RegionError;
pub use store::persistence::DataDirectoryError;
