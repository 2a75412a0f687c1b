//! The kinds of resources and of operations, and what each is.

use http::Method;

use crate::wire::wire_enum;

wire_enum! {
    /// The type of a resource.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ResourceType: "resource type" {
        /// The account itself.
        DatabaseAccount = "DatabaseAccount",
        /// A database.
        Database = "Database",
        /// A container.
        DocumentCollection = "DocumentCollection",
        /// An item.
        Document = "Document",
        /// A stored procedure.
        StoredProcedure = "StoredProcedure",
        /// A trigger.
        Trigger = "Trigger",
        /// A user-defined function.
        UserDefinedFunction = "UserDefinedFunction",
        /// A conflict left by concurrent writes in several regions.
        Conflict = "Conflict",
        /// A partition range.
        PartitionKeyRange = "PartitionKeyRange",
        /// All items of one partition key, in their deletion as a whole.
        PartitionKey = "PartitionKey",
        /// A user with permissions.
        User = "User",
        /// A permission of a user.
        Permission = "Permission",
        /// An encryption key of a database.
        ClientEncryptionKey = "ClientEncryptionKey",
        /// Throughput of a database or container.
        Offer = "Offer",
    }
}

impl ResourceType {
    /// The word before the id in a path; empty for the account.
    pub const fn path_segment(self) -> &'static str {
        match self {
            Self::DatabaseAccount => "",
            Self::Database => "dbs",
            Self::DocumentCollection => "colls",
            Self::Document => "docs",
            Self::StoredProcedure => "sprocs",
            Self::Trigger => "triggers",
            Self::UserDefinedFunction => "udfs",
            Self::Conflict => "conflicts",
            Self::PartitionKeyRange => "pkranges",
            Self::PartitionKey => "operations/partitionkeydelete",
            Self::User => "users",
            Self::Permission => "permissions",
            Self::ClientEncryptionKey => "clientencryptionkeys",
            Self::Offer => "offers",
        }
    }

    /// The word that enters the signature of a request.
    pub const fn signed_name(self) -> &'static str {
        match self {
            // Deleting the items of a key is an operation on their container, and signed as one.
            Self::PartitionKey => Self::DocumentCollection.path_segment(),
            other => other.path_segment(),
        }
    }

    /// The name of the array in a feed of such resources.
    pub const fn feed_name(self) -> &'static str {
        match self {
            Self::DatabaseAccount | Self::PartitionKey => "Resources",
            Self::Database => "Databases",
            Self::DocumentCollection => "DocumentCollections",
            Self::Document => "Documents",
            Self::StoredProcedure => "StoredProcedures",
            Self::Trigger => "Triggers",
            Self::UserDefinedFunction => "UserDefinedFunctions",
            Self::Conflict => "Conflicts",
            Self::PartitionKeyRange => "PartitionKeyRanges",
            Self::User => "Users",
            Self::Permission => "Permissions",
            Self::ClientEncryptionKey => "ClientEncryptionKeys",
            Self::Offer => "Offers",
        }
    }

    /// The kind of resource it lives in; `None` at the top.
    pub const fn parent(self) -> Option<Self> {
        match self {
            Self::DatabaseAccount | Self::Database | Self::Offer => None,
            Self::DocumentCollection | Self::User | Self::ClientEncryptionKey => {
                Some(Self::Database)
            }
            Self::Permission => Some(Self::User),
            Self::Document
            | Self::StoredProcedure
            | Self::Trigger
            | Self::UserDefinedFunction
            | Self::Conflict
            | Self::PartitionKeyRange
            | Self::PartitionKey => Some(Self::DocumentCollection),
        }
    }

    /// Whether it lives in one partition of a container, so that a request for it can be routed
    /// around that partition.
    pub const fn is_partitioned(self) -> bool {
        matches!(self, Self::Document | Self::StoredProcedure)
    }

    /// Whether requests for it concern the account's description of itself rather than its data.
    pub const fn is_metadata(self) -> bool {
        !matches!(
            self,
            Self::Document | Self::StoredProcedure | Self::Conflict | Self::PartitionKey
        )
    }

    /// Whether it is addressed below a container.
    pub const fn is_below_container(self) -> bool {
        matches!(self.parent(), Some(Self::DocumentCollection))
    }
}

