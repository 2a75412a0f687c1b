//! Classifies a request on the wire: its operation and its container, from method, path and headers.

use http::Method;
use http::header::CONTENT_TYPE;
use sidereal_protocol::headers::RequestHeaders;
use sidereal_protocol::{OperationType, RequestPath, ResourceType};

use crate::transport::HttpRequest;

/// The operation of a request; `None` if the service has no such operation.
pub(super) fn operation_of(request: &HttpRequest) -> Option<OperationType> {
    let path: RequestPath = request.uri().path().parse().ok()?;
    let is_feed = path.is_feed();
    Some(match *request.method() {
        Method::GET if is_feed => OperationType::ReadFeed,
        Method::GET => OperationType::Read,
        Method::HEAD if is_feed => OperationType::HeadFeed,
        Method::HEAD => OperationType::Head,
        Method::PUT => OperationType::Replace,
        Method::PATCH => OperationType::Patch,
        Method::DELETE => OperationType::Delete,
        Method::POST if path.kind() == ResourceType::StoredProcedure && !is_feed => {
            OperationType::Execute
        }
        Method::POST => posted_operation(request),
        _ => return None,
    })
}

/// The operations that share POST. The order matters: a request for a plan is marked as a query too.
fn posted_operation(request: &HttpRequest) -> OperationType {
    let flags = RequestHeaders::new(request.headers());
    let is_set = |flag: Result<bool, sidereal_protocol::Error>| flag.unwrap_or(false);
    let has_query = || {
        let content = request.headers().get(CONTENT_TYPE);
        content.is_some_and(|it| it.as_bytes().starts_with(b"application/query+json"))
    };
    if is_set(flags.is_query_plan_request()) {
        OperationType::QueryPlan
    } else if is_set(flags.is_query()) || has_query() {
        OperationType::Query
    } else if is_set(flags.is_batch_request()) {
        OperationType::Batch
    } else if is_set(flags.is_upsert()) {
        OperationType::Upsert
    } else {
        OperationType::Create
    }
}

/// Whether a request is about a container or something in it.
pub(super) fn is_about_container(request: &HttpRequest, database: &str, container: &str) -> bool {
    let path = request.uri().path().parse::<RequestPath>();
    path.is_ok_and(|path| {
        let link = path.link();
        link.ancestor_id(ResourceType::Database) == Some(database)
            && link.ancestor_id(ResourceType::DocumentCollection) == Some(container)
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sidereal_protocol::headers::names;

    use super::*;

    fn request(method: Method, path: &str, flag: Option<http::HeaderName>) -> HttpRequest {
        let mut request = HttpRequest::new(Bytes::new());
        *request.method_mut() = method;
        *request.uri_mut() = format!("https://contoso.com{path}").parse().unwrap();
        if let Some(flag) = flag {
            request.headers_mut().insert(flag, http::HeaderValue::from_static("True"));
        }
        request
    }

    #[test]
    fn each_operation_is_told_by_method_path_and_flags() {
        let (item, items) = ("/dbs/shop/colls/orders/docs/1", "/dbs/shop/colls/orders/docs");
        let procedure = "/dbs/shop/colls/orders/sprocs/transfer";
        let cases = [
            (Method::GET, item, None, OperationType::Read),
            (Method::GET, items, None, OperationType::ReadFeed),
            (Method::PUT, item, None, OperationType::Replace),
            (Method::PATCH, item, None, OperationType::Patch),
            (Method::DELETE, item, None, OperationType::Delete),
            (Method::POST, items, None, OperationType::Create),
            (Method::POST, items, Some(names::IS_UPSERT), OperationType::Upsert),
            (Method::POST, items, Some(names::IS_QUERY), OperationType::Query),
            (Method::POST, items, Some(names::IS_QUERY_PLAN_REQUEST), OperationType::QueryPlan),
            (Method::POST, items, Some(names::IS_BATCH_REQUEST), OperationType::Batch),
            (Method::POST, procedure, None, OperationType::Execute),
        ];
        for (method, path, flag, operation) in cases {
            assert_eq!(operation_of(&request(method, path, flag)), Some(operation));
        }
        assert_eq!(operation_of(&request(Method::OPTIONS, item, None)), None);
    }

    #[test]
    fn what_is_in_a_container_is_about_it() {
        let about = |path| is_about_container(&request(Method::GET, path, None), "shop", "orders");
        for path in ["/dbs/shop/colls/orders", "/dbs/shop/colls/orders/docs/a%20b"] {
            assert!(about(path), "{path}");
        }
        for path in ["/dbs/shop", "/dbs/other/colls/orders", "/dbs/shop/colls/ordersets", "/"] {
            assert!(!about(path), "{path}");
        }
    }
}
