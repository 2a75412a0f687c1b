//! An account of several regions, orchestrations on it, and outages on a schedule.
//!
//! `sidereal demo` is [`run`]: it starts an account on this machine and an application on it, does to the account what
//! a schedule says, and compares what the orchestrations left behind with what follows from the seed.
//!
//! What is decided is pure: `schedule` (what happens when), `workload`'s orders (what has to be left behind),
//! `verdict` (whether it was). `run` is the shell around it: it starts the account (`stage`), does to it what the
//! schedule says (`director`), looks at it (`observe`), draws (`view`), reads the outcome (`ledger`), and writes it up
//! (`report`).

mod director;
mod error;
mod forced;
mod histogram;
mod ledger;
mod observe;
mod print;
mod regions;
mod report;
mod run;
mod schedule;
mod stage;
mod verdict;
mod view;
mod workload;

pub use error::DemoError;
pub use regions::Regions;
pub use run::{DURATIONS, Demo, run};
