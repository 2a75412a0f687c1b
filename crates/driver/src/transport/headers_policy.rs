//! The headers that every request carries.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use http::header::{ACCEPT, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use sidereal_protocol::HttpDate;
use sidereal_protocol::headers::names;
use uuid::Uuid;

use super::HeaderList;
use super::header_templates::{HeaderTemplates, VaryingHeaders};
use crate::options::OptionLayers;
use crate::system::Clock;

/// The version of the service's protocol that is spoken.
static API_VERSION: HeaderValue = HeaderValue::from_static(names::API_VERSION);
static JSON: HeaderValue = HeaderValue::from_static("application/json");
static NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// A bit mask: PartitionMerge (1), ChangeFeedWithStartTimePostMerge (2), IgnoreUnknownRntbdTokens (8).
static CAPABILITIES: HeaderValue = HeaderValue::from_static("11");
/// 449 (RetryWith) is returned instead of retried by the gateway: its back-off is ours to bound.
static NO_RETRY_449: HeaderValue = HeaderValue::from_static("true");

/// The longest user agent that the service takes.
const MAX_USER_AGENT_BYTES: usize = 255;

/// Headers that a map has room for without growing: ten common ones, the signature, and a dozen of the
/// operation.
const HEADERS_EXPECTED: usize = 24;

/// Puts the common headers on requests.
#[derive(Debug)]
pub struct CosmosHeadersPolicy {
    user_agent: HeaderValue,
    client_id: HeaderValue,
    templates: HeaderTemplates,
    date: ArcSwap<DateHeader>,
}

/// A date, ready to be sent and to be signed.
#[derive(Debug)]
pub(super) struct DateHeader {
    second: u64,
    pub(super) value: HeaderValue,
    pub(super) signed: HttpDate,
}

impl CosmosHeadersPolicy {
    /// The headers of a client: its user agent comes from the settings, its id is new.
    #[must_use]
    pub fn new(options: &OptionLayers, clock: &Clock) -> Self {
        let account = options.account();
        let client = options.client_options();
        let extra = [account.application_name(), client.user_agent_suffix()];
        Self {
            user_agent: user_agent(&extra.map(|text| text.map(AsRef::as_ref).unwrap_or_default())),
            client_id: HeaderValue::from_str(&clock.new_id().to_string())
                .expect("an id is visible ASCII"),
            templates: HeaderTemplates::default(),
            date: ArcSwap::from_pointee(DateHeader::of(clock.wall())),
        }
    }

    /// The headers of a request: what it brought, its authorization, and the common ones where it brought none.
    pub(super) fn apply(
        &self,
        own: &HeaderList,
        activity_id: Uuid,
        date: &DateHeader,
        authorization: HeaderValue,
    ) -> HeaderMap {
        let varying = VaryingHeaders {
            date: date.value.clone(),
            activity_id: uuid_header(activity_id),
            own,
            authorization,
        };
        self.templates.fill(varying, |varying| self.built(varying))
    }

    /// Builds the header map by insertion, for the first request of a shape.
    fn built(&self, varying: VaryingHeaders<'_>) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
        headers.insert(names::DATE, varying.date);
        headers.insert(names::ACTIVITY_ID, varying.activity_id);
        for (name, value) in varying.own.iter() {
            headers.insert(name.clone(), value.clone());
        }
        // After the request's own: an authorization is never the caller's to replace.
        headers.insert(AUTHORIZATION, varying.authorization);
        let common = [
            (names::VERSION, &API_VERSION),
            (ACCEPT, &JSON),
            (CONTENT_TYPE, &JSON),
            (CACHE_CONTROL, &NO_CACHE),
            (USER_AGENT, &self.user_agent),
            (names::CLIENT_ID, &self.client_id),
            (names::SDK_SUPPORTED_CAPABILITIES, &CAPABILITIES),
            (names::NO_RETRY_449, &NO_RETRY_449),
        ];
        for (name, value) in common {
            // What the request brings wins: a query has a content type of its own.
            headers.entry(name).or_insert_with(|| value.clone());
        }
        headers
    }

    /// The date header of a moment; it is written once a second.
    pub(super) fn date(&self, now: SystemTime) -> Arc<DateHeader> {
        let date = self.date.load();
        if date.second == second_of(now) {
            return Arc::clone(&date);
        }
        // Last writer wins: threads that meet the same new second store equal dates.
        let date = Arc::new(DateHeader::of(now));
        self.date.store(Arc::clone(&date));
        date
    }
}

impl DateHeader {
    fn of(now: SystemTime) -> Self {
        // A clock outside 1970 to 9999 is sent as the epoch: the service refuses it with a sentence.
        let signed = HttpDate::new(now)
            .or_else(|_| HttpDate::new(UNIX_EPOCH))
            .expect("the epoch can be written");
        let value = HeaderValue::from_str(signed.as_str()).expect("a date is visible ASCII");
        Self { second: second_of(now), value, signed }
    }
}

fn second_of(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs())
}

/// The header form of an id.
///
/// It is marked as sensitive so that HPACK never indexes it (RFC 7541, section 7.1.3): an id that never comes
/// again would only evict entries that do.
fn uuid_header(id: Uuid) -> HeaderValue {
    let mut buffer = Uuid::encode_buffer();
    let text = id.hyphenated().encode_lower(&mut buffer);
    let mut value = HeaderValue::from_str(text).expect("an id is visible ASCII");
    value.set_sensitive(true);
    value
}

