//! An embedded Cosmos DB account.
//!
//! [`Account`] is the account itself, free of any transport: [`Account::handle`] takes a request and
//! gives the answer, with time as a parameter. [`Emulator`] puts it behind a socket.

mod account;
mod admin;
mod charge;
mod clock;
mod control;
mod counters;
mod emulator;
mod error;
mod faults;
mod handlers;
mod interference;
mod millis;
mod operation;
mod outcome;
mod region_state;
mod regional;
mod regions;
mod reply;
mod request;
mod server;
mod store;
mod throttle;

pub use account::{Account, AccountOptions};
pub use clock::{Clock, ManualClock, SystemClock, Timestamp};
pub use control::{LostWrite, UnknownName, WriteRegionChange};
pub use counters::CounterRow;
pub use emulator::{Emulator, EmulatorBuilder, StartError};
pub use faults::{
    FaultCondition, FaultEffect, FaultReport, FaultRule, HeaderCondition, InvalidFault, Occurrence,
};
pub use operation::{Operation, UnknownOperation};
pub use region_state::RegionState;
pub use regional::RegionError;
