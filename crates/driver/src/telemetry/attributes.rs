//! The attributes of an operation, named as OpenTelemetry's semantic conventions for databases have them.

use std::borrow::Cow;

use opentelemetry::KeyValue;
use sidereal_protocol::headers::names;
use sidereal_protocol::{Addressing, CosmosStatus, OperationType, ResourceLink, ResourceType};

use crate::{CosmosOperation, ErrorKind, OperationTarget};

// `db.system.name` in the semantic conventions of OpenTelemetry for databases.
const SYSTEM: &str = "azure.cosmosdb";

/// The attributes of an operation that do not depend on its outcome.
pub(super) fn of_operation(operation: &CosmosOperation) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(7);
    attributes.push(KeyValue::new("db.system.name", SYSTEM));
    attributes.push(KeyValue::new("db.operation.name", operation_name(operation)));
    let (database, container) = names_in(operation.path().link());
    let named = [("db.namespace", database), ("db.collection.name", container)];
    for (key, name) in named {
        attributes.extend(name.map(|name| KeyValue::new(key, name.to_owned())));
    }
    attributes
}

/// How an operation ended.
pub(super) fn of_outcome(
    status: Option<CosmosStatus>,
    error: Option<ErrorKind>,
) -> impl Iterator<Item = KeyValue> {
    // A string by the conventions: other databases' codes are no numbers.
    let code = status.map(|it| KeyValue::new("db.response.status_code", it.code().to_string()));
    let sub_status = status.filter(|it| it.sub_status() != 0).map(|it| {
        let value = i64::from(it.sub_status());
        KeyValue::new("azure.cosmosdb.response.sub_status_code", value)
    });
    let error = error.map(|kind| KeyValue::new("error.type", error_name(kind)));
    code.into_iter().chain(sub_status).chain(error)
}

/// The names of the database and the container in a link. One that is made of RIDs names nothing that a person
/// would know.
fn names_in(link: &ResourceLink) -> (Option<&str>, Option<&str>) {
    if link.addressing() == Addressing::Rids {
        return (None, None);
    }
    let mut parts = link.as_str().split('/');
    let mut name_after = |segment: &str| match parts.next() {
        Some(found) if found == segment => parts.next(),
        _ => None,
    };
    let database = name_after(ResourceType::Database.path_segment());
    let container = database
        .is_some()
        .then(|| name_after(ResourceType::DocumentCollection.path_segment()))
        .flatten();
    (database, container)
}

/// The name of an operation in the semantic conventions: `read_item`, `query_items`.
pub(super) fn operation_name(operation: &CosmosOperation) -> Cow<'static, str> {
    use OperationType::{Batch, Create, Delete, Patch, Query, Read, ReadFeed, Replace, Upsert};
    use ResourceType::Document;
    let (does, kind) = (operation.operation_type(), operation.path().kind());
    let name = match (does, kind) {
        (Read, Document) => "read_item",
        (Create, Document) => "create_item",
        (Upsert, Document) => "upsert_item",
        (Replace, Document) => "replace_item",
        (Patch, Document) => "patch_item",
        (Delete, Document) => "delete_item",
        (Query, Document) => "query_items",
        (ReadFeed, Document) if operation.headers().contains_key(names::A_IM) => {
            "query_change_feed"
        }
        (ReadFeed, Document) => "read_all_items",
        (Batch, _) if matches!(operation.target(), Some(OperationTarget::PartitionRange(_))) => {
            "execute_bulk"
        }
        (Batch, _) => "execute_batch",
        (OperationType::Execute, _) => "execute_stored_procedure",
        (Delete, ResourceType::PartitionKey) => "delete_all_items_by_partition_key",
        _ => return format!("{}_{}", verb(does), noun(kind, does.is_feed())).into(),
    };
    name.into()
}

fn verb(does: OperationType) -> &'static str {
    match does {
        OperationType::Create => "create",
        OperationType::Read => "read",
        OperationType::ReadFeed => "read_all",
        OperationType::Replace => "replace",
        OperationType::Upsert => "upsert",
        OperationType::Delete => "delete",
        OperationType::Patch => "patch",
        OperationType::Query => "query",
        OperationType::QueryPlan => "query_plan_of",
        OperationType::Batch | OperationType::Execute => "execute",
        OperationType::Head => "head",
        OperationType::HeadFeed => "head_all",
    }
}