/// The user agent, in the form of the service's own SDKs, then the application's additions.
fn user_agent(extra: &[&str]) -> HeaderValue {
    let mut text = format!(
        "sidereal/{version} (drv={version}; {os}; {arch})",
        version = env!("CARGO_PKG_VERSION"),
        os = std::env::consts::OS,
        arch = std::env::consts::ARCH,
    );
    for addition in extra.iter().filter(|text| !text.is_empty()) {
        text.push(' ');
        // Anything else is dropped: a line break in a name must not become a header (header injection).
        text.extend(addition.chars().filter(|c| c.is_ascii_graphic() || *c == ' '));
    }
    text.truncate(MAX_USER_AGENT_BYTES); // All of it is ASCII, so any byte is a character boundary.
    HeaderValue::from_str(&text).expect("only visible ASCII was kept")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderName;

    use super::*;
    use crate::options::{ClientOptions, CosmosAccountOptions, CosmosClientOptions};

    fn policy() -> CosmosHeadersPolicy {
        CosmosHeadersPolicy::new(&OptionLayers::default(), &Clock::system())
    }

    fn applied(policy: &CosmosHeadersPolicy, own: &HeaderList) -> HeaderMap {
        let date = policy.date(SystemTime::now());
        policy.apply(own, Uuid::nil(), &date, HeaderValue::from_static("signature"))
    }

    fn own(headers: &[(&'static str, &'static str)]) -> HeaderList {
        let header = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        headers.iter().map(header).collect()
    }

    #[test]
    fn a_request_of_known_names_has_its_own_values() {
        let policy = policy();
        for number in ["1", "2"] {
            let headers = applied(&policy, &own(&[("x-ms-a", number), ("x-ms-b", "b")]));
            assert!(headers["x-ms-a"] == number && headers["x-ms-b"] == "b");
            assert_eq!(headers[AUTHORIZATION], "signature");
            assert_eq!(headers["x-ms-version"], names::API_VERSION);
            assert!(headers["x-ms-activity-id"].is_sensitive());
            let other = applied(&policy, &own(&[("x-ms-b", number)]));
            assert_eq!(other["x-ms-b"], number);
            assert!(!other.contains_key("x-ms-a"));
        }
    }

    /// Also those whose names are the policy's own, and those beyond the templates that are kept.
    #[test]
    fn a_cloned_map_is_the_one_that_insertion_makes() {
        let policy = policy();
        let names = ["x-ms-date", "x-ms-activity-id", "authorization", "content-type", "accept"];
        let all = (0..40).map(|number| format!("x-ms-{number}")).chain(names.map(str::to_owned));
        for name in all {
            let own = HeaderList::from_iter([
                (HeaderName::from_static("x-ms-a"), HeaderValue::from_static("a")),
                (name.parse().unwrap(), HeaderValue::from_static("own")),
            ]);
            let date = policy.date(UNIX_EPOCH);
            let signature = HeaderValue::from_static("signature");
            let built = policy.built(VaryingHeaders {
                date: date.value.clone(),
                activity_id: uuid_header(Uuid::nil()),
                own: &own,
                authorization: signature.clone(),
            });
            for _ in 0..2 {
                let applied = policy.apply(&own, Uuid::nil(), &date, signature.clone());
                assert_eq!(applied, built, "{name}");
            }
            assert_eq!(built[AUTHORIZATION], "signature", "not the caller's to replace");
            assert!(name == "authorization" || built[&name] == "own");
        }
    }

    #[test]
    fn every_request_carries_the_common_headers() {
        let policy = policy();
        let headers = applied(&policy, &HeaderList::default());
        for (name, value) in [
            ("x-ms-version", "2020-07-15"),
            ("accept", "application/json"),
            ("content-type", "application/json"),
            ("cache-control", "no-cache"),
            ("x-ms-cosmos-sdk-supportedcapabilities", "11"),
            ("x-ms-noretry-449", "true"),
            ("x-ms-activity-id", "00000000-0000-0000-0000-000000000000"),
        ] {
            assert_eq!(headers[name], value, "{name}");
        }
        assert!(headers.contains_key("x-ms-date") && headers.contains_key("x-ms-client-id"));
    }

    #[test]
    fn what_a_request_brings_wins() {
        let policy = policy();
        let mut own = HeaderList::default();
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/query+json"));
        let headers = applied(&policy, &own);
        assert_eq!(headers[CONTENT_TYPE], "application/query+json");
    }

    #[test]
    fn a_date_is_written_once_a_second() {
        let policy = policy();
        let now = UNIX_EPOCH + Duration::from_millis(1_700_000_000_100);
        let first = policy.date(now);
        assert!(Arc::ptr_eq(&first, &policy.date(now + Duration::from_millis(899))));
        let next = policy.date(now + Duration::from_millis(900));
        assert_ne!(first.value, next.value);
        assert_eq!(next.value, next.signed.as_str());
    }

    #[test]
    fn the_user_agent_names_the_application_and_fits() {
        let options = CosmosClientOptions {
            account: CosmosAccountOptions::default()
                .with_application_name("shop\r\nX: y".to_owned()),
            client_options: ClientOptions::default()
                .with_user_agent_suffix("é".repeat(10) + &"x".repeat(400)),
            ..CosmosClientOptions::default()
        };
        let layers = OptionLayers::new(Arc::default(), Arc::default(), Arc::new(options));
        let agent = CosmosHeadersPolicy::new(&layers, &Clock::system()).user_agent;
        let agent = agent.to_str().unwrap();
        assert!(agent.starts_with("sidereal/") && agent.contains(" shopX: y xxx"), "{agent}");
        assert_eq!(agent.len(), MAX_USER_AGENT_BYTES);
    }
}
