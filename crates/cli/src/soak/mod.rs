//! `sidereal soak`: durable workflows while their workers and their account are killed.
//!
//! The parent starts an emulator on a directory and several workers (`supervisor`), starts orchestrations (`load`),
//! kills processes at the moments of a plan, and compares what is left (`remains`) with what follows from the seed
//! (`expected`). `plan`, `program`, `state`, `expected` and `check` are pure; `run` is the order of the effects.

mod arguments;
mod check;
mod expected;
mod judge;
mod kills;
mod ledger;
mod load;
mod names;
mod orchestrations;
mod plan;
mod process;
mod program;
mod remains;
mod report;
mod run;
mod site;
mod state;
mod supervisor;
mod text;
mod worker;

pub(crate) use arguments::SoakArguments;
pub(crate) use run::run;
pub(crate) use worker::{SoakWorkerArguments, run as work};
