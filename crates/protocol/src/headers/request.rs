//! The headers of a request, read strictly.
//!
//! What a header asks for is never guessed: one that cannot be read is an error that names it.
//! Booleans come as `True` and `true`, depending on the SDK.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use http::header::{AUTHORIZATION, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH};
use http::{HeaderMap, HeaderName};

use super::names;
use super::values::{ChangeFeedMode, SdkCapabilities, SerializationFormats};
use crate::body::AutopilotSettings;
use crate::date::HttpDate;
use crate::error::{Error, ErrorKind, Result};
use crate::etag::Etag;
use crate::levels::{ConsistencyLevel, IndexingDirective, PriorityLevel, ReadConsistencyStrategy};
use crate::partition_key::{
    EffectivePartitionKey, EffectivePartitionKeyRange, PartitionKey, PartitionKeyRangeId,
};
use crate::session::SessionToken;
use crate::throughput::ThroughputProperties;

/// A view of the headers of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHeaders<'a>(&'a HeaderMap);

impl<'a> RequestHeaders<'a> {
    /// Reads these headers.
    pub fn new(headers: &'a HeaderMap) -> Self {
        Self(headers)
    }

    /// The authorization header, still encoded.
    pub fn authorization(&self) -> Result<Option<&'a str>> {
        self.text(&AUTHORIZATION)
    }

    /// The date that was signed, as it was sent.
    pub fn date(&self) -> Result<Option<&'a str>> {
        match self.text(&names::DATE)? {
            Some(date) => Ok(Some(date)),
            None => self.text(&http::header::DATE),
        }
    }

    /// The version of the API, which is one that the service takes.
    pub fn api_version(&self) -> Result<Option<&'a str>> {
        let version = self.text(&names::VERSION)?;
        // The newest first: it is what nearly every client sends.
        match version {
            None | Some(names::API_VERSION) => Ok(version),
            Some(other) if names::API_VERSIONS.contains(&other) => Ok(version),
            Some(_) => Err(self.refusal(&names::VERSION, "the service knows no such version")),
        }
    }

    /// The id of the request.
    pub fn activity_id(&self) -> Result<Option<&'a str>> {
        self.text(&names::ACTIVITY_ID)
    }

    /// The partition key.
    pub fn partition_key(&self) -> Result<Option<PartitionKey>> {
        match self.text(&names::PARTITION_KEY)? {
            // `[]` is the empty key of the .NET SDK (`PartitionKeyInternal.Empty`): it names none.
            None | Some("[]") => Ok(None),
            Some(text) => {
                let key = text.trim().parse().map(Some);
                key.map_err(|error| self.refusal(&names::PARTITION_KEY, error))
            }
        }
    }

    /// The partition range the request is for.
    pub fn partition_key_range_id(&self) -> Result<Option<PartitionKeyRangeId>> {
        self.parsed(&names::PARTITION_KEY_RANGE_ID)
    }

    /// The range of keys the request is for. An end that is missing is an end of the key space.
    pub fn effective_partition_key_range(&self) -> Result<Option<EffectivePartitionKeyRange>> {
        let start: Option<EffectivePartitionKey> = self.parsed(&names::START_EPK)?;
        let end: Option<EffectivePartitionKey> = self.parsed(&names::END_EPK)?;
        if start.is_none() && end.is_none() {
            return Ok(None);
        }
        match self.text(&names::READ_KEY_TYPE)? {
            Some(kind) if kind.eq_ignore_ascii_case(names::EFFECTIVE_PARTITION_KEY_RANGE) => {}
            found => {
                let found = found.unwrap_or_default();
                let why = format!(
                    "\"{found}\" does not go with a range of keys: \
                     expected EffectivePartitionKeyRange"
                );
                return Err(self.refusal(&names::READ_KEY_TYPE, why));
            }
        }
        let range = EffectivePartitionKeyRange::new(
            start.unwrap_or(EffectivePartitionKey::MIN),
            end.unwrap_or(EffectivePartitionKey::MAX),
        );
        range.map(Some).map_err(|error| self.refusal(&names::START_EPK, error))
    }

    /// The session token.
    pub fn session_token(&self) -> Result<Option<SessionToken>> {
        self.parsed(&names::SESSION_TOKEN)
    }

    /// The consistency asked for.
    pub fn consistency_level(&self) -> Result<Option<ConsistencyLevel>> {
        self.parsed(&names::CONSISTENCY_LEVEL)
    }

    /// The strategy asked for; it replaces the consistency level.
    pub fn read_consistency_strategy(&self) -> Result<Option<ReadConsistencyStrategy>> {
        self.parsed(&names::READ_CONSISTENCY_STRATEGY)
    }

    /// The version the resource must have.
    pub fn if_match(&self) -> Result<Option<Etag>> {
        self.parsed(&IF_MATCH)
    }

    /// The version the resource must not have, or the cursor of a change feed.
    pub fn if_none_match(&self) -> Result<Option<Etag>> {
        self.parsed(&IF_NONE_MATCH)
    }

    /// The time a change feed begins at.
    pub fn if_modified_since(&self) -> Result<Option<HttpDate>> {
        self.parsed(&IF_MODIFIED_SINCE)
    }

    /// Which change feed is asked for.
    pub fn change_feed_mode(&self) -> Result<Option<ChangeFeedMode>> {
        self.parsed(&names::A_IM)
    }

    /// Whether change feed items are to come in envelopes.
    pub fn wants_change_feed_envelopes(&self) -> Result<bool> {
        Ok(self.text(&names::CHANGE_FEED_WIRE_FORMAT_VERSION)?.is_some())
    }

    /// The continuation token of the last page.
    pub fn continuation(&self) -> Result<Option<&'a str>> {
        Ok(self.text(&names::CONTINUATION)?.filter(|text| !text.is_empty()))
    }

    /// The most items of a page.
    pub fn max_item_count(&self) -> Result<Option<MaxItemCount>> {
        self.parsed(&names::MAX_ITEM_COUNT)
    }

    /// Whether the body is a query.
    pub fn is_query(&self) -> Result<bool> {
        self.flag(&names::IS_QUERY)
    }

    /// Whether the plan of a query is asked for.
    pub fn is_query_plan_request(&self) -> Result<bool> {
        self.flag(&names::IS_QUERY_PLAN_REQUEST)
    }

    /// Whether the gateway may ask several partitions.
    pub fn enables_cross_partition_query(&self) -> Result<bool> {
        self.flag(&names::ENABLE_CROSS_PARTITION_QUERY)
    }

    /// The query features that the client supports.
    pub fn supported_query_features(&self) -> Result<impl Iterator<Item = &'a str> + use<'a>> {
        let text = self.text(&names::SUPPORTED_QUERY_FEATURES)?.unwrap_or_default();
        Ok(text.split(',').map(str::trim).filter(|feature| !feature.is_empty()))
    }

    /// Whether metrics of the query are asked for.
    pub fn populates_query_metrics(&self) -> Result<bool> {
        self.flag(&names::POPULATE_QUERY_METRICS)
    }

    /// Whether metrics of the index are asked for, as JSON in base64.
    pub fn populates_index_metrics(&self) -> Result<bool> {
        self.flag(&names::POPULATE_INDEX_METRICS)
    }

    /// Whether metrics of the index are asked for, as percent-encoded JSON.
    pub fn populates_index_metrics_v2(&self) -> Result<bool> {
        self.flag(&names::POPULATE_INDEX_METRICS_V2)
    }

    /// Whether the quota of a container is asked for.
    pub fn populates_quota_info(&self) -> Result<bool> {
        self.flag(&names::POPULATE_QUOTA_INFO)
    }

    /// Whether an offer of fixed throughput becomes one of autoscale.
    pub fn migrates_to_autopilot(&self) -> Result<bool> {
        self.flag(&names::MIGRATE_OFFER_TO_AUTOPILOT)
    }

    /// Whether an offer of autoscale becomes one of fixed throughput.
    pub fn migrates_to_manual_throughput(&self) -> Result<bool> {
        self.flag(&names::MIGRATE_OFFER_TO_MANUAL_THROUGHPUT)
    }

    /// Whether a create is an upsert.
    pub fn is_upsert(&self) -> Result<bool> {
        self.flag(&names::IS_UPSERT)
    }

    /// Whether the body is a batch.
    pub fn is_batch_request(&self) -> Result<bool> {
        self.flag(&names::IS_BATCH_REQUEST)
    }

    /// Whether the batch is atomic.
    pub fn is_batch_atomic(&self) -> Result<bool> {
        self.flag(&names::BATCH_ATOMIC)
    }

    /// Whether a batch goes on after a failure.
    pub fn batch_continues_on_error(&self) -> Result<bool> {
        self.flag(&names::BATCH_CONTINUE_ON_ERROR)
    }

    /// Whether a write is to return nothing of what it wrote.
    pub fn prefers_minimal(&self) -> Result<bool> {
        let prefer = self.text(&names::PREFER)?.unwrap_or_default();
        Ok(prefer.split(',').any(|part| part.trim().eq_ignore_ascii_case("return=minimal")))
    }

    /// Whether tentative writes are allowed: a write in a region that is not the hub.
    pub fn allows_tentative_writes(&self) -> Result<bool> {
        self.flag(&names::ALLOW_TENTATIVE_WRITES)
    }

    /// Whether only the hub region of the partition may answer.
    pub fn is_hub_region_only(&self) -> Result<bool> {
        self.flag(&names::HUB_REGION_PROCESSING_ONLY)
    }

    /// The RID the client believes the container has.
    pub fn intended_collection_rid(&self) -> Result<Option<&'a str>> {
        self.text(&names::INTENDED_COLLECTION_RID)
    }

    /// The priority of the request under throttling.
    pub fn priority_level(&self) -> Result<Option<PriorityLevel>> {
        self.parsed(&names::PRIORITY_LEVEL)
    }

    /// The share of throughput the request draws on.
    pub fn throughput_bucket(&self) -> Result<Option<u32>> {
        self.parsed(&names::THROUGHPUT_BUCKET)
    }

    /// The throughput of a new database or container.
    pub fn throughput(&self) -> Result<Option<ThroughputProperties>> {
        if let Some(text) = self.text(&names::OFFER_AUTOPILOT_SETTINGS)? {
            let settings = AutopilotSettings::from_header(text)
                .map_err(|error| self.refusal(&names::OFFER_AUTOPILOT_SETTINGS, error))?;
            return Ok(Some(settings.throughput()));
        }
        let manual: Option<u32> = self.parsed(&names::OFFER_THROUGHPUT)?;
        Ok(manual.map(ThroughputProperties::manual))
    }

    /// Whether the write is indexed.
    pub fn indexing_directive(&self) -> Result<Option<IndexingDirective>> {
        self.parsed(&names::INDEXING_DIRECTIVE)
    }

    /// The forms of JSON the client reads; text alone if it does not say.
    pub fn serialization_formats(&self) -> Result<SerializationFormats> {
        let text = self.text(&names::SUPPORTED_SERIALIZATION_FORMATS)?.unwrap_or("JsonText");
        Ok(SerializationFormats::from_header(text))
    }

    /// Whether the client asks for the thin client's locations.
    pub fn uses_thin_client(&self) -> Result<bool> {
        self.flag(&names::USE_THIN_CLIENT)
    }

    /// The client's capabilities.
    pub fn sdk_capabilities(&self) -> Result<SdkCapabilities> {
        Ok(SdkCapabilities(self.parsed(&names::SDK_SUPPORTED_CAPABILITIES)?.unwrap_or_default()))
    }

    /// Any header as text.
    pub fn text(&self, name: &HeaderName) -> Result<Option<&'a str>> {
        match self.0.get(name) {
            None => Ok(None),
            Some(value) => {
                value.to_str().map(Some).map_err(|_| self.refusal(name, "it is not ASCII text"))
            }
        }
    }

    fn parsed<T: FromStr<Err: fmt::Display>>(&self, name: &HeaderName) -> Result<Option<T>> {
        match self.text(name)? {
            None => Ok(None),
            Some(text) => text.trim().parse().map(Some).map_err(|error| self.refusal(name, error)),
        }
    }

    fn flag(&self, name: &HeaderName) -> Result<bool> {
        match self.text(name)?.map(str::trim) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(_) => Err(self.refusal(name, "expected True or False")),
        }
    }

    fn refusal(&self, name: &HeaderName, why: impl fmt::Display) -> Error {
        Error::new(ErrorKind::Header, format!("the header {name} is not valid: {why}"))
    }
}

