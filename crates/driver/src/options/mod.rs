//! Every setting: one file per option group, the structs of each layer, and the types of each call.
//!
//! A group is a plain struct of `Option` fields that derives [`CosmosOptions`](crate::CosmosOptions);
//! the same struct is used at every layer it belongs to. A default stands beside the field it belongs
//! to and nowhere else: code asks the view, never `unwrap_or`.

mod account_options;
mod availability_options;
mod client_options;
mod connection_options;
mod custom_headers;
pub mod layering;
mod layers;
mod operations;
mod partition_failover_options;
mod region_options;
mod request_options;
mod retry_options;
pub(crate) mod sharding_options;
mod validation;
mod values;
mod write_options;

pub use account_options::{CosmosAccountOptions, CosmosAccountOptionsView};
pub use availability_options::{AvailabilityOptions, AvailabilityOptionsView};
pub use client_options::{ClientMethodOptions, ClientOptions, ClientOptionsView};
pub use connection_options::{
    ConnectionOptions, ConnectionOptionsView, ConnectionPoolOptions, ConnectionPoolOptionsView,
};
pub use custom_headers::CustomHeaders;
pub use layering::{EnvironmentError, Layer, MalformedVariable, Setting, Source};
pub use layers::{
    CosmosClientOptions, CosmosEnvironmentOptions, CosmosRuntimeOptions, OptionLayers,
};
pub use operations::{
    CreateContainerOptions, CreateDatabaseOptions, DeleteContainerOptions, DeleteDatabaseOptions,
    ItemOptions, QueryContainersOptions, QueryDatabasesOptions, QueryOptions, ReadContainerOptions,
    ReadDatabaseOptions, ReplaceContainerOptions, ThroughputOptions,
};
pub(crate) use partition_failover_options::PartitionFailoverSettings;
pub use partition_failover_options::{PartitionFailoverOptions, PartitionFailoverOptionsView};
pub use region_options::{RegionOptions, RegionOptionsView};
pub use request_options::{RequestOptions, RequestOptionsView};
pub use retry_options::{
    PartitionLevelFailover, RetryOptions, RetryOptionsView, SessionRetryOptions,
    SessionRetryOptionsView,
};
pub(crate) use sharding_options::two_per_processor;
pub use sharding_options::{ShardingOptions, ShardingOptionsView};
pub use validation::InvalidConfiguration;
pub(crate) use validation::validate;
pub use values::{AmbiguousWriteRetry, Factor, HedgingThreshold, InvalidValue, Ratio};
pub use write_options::{ItemWriteOptions, ItemWriteOptionsView};
