//! Faults on command, between sharding and the HTTP client.
//!
//! A [`FaultInjectingHttpClientFactory`] wraps the factory that makes real clients. Everything above it
//! (shards and their health, retries, failover) meets an injected fault as it would meet a real one.
//!
//! A [`FaultInjectionRule`] says which requests it is about, what happens to them, how likely, how often
//! and when. [`decide`] picks the rule for a request and touches nothing; the client acts on it.
//!
//! What a rule cannot see is the region: at this level there are endpoints.

mod client;
mod condition;
mod factory;
mod result;
mod rule;

pub use client::FaultInjectingHttpClient;
pub use condition::{FaultInjectionCondition, RequestView};
pub use factory::FaultInjectingHttpClientFactory;
pub use result::{ConnectFault, Delivery, FaultInjectionResult, InjectedAnswer};
pub use rule::{FaultInjectionRule, decide};

#[cfg(test)]
mod tests;