/// The most items of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MaxItemCount {
    /// As many as fit; `-1` on the wire.
    Unlimited,
    /// At most so many.
    AtMost(NonZeroU32),
}

impl FromStr for MaxItemCount {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.parse::<i64>() {
            Ok(-1) => Some(Self::Unlimited),
            Ok(count) => u32::try_from(count).ok().and_then(NonZeroU32::new).map(Self::AtMost),
            Err(_) => None,
        }
        .ok_or_else(|| {
            Error::new(ErrorKind::Header, "expected -1 or a number of items greater than 0")
        })
    }
}

impl fmt::Display for MaxItemCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str("-1"),
            Self::AtMost(count) => write!(f, "{count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn headers(entries: &[(HeaderName, &'static str)]) -> HeaderMap {
        entries
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn a_request_is_read_as_values() {
        let map = headers(&[
            (names::PARTITION_KEY, "[\"a\",1]"),
            (names::IS_UPSERT, "True"),
            (names::IS_BATCH_REQUEST, "true"),
            (names::BATCH_CONTINUE_ON_ERROR, "False"),
            (names::MAX_ITEM_COUNT, "-1"),
            (names::PREFER, "return=minimal"),
            (names::SUPPORTED_QUERY_FEATURES, "OrderBy, Top,"),
            (names::SDK_SUPPORTED_CAPABILITIES, "11"),
            (names::A_IM, "Incremental Feed"),
        ]);
        let request = RequestHeaders::new(&map);
        assert_eq!(request.partition_key().unwrap(), Some(("a", 1).into()));
        assert!(request.is_upsert().unwrap() && request.is_batch_request().unwrap());
        assert!(!request.batch_continues_on_error().unwrap() && !request.is_query().unwrap());
        assert_eq!(request.max_item_count().unwrap(), Some(MaxItemCount::Unlimited));
        assert!(request.prefers_minimal().unwrap());
        assert!(request.supported_query_features().unwrap().eq(["OrderBy", "Top"]));
        assert_eq!(request.sdk_capabilities().unwrap(), SdkCapabilities::ALL);
        assert_eq!(request.change_feed_mode().unwrap(), Some(ChangeFeedMode::LatestVersion));
    }

    #[test]
    fn a_garbled_header_is_an_error_that_names_it() {
        let map = headers(&[
            (names::IS_UPSERT, "yes"),
            (names::PARTITION_KEY, "a"),
            (names::MAX_ITEM_COUNT, "0"),
        ]);
        let request = RequestHeaders::new(&map);
        for error in [
            request.is_upsert().unwrap_err(),
            request.partition_key().unwrap_err(),
            request.max_item_count().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Header);
            assert!(error.to_string().contains("x-ms-"), "{error}");
        }
    }

    #[test]
    fn a_range_of_keys_needs_its_key_type() {
        let range = [(names::START_EPK, "3A53"), (names::END_EPK, "3A54")];
        let mut map = headers(&range);
        assert!(RequestHeaders::new(&map).effective_partition_key_range().is_err());
        map.insert(names::READ_KEY_TYPE, HeaderValue::from_static("EffectivePartitionKey"));
        assert!(RequestHeaders::new(&map).effective_partition_key_range().is_err());
        map.insert(names::READ_KEY_TYPE, HeaderValue::from_static("EffectivePartitionKeyRange"));
        let range = RequestHeaders::new(&map).effective_partition_key_range().unwrap().unwrap();
        assert_eq!(range.to_string(), "[3A53,3A54)");
    }

    #[test]
    fn throughput_is_fixed_or_scaled() {
        let manual = headers(&[(names::OFFER_THROUGHPUT, "400")]);
        assert_eq!(
            RequestHeaders::new(&manual).throughput().unwrap(),
            Some(ThroughputProperties::manual(400))
        );
        let scaled = headers(&[(names::OFFER_AUTOPILOT_SETTINGS, "{\"maxThroughput\":4000}")]);
        assert_eq!(
            RequestHeaders::new(&scaled).throughput().unwrap(),
            Some(ThroughputProperties::autoscale(4000, None))
        );
        assert_eq!(RequestHeaders::new(&HeaderMap::new()).throughput().unwrap(), None);
    }

    #[test]
    fn a_page_size_reads_back() {
        for text in ["-1", "1", "1000"] {
            assert_eq!(text.parse::<MaxItemCount>().unwrap().to_string(), text);
        }
    }
}
