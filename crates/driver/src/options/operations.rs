//! The options of each call: what belongs to the call, and the operation layer of the groups.

use sidereal_protocol::{Etag, ThroughputProperties};

use super::{AvailabilityOptions, ClientMethodOptions, ItemWriteOptions, RequestOptions};

/// Options of one item operation: create, read, replace, upsert, delete, patch.
#[derive(Clone, Debug, Default)]
pub struct ItemOptions<'a> {
    /// Deadline, activity id, cancellation.
    pub method_options: ClientMethodOptions<'a>,
    /// Consistency, priority, headers and excluded regions of the request.
    pub request: RequestOptions,
    /// How far the operation goes to get a response.
    pub availability: AvailabilityOptions,
    /// Options of writes.
    pub write: ItemWriteOptions,
    /// A read brings the item only if it no longer has this etag; it is answered with 304 otherwise. For reads.
    pub if_none_match_etag: Option<Etag>,
}

/// Options of one query.
#[derive(Clone, Debug, Default)]
pub struct QueryOptions<'a> {
    /// Deadline, activity id, cancellation.
    pub method_options: ClientMethodOptions<'a>,
    /// Consistency, priority, headers and excluded regions of the request.
    pub request: RequestOptions,
    /// How far the operation goes to get a response.
    pub availability: AvailabilityOptions,
}

macro_rules! metadata_operations {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $value:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default)]
            pub struct $name<'a> {
                /// Deadline, activity id, cancellation.
                pub method_options: ClientMethodOptions<'a>,
                $($(#[$field_doc])* pub $field: $value,)*
            }
        )*
    };
}

metadata_operations! {
    /// Options of creating a container.
    CreateContainerOptions {
        /// The container's own throughput. Without it, the container shares the database's.
        throughput: Option<ThroughputProperties>,
    }
    /// Options of replacing a container's definition.
    ReplaceContainerOptions {}
    /// Options of deleting a container.
    DeleteContainerOptions {}
    /// Options of reading a container's definition.
    ReadContainerOptions {}
    /// Options of creating a database.
    CreateDatabaseOptions {
        /// Throughput that the database's containers share.
        throughput: Option<ThroughputProperties>,
    }
    /// Options of deleting a database.
    DeleteDatabaseOptions {}
    /// Options of reading a database.
    ReadDatabaseOptions {}
    /// Options of querying a database's containers.
    QueryContainersOptions {}
    /// Options of querying an account's databases.
    QueryDatabasesOptions {}
    /// Options of reading or replacing throughput.
    ThroughputOptions {}
}
