//! The headers that every request carries.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderValue};
use sidereal_protocol::HttpDate;
use sidereal_protocol::headers::names;
use uuid::Uuid;

use super::HeaderList;
use crate::options::OptionLayers;
use crate::system::Clock;

/// The version of the service's protocol that is spoken.
const API_VERSION: HeaderValue = HeaderValue::from_static(names::API_VERSION);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");
/// A bit mask: PartitionMerge (1), ChangeFeedWithStartTimePostMerge (2), IgnoreUnknownRntbdTokens (8).
const CAPABILITIES: HeaderValue = HeaderValue::from_static("11");
/// 449 (RetryWith) is returned instead of retried by the gateway: its back-off is ours to bound.
const NO_RETRY_449: HeaderValue = HeaderValue::from_static("true");

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
            date: ArcSwap::from_pointee(DateHeader::of(clock.wall())),
        }
    }

    /// The headers of a request: what it brought, and the common ones where it brought none.
    pub(super) fn apply(
        &self,
        own: &HeaderList,
        activity_id: Uuid,
        date: &DateHeader,
    ) -> HeaderMap {
        let mut headers = HeaderMap::with_capacity(HEADERS_EXPECTED);
        headers.insert(names::VERSION, API_VERSION);
        headers.insert(names::DATE, date.value.clone());
        headers.insert(ACCEPT, JSON);
        headers.insert(CONTENT_TYPE, JSON);
        headers.insert(CACHE_CONTROL, NO_CACHE);
        headers.insert(USER_AGENT, self.user_agent.clone());
        headers.insert(names::CLIENT_ID, self.client_id.clone());
        headers.insert(names::ACTIVITY_ID, uuid_header(activity_id));
        headers.insert(names::SDK_SUPPORTED_CAPABILITIES, CAPABILITIES);
        headers.insert(names::NO_RETRY_449, NO_RETRY_449);
        // Last, so that they win: a query brings its own content type.
        for (name, value) in own.iter() {
            headers.insert(name.clone(), value.clone());
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

/// Who we are, in the form of the service's own SDKs, then what the application adds.
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

    use super::*;
    use crate::options::{ClientOptions, CosmosAccountOptions, CosmosClientOptions};

    fn policy() -> CosmosHeadersPolicy {
        CosmosHeadersPolicy::new(&OptionLayers::default(), &Clock::system())
    }

    #[test]
    fn every_request_carries_the_common_headers() {
        let policy = policy();
        let date = policy.date(SystemTime::now());
        let headers = policy.apply(&HeaderList::default(), Uuid::nil(), &date);
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
        let date = policy.date(SystemTime::now());
        let headers = policy.apply(&own, Uuid::nil(), &date);
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
