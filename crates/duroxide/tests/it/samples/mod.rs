//! The samples of duroxide's own suite, one test each under the same name, on an account over sockets and on real
//! time.

mod cancellation;
mod continue_as_new;
mod control_flow;
mod detached;
mod errors;
mod events;
mod key_values;
mod statistics;
mod sub_orchestrations;
mod tags;
mod typed;
mod versioning;
