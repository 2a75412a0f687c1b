//! What happened, for people and for machines: attempts with their places, times and outcomes.

mod request;

pub use request::{
    Decision, ExecutionContext, NextStep, Phase, RequestDiagnostics, RequestEvent, RequestEventKind,
};