wire_enum! {
    /// The type of an operation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum OperationType: "operation type" {
        /// Create a resource that must not exist.
        Create = "Create",
        /// Read one resource.
        Read = "Read",
        /// List resources, or follow a change feed.
        ReadFeed = "ReadFeed",
        /// Replace a resource that must exist.
        Replace = "Replace",
        /// Create or replace.
        Upsert = "Upsert",
        /// Delete a resource, or all items of a partition key.
        Delete = "Delete",
        /// Change parts of an item.
        Patch = "Patch",
        /// Run a query.
        Query = "Query",
        /// Ask for the plan of a query.
        QueryPlan = "QueryPlan",
        /// Run a transactional batch.
        Batch = "Batch",
        /// Run a stored procedure.
        Execute = "ExecuteJavaScript",
        /// Read the headers of one resource.
        Head = "Head",
        /// Read the headers of a feed.
        HeadFeed = "HeadFeed",
    }
}

/// Whether an operation is idempotent: what applying it a second time does to the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Idempotency {
    /// Applying it again leaves the data as applying it once would.
    Idempotent,
    /// It depends on what the body asks for; see the patch document or the batch.
    DependsOnBody,
    /// It may take effect twice, and only the caller knows whether that matters.
    NotIdempotent,
}

impl OperationType {
    /// The HTTP method the operation travels by.
    pub const fn method(self) -> Method {
        match self {
            Self::Read | Self::ReadFeed => Method::GET,
            Self::Head | Self::HeadFeed => Method::HEAD,
            Self::Replace => Method::PUT,
            Self::Delete => Method::DELETE,
            Self::Patch => Method::PATCH,
            Self::Create
            | Self::Upsert
            | Self::Query
            | Self::QueryPlan
            | Self::Batch
            | Self::Execute => Method::POST,
        }
    }

    /// Whether it changes nothing.
    pub const fn is_read_only(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::ReadFeed
                | Self::Query
                | Self::QueryPlan
                | Self::Head
                | Self::HeadFeed
        )
    }

    /// Whether it is idempotent whatever its body holds.
    ///
    /// A create counts: its id makes it unique, so a second attempt changes nothing and gets 409.
    pub const fn is_idempotent(self) -> bool {
        matches!(self.idempotency(), Idempotency::Idempotent)
    }

    /// Its idempotency.
    pub const fn idempotency(self) -> Idempotency {
        match self {
            Self::Read
            | Self::ReadFeed
            | Self::Query
            | Self::QueryPlan
            | Self::Head
            | Self::HeadFeed
            | Self::Create
            | Self::Replace
            | Self::Upsert
            | Self::Delete => Idempotency::Idempotent,
            Self::Patch | Self::Batch => Idempotency::DependsOnBody,
            Self::Execute => Idempotency::NotIdempotent,
        }
    }

    /// Whether it addresses a collection of resources rather than one.
    pub const fn is_feed(self) -> bool {
        matches!(
            self,
            Self::Create
                | Self::Upsert
                | Self::ReadFeed
                | Self::HeadFeed
                | Self::Query
                | Self::QueryPlan
                | Self::Batch
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_user_code_or_increments_is_not_called_idempotent() {
        assert_eq!(OperationType::Execute.idempotency(), Idempotency::NotIdempotent);
        assert_eq!(OperationType::Patch.idempotency(), Idempotency::DependsOnBody);
        assert_eq!(OperationType::Batch.idempotency(), Idempotency::DependsOnBody);
        assert!(OperationType::Create.is_idempotent());
        assert!(OperationType::Upsert.is_idempotent());
    }

    #[test]
    fn everything_read_only_is_idempotent() {
        for operation in OperationType::ALL.iter().filter(|operation| operation.is_read_only()) {
            assert!(operation.is_idempotent(), "{operation}");
        }
    }

    #[test]
    fn only_items_and_procedures_live_in_one_partition() {
        let partitioned: Vec<_> =
            ResourceType::ALL.iter().filter(|kind| kind.is_partitioned()).collect();
        assert_eq!(partitioned, [&ResourceType::Document, &ResourceType::StoredProcedure]);
    }

    #[test]
    fn every_kind_but_the_account_has_a_path_of_its_own() {
        let segments: std::collections::HashSet<_> =
            ResourceType::ALL.iter().map(|kind| kind.path_segment()).collect();
        assert_eq!(segments.len(), ResourceType::ALL.len());
    }
}