fn noun(kind: ResourceType, is_plural: bool) -> &'static str {
    let (one, many) = match kind {
        ResourceType::DatabaseAccount => ("account", "accounts"),
        ResourceType::Database => ("database", "databases"),
        ResourceType::DocumentCollection => ("container", "containers"),
        ResourceType::Document | ResourceType::PartitionKey => ("item", "items"),
        ResourceType::StoredProcedure => ("stored_procedure", "stored_procedures"),
        ResourceType::Trigger => ("trigger", "triggers"),
        ResourceType::UserDefinedFunction => ("user_defined_function", "user_defined_functions"),
        ResourceType::Conflict => ("conflict", "conflicts"),
        ResourceType::PartitionKeyRange => ("partition_key_range", "partition_key_ranges"),
        ResourceType::User => ("user", "users"),
        ResourceType::Permission => ("permission", "permissions"),
        ResourceType::ClientEncryptionKey => ("client_encryption_key", "client_encryption_keys"),
        ResourceType::Offer => ("offer", "offers"),
    };
    if is_plural { many } else { one }
}

fn error_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidRequest => "invalid_request",
        ErrorKind::Unauthorized => "unauthorized",
        ErrorKind::NotFound => "not_found",
        ErrorKind::Conflict => "conflict",
        ErrorKind::PreconditionFailed => "precondition_failed",
        ErrorKind::Throttled => "throttled",
        ErrorKind::Overloaded => "overloaded",
        ErrorKind::DeadlineExceeded => "deadline_exceeded",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::InvalidResponse => "invalid_response",
        ErrorKind::LimitExceeded => "limit_exceeded",
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use sidereal_protocol::RequestPath;

    use super::*;

    fn orders() -> ResourceLink {
        ResourceLink::container("store", "orders").unwrap()
    }

    fn feed(parent: ResourceLink, kind: ResourceType, does: OperationType) -> CosmosOperation {
        CosmosOperation::new(does, RequestPath::feed(parent, kind).unwrap())
    }

    #[test]
    fn operations_have_the_names_of_the_conventions() {
        let database = ResourceLink::database("store").unwrap();
        let items = || feed(orders(), ResourceType::Document, OperationType::ReadFeed);
        let changes =
            items().with_header(names::A_IM, HeaderValue::from_static("Incremental feed"));
        let item = RequestPath::of(orders().item("1").unwrap());
        for (operation, name) in [
            (CosmosOperation::new(OperationType::Read, item), "read_item"),
            (feed(orders(), ResourceType::Document, OperationType::Create), "create_item"),
            (feed(orders(), ResourceType::Document, OperationType::Query), "query_items"),
            (feed(orders(), ResourceType::Document, OperationType::Batch), "execute_batch"),
            (
                CosmosOperation::execute_bulk(&orders(), 0.into(), Default::default()).unwrap(),
                "execute_bulk",
            ),
            (items(), "read_all_items"),
            (changes, "query_change_feed"),
            (
                CosmosOperation::new(OperationType::Read, RequestPath::of(orders())),
                "read_container",
            ),
            (
                feed(database, ResourceType::DocumentCollection, OperationType::ReadFeed),
                "read_all_containers",
            ),
        ] {
            assert_eq!(operation_name(&operation), name);
        }
    }

    #[test]
    fn a_link_names_its_database_and_its_container_and_nothing_below() {
        let item = orders().item("1").unwrap();
        assert_eq!(names_in(&item), (Some("store"), Some("orders")));
        let database = ResourceLink::database("store").unwrap();
        let user = database.child(ResourceType::User, "ada").unwrap();
        assert_eq!(names_in(&user), (Some("store"), None));
        assert_eq!(names_in(&ResourceLink::ACCOUNT), (None, None));
        let by_rid = ResourceLink::database("AQAAAA==").unwrap();
        assert_eq!(names_in(&by_rid), (None, None));
    }
}
