//! `sidereal demo`: an account of several regions, orchestrations on it, and outages on a schedule.
//!
//! What is decided is pure: [`schedule`] (what happens when), [`workload`]'s orders (what has to be left behind),
//! [`verdict`] (whether it was). [`run`] is the shell around it: it starts the account ([`stage`]), does to it what the
//! schedule says ([`director`]), looks at it ([`observe`]), draws ([`view`]), reads the outcome ([`ledger`]), and writes it up ([`report`]).

mod arguments;
mod director;
mod error;
mod forced;
mod histogram;
mod ledger;
mod observe;
mod report;
mod run;
mod schedule;
mod stage;
mod verdict;
mod view;
mod workload;

pub(crate) use arguments::DemoArguments;
pub(crate) use run::run;
