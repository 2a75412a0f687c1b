//! Faults on command, between sharding and the HTTP client.
//!
//! A [`FaultInjectingHttpClientFactory`] wraps the factory that makes real clients. Everything above it
//! (shards and their health, retries, failover) meets an injected fault as it would meet a real one.
//!
//! A [`FaultInjectionRule`] says which requests it is about, what happens to them, how likely, how often
//! and when. [`decide`] picks the rule for a request and touches nothing; the client acts on it.
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use sidereal_driver::fault_injection::{
//!     FaultInjectingHttpClientFactory, FaultInjectionCondition, FaultInjectionResult,
//!     FaultInjectionRule,
//! };
//! use sidereal_driver::transport::NetHttpClientFactory;
//!
//! let factory = FaultInjectingHttpClientFactory::new(Arc::new(NetHttpClientFactory::new()));
//! // The first connection to the region is a bad one: ten requests over it lose their responses.
//! let bad_connection = FaultInjectionRule::new("bad connection", FaultInjectionResult::answer_lost())
//!     .when(FaultInjectionCondition::any().host("contoso-westus3.documents.azure.com").client(0))
//!     .with_hit_limit(10)
//!     .lasting(Duration::from_secs(60));
//! let rule = factory.add(bad_connection);
//! assert_eq!(rule.hits(), 0);
//! ```
//!
//! A rule about connections reaches every connection that a client of ours makes, later ones of an HTTP/1.1
//! pool included; of a foreign client it reaches the first.

mod classification;
mod client;
mod condition;
mod factory;
mod faults;
mod result;
mod rule;

pub use client::FaultInjectingHttpClient;
pub use condition::{FaultInjectionCondition, RequestView};
pub use factory::FaultInjectingHttpClientFactory;
pub use result::{ConnectFault, Delivery, FaultInjectionResult, InjectedAnswer};
pub use rule::{FaultInjectionRule, decide};

#[cfg(test)]
mod tests;
