//! Which requests a rule is about.

use http::{HeaderName, HeaderValue, Method};
use sidereal_protocol::{OperationType, RegionName};

use super::classification::{is_about_container, operation_of};
use crate::exchange::Endpoint;
use crate::transport::HttpRequest;

/// The requests that a rule applies to: every part that is given has to hold, none given is all of them.
///
/// A connection is made for no request in particular, so a rule that names anything of a request, its region
/// included, never applies to one: name the host.
#[derive(Clone, Debug, Default)]
pub struct FaultInjectionCondition {
    method: Option<Method>,
    path_prefix: Option<String>,
    path_contains: Option<String>,
    headers: Vec<(HeaderName, HeaderValue)>,
    operation: Option<OperationType>,
    container: Option<(String, String)>,
    region: Option<RegionName>,
    host: Option<String>,
    client: Option<u64>,
}

/// The request, or the connection, that a condition is evaluated for.
#[derive(Clone, Copy, Debug)]
pub struct RequestView<'a> {
    /// The endpoint.
    pub endpoint: &'a Endpoint,
    /// The number of its client among those made for the endpoint, from 0.
    pub client: u64,
    /// The request; `None` while a connection is made.
    pub request: Option<&'a HttpRequest>,
    /// The region that the request was routed to, where it is known.
    pub region: Option<&'a RegionName>,
}

impl FaultInjectionCondition {
    /// Every request.
    #[must_use]
    pub fn any() -> Self {
        Self::default()
    }

    /// Only requests with this method.
    #[must_use]
    pub fn method(mut self, method: Method) -> Self {
        self.method = Some(method);
        self
    }

    /// Only requests whose path begins so, such as `/dbs/shop/colls/orders/docs`.
    #[must_use]
    pub fn path_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.path_prefix = Some(prefix.into());
        self
    }

    /// Only requests with this text in their path.
    #[must_use]
    pub fn path_contains(mut self, part: impl Into<String>) -> Self {
        self.path_contains = Some(part.into());
        self
    }

    /// Only requests with this header. Given several times, all of them.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Only requests that do this.
    #[must_use]
    pub fn operation(mut self, operation: OperationType) -> Self {
        self.operation = Some(operation);
        self
    }

    /// Only requests about this container, or something in it.
    #[must_use]
    pub fn container(mut self, database: impl Into<String>, container: impl Into<String>) -> Self {
        self.container = Some((database.into(), container.into()));
        self
    }

    /// Only requests that were routed to this region.
    #[must_use]
    pub fn region(mut self, region: impl Into<RegionName>) -> Self {
        self.region = Some(region.into());
        self
    }

    /// Only requests to this host, whatever the port.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Only requests over the client with this number among those made for its endpoint, from 0.
    #[must_use]
    pub fn client(mut self, number: u64) -> Self {
        self.client = Some(number);
        self
    }

    /// Whether the rule is about this.
    #[must_use]
    pub fn matches(&self, view: &RequestView<'_>) -> bool {
        let host = self.host.as_deref();
        host.is_none_or(|host| host.eq_ignore_ascii_case(view.endpoint.host()))
            && self.client.is_none_or(|number| number == view.client)
            && match view.request {
                Some(request) => {
                    self.region.as_ref().is_none_or(|region| view.region == Some(region))
                        && self.matches_request(request)
                }
                None => !self.asks_for_a_request(),
            }
    }

    fn matches_request(&self, request: &HttpRequest) -> bool {
        let path = request.uri().path();
        self.method.as_ref().is_none_or(|method| method == request.method())
            && self.path_prefix.as_ref().is_none_or(|prefix| path.starts_with(prefix))
            && self.path_contains.as_ref().is_none_or(|part| path.contains(part))
            && self.operation.is_none_or(|wanted| operation_of(request) == Some(wanted))
            && self.container.as_ref().is_none_or(|(database, container)| {
                is_about_container(request, database, container)
            })
            && self.headers.iter().all(|(name, value)| {
                request.headers().get_all(name).iter().any(|present| present == value)
            })
    }

    fn asks_for_a_request(&self) -> bool {
        self.method.is_some()
            || self.path_prefix.is_some()
            || self.path_contains.is_some()
            || self.operation.is_some()
            || self.container.is_some()
            || self.region.is_some()
            || !self.headers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use sidereal_protocol::headers::names;

    use super::*;

    fn create_item() -> HttpRequest {
        http::Request::post("https://west.contoso.com/dbs/shop/colls/orders/docs")
            .header(names::IS_UPSERT, "true")
            .body(Bytes::new())
            .unwrap()
    }

    fn applies(condition: &FaultInjectionCondition, request: Option<&HttpRequest>) -> bool {
        let endpoint = "https://west.contoso.com".parse().unwrap();
        let region = RegionName::from("West US");
        let region = request.map(|_| &region);
        condition.matches(&RequestView { endpoint: &endpoint, client: 2, request, region })
    }

    #[test]
    fn each_part_can_hold_and_fail() {
        let request = create_item();
        let any = FaultInjectionCondition::any;
        let upsert = |value| any().header(names::IS_UPSERT, HeaderValue::from_static(value));
        let cases = [
            (any(), true),
            (any().method(Method::POST), true),
            (any().method(Method::GET), false),
            (any().path_prefix("/dbs/shop/"), true),
            (any().path_prefix("/colls"), false),
            (any().path_contains("/colls/orders"), true),
            (any().path_contains("/colls/carts"), false),
            (upsert("true"), true),
            (upsert("false"), false),
            (any().operation(OperationType::Upsert), true),
            (any().operation(OperationType::Create), false),
            (any().container("shop", "orders"), true),
            (any().container("shop", "carts"), false),
            (any().region("West US"), true),
            (any().region("East US"), false),
            (any().host("West.contoso.com"), true),
            (any().host("east.contoso.com"), false),
            (any().client(2), true),
            (any().client(0), false),
        ];
        for (condition, expected) in cases {
            assert_eq!(applies(&condition, Some(&request)), expected, "{condition:?}");
        }
    }

    #[test]
    fn all_parts_have_to_hold() {
        let request = create_item();
        let both = |client| FaultInjectionCondition::any().method(Method::POST).client(client);
        assert!(applies(&both(2), Some(&request)));
        assert!(!applies(&both(1), Some(&request)));
    }

    #[test]
    fn a_connection_is_for_no_request_in_particular() {
        assert!(applies(&FaultInjectionCondition::any().client(2), None));
        assert!(applies(&FaultInjectionCondition::any().host("west.contoso.com"), None));
        assert!(!applies(&FaultInjectionCondition::any().method(Method::GET), None));
        assert!(!applies(&FaultInjectionCondition::any().path_prefix("/"), None));
        assert!(!applies(&FaultInjectionCondition::any().region("West US"), None));
        assert!(!applies(&FaultInjectionCondition::any().container("shop", "orders"), None));
        assert!(!applies(&FaultInjectionCondition::any().operation(OperationType::Read), None));
    }
}
