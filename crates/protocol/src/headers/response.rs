//! The headers of a response, read leniently.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use http::header::ETAG;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::names;
use crate::date::HttpDate;
use crate::etag::Etag;
use crate::partition_key::PartitionKeyRangeId;
use crate::session::SessionToken;
use crate::status::CosmosStatus;

/// A view of the headers of a response. What is missing or garbled is `None`.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHeaders<'a>(&'a HeaderMap);

impl<'a> ResponseHeaders<'a> {
    /// Reads these headers.
    pub fn new(headers: &'a HeaderMap) -> Self {
        Self(headers)
    }

    /// The status code together with the sub-status.
    pub fn status(&self, code: StatusCode) -> CosmosStatus {
        CosmosStatus::with_sub_status(
            code.as_u16(),
            self.parsed(&names::SUB_STATUS).unwrap_or_default(),
        )
    }

    /// The id of the request, as the service noted it.
    pub fn activity_id(&self) -> Option<&'a str> {
        self.text(&names::ACTIVITY_ID)
    }

    /// The service's clock when it answered, to the second.
    pub fn date(&self) -> Option<SystemTime> {
        self.parsed(&http::header::DATE).map(|date: HttpDate| date.time())
    }

    /// The charge in request units.
    pub fn request_charge(&self) -> Option<f64> {
        self.parsed(&names::REQUEST_CHARGE).filter(|charge: &f64| charge.is_finite())
    }

    /// The session token.
    pub fn session_token(&self) -> Option<SessionToken> {
        self.parsed(&names::SESSION_TOKEN)
    }

    /// The version of the resource, or the cursor of a change feed.
    pub fn etag(&self) -> Option<Etag> {
        self.parsed(&ETAG)
    }

    /// The continuation token of the next page; `None` after the last.
    pub fn continuation(&self) -> Option<&'a str> {
        self.text(&names::CONTINUATION).filter(|text| !text.is_empty())
    }

    /// The items of the page.
    pub fn item_count(&self) -> Option<u32> {
        self.parsed(&names::ITEM_COUNT)
    }

    /// How long to wait before trying again.
    pub fn retry_after(&self) -> Option<Duration> {
        self.milliseconds(&names::RETRY_AFTER_MS)
    }

    /// How long the service took.
    pub fn request_duration(&self) -> Option<Duration> {
        self.milliseconds(&names::REQUEST_DURATION_MS)
    }

    /// The partition range that answered.
    pub fn partition_key_range_id(&self) -> Option<PartitionKeyRangeId> {
        self.parsed(&names::PARTITION_KEY_RANGE_ID)
    }

    /// The service's internal id of the partition.
    pub fn internal_partition_id(&self) -> Option<&'a str> {
        self.text(&names::INTERNAL_PARTITION_ID)
    }

    /// The physical partition.
    pub fn physical_partition_id(&self) -> Option<&'a str> {
        self.text(&names::PHYSICAL_PARTITION_ID)
    }

    /// The log sequence number (LSN) of the partition; like every LSN here, negative for none.
    pub fn lsn(&self) -> Option<i64> {
        self.parsed(&names::LSN)
    }

    /// The LSN of the item's last write.
    pub fn item_lsn(&self) -> Option<i64> {
        self.parsed(&names::ITEM_LSN)
    }

    /// The local LSN of the partition: the one of the responding region.
    pub fn local_lsn(&self) -> Option<i64> {
        self.parsed(&names::LOCAL_LSN)
    }

    /// The local LSN of the item's last write.
    pub fn item_local_lsn(&self) -> Option<i64> {
        self.parsed(&names::ITEM_LOCAL_LSN)
    }

    /// The global committed LSN: every region has applied it.
    pub fn global_committed_lsn(&self) -> Option<i64> {
        self.parsed(&names::GLOBAL_COMMITTED_LSN)
    }

    /// The LSN that a quorum of replicas has acknowledged.
    pub fn quorum_acked_lsn(&self) -> Option<i64> {
        self.parsed(&names::QUORUM_ACKED_LSN)
    }

    /// The local LSN that a quorum of the region's replicas has acknowledged.
    pub fn quorum_acked_local_lsn(&self) -> Option<i64> {
        self.parsed(&names::QUORUM_ACKED_LOCAL_LSN)
    }

    /// How many regions replicate the partition.
    pub fn number_of_read_regions(&self) -> Option<u32> {
        self.parsed(&names::NUMBER_OF_READ_REGIONS)
    }

    /// The container, by names: `dbs/shop/colls/orders`.
    pub fn owner_full_name(&self) -> Option<&'a str> {
        self.text(&names::OWNER_FULL_NAME)
    }

    /// The container, by RID.
    pub fn owner_id(&self) -> Option<&'a str> {
        self.text(&names::OWNER_ID)
    }

    /// Whether a change of throughput is still pending.
    pub fn is_offer_replace_pending(&self) -> bool {
        self.flag(&names::OFFER_REPLACE_PENDING)
    }

    /// Whether a delete by partition key is still pending.
    pub fn is_partition_key_delete_pending(&self) -> bool {
        self.flag(&names::IS_PARTITION_KEY_DELETE_PENDING)
    }

    /// Whether the write is tentative: conflict resolution may still discard it.
    pub fn has_tentative_writes(&self) -> bool {
        self.flag(&names::ALLOW_TENTATIVE_WRITES)
    }

    /// How far a new indexing policy is applied, in percent.
    pub fn index_transformation_progress(&self) -> Option<i32> {
        self.parsed(&names::INDEX_TRANSFORMATION_PROGRESS)
    }

    /// Which indexes a query used: JSON in base64.
    pub fn index_utilization(&self) -> Option<&'a str> {
        self.text(&names::INDEX_UTILIZATION)
    }

    /// How a query spent its time: each measure and its value.
    pub fn query_metrics(&self) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
        let text = self.text(&names::QUERY_METRICS).unwrap_or_default();
        text.split(';').filter_map(|part| {
            let (name, value) = part.split_once('=')?;
            Some((name.trim(), value.trim().parse().ok()?))
        })
    }

    /// Reads the headers that every response's diagnostics hold, in one pass: a lookup by name hashes the name each time.
    pub fn accounting(&self) -> ResponseAccounting<'a> {
        let mut found = ResponseAccounting::default();
        for (name, value) in self.0 {
            // Names as `names.rs` has them; a test compares the two. Header values are ASCII, and so is what
            // surrounds them (RFC 9110, section 5.5).
            let text = || value.to_str().ok().map(str::trim_ascii);
            match name.as_str() {
                "x-ms-substatus" => found.sub_status = text().and_then(|it| it.parse().ok()),
                "x-ms-request-charge" => {
                    let charge = text().and_then(|it| it.parse().ok());
                    found.request_charge = charge.filter(|charge: &f64| charge.is_finite());
                }
                "x-ms-request-duration-ms" => found.request_duration = text().and_then(duration),
                "lsn" => found.lsn = text().and_then(|it| it.parse().ok()),
                "x-ms-global-committed-lsn" => {
                    found.global_committed_lsn = text().and_then(|it| it.parse().ok());
                }
                "x-ms-documentdb-partitionkeyrangeid" => found.partition_key_range_id = text(),
                _ => {}
            }
        }
        found
    }

    /// Reads the headers that a session needs, in one pass as [`accounting`](Self::accounting).
    pub fn session_progress(&self) -> SessionProgress<'a> {
        let mut found = SessionProgress::default();
        for (name, value) in self.0 {
            match name.as_str() {
                "x-ms-session-token" => _ = found.token.get_or_insert(value),
                "x-ms-content-path" => _ = found.owner_id.get_or_insert(value),
                _ => continue,
            }
            if found.token.is_some() && found.owner_id.is_some() {
                break;
            }
        }
        found
    }

    /// Any header as text.
    pub fn text(&self, name: &HeaderName) -> Option<&'a str> {
        self.0.get(name)?.to_str().ok()
    }

    fn parsed<T: FromStr>(&self, name: &HeaderName) -> Option<T> {
        self.text(name)?.trim().parse().ok()
    }

    fn milliseconds(&self, name: &HeaderName) -> Option<Duration> {
        duration(self.text(name)?.trim())
    }

    /// The service writes `True` and `true` by turns.
    fn flag(&self, name: &HeaderName) -> bool {
        self.text(name).is_some_and(|text| text.trim().eq_ignore_ascii_case("true"))
    }
}

/// A number of milliseconds.
fn duration(text: &str) -> Option<Duration> {
    let milliseconds: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(milliseconds / 1000.0).ok()
}

/// The headers that every response's diagnostics hold.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResponseAccounting<'a> {
    /// The sub-status, as [`ResponseHeaders::status`] has it.
    pub sub_status: Option<u32>,
    /// See [`ResponseHeaders::request_charge`].
    pub request_charge: Option<f64>,
    /// See [`ResponseHeaders::request_duration`].
    pub request_duration: Option<Duration>,
    /// See [`ResponseHeaders::lsn`].
    pub lsn: Option<i64>,
    /// See [`ResponseHeaders::global_committed_lsn`].
    pub global_committed_lsn: Option<i64>,
    /// The id of the partition range, as it stands.
    pub partition_key_range_id: Option<&'a str>,
}

/// The headers that a session needs, as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionProgress<'a> {
    /// See [`ResponseHeaders::session_token`].
    pub token: Option<&'a HeaderValue>,
    /// See [`ResponseHeaders::owner_id`].
    pub owner_id: Option<&'a HeaderValue>,
}

#[cfg(test)]
mod tests {

    use super::*;

    fn headers(entries: &[(HeaderName, &'static str)]) -> HeaderMap {
        entries
            .iter()
            .map(|(name, value)| (name.clone(), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn an_answer_is_read_as_values() {
        let map = headers(&[
            (names::REQUEST_CHARGE, "2.86"),
            (names::SUB_STATUS, "1002"),
            (names::RETRY_AFTER_MS, "1500"),
            (names::REQUEST_DURATION_MS, "0.25"),
            (names::LSN, "-1"),
            (names::ITEM_COUNT, "12"),
            (names::OFFER_REPLACE_PENDING, "True"),
            (names::SESSION_TOKEN, "0:-1#12"),
            (names::PARTITION_KEY_RANGE_ID, "7"),
            (ETAG, "\"0-1\""),
        ]);
        let response = ResponseHeaders::new(&map);
        assert_eq!(response.request_charge(), Some(2.86));
        assert_eq!(
            response.status(StatusCode::NOT_FOUND),
            CosmosStatus::READ_SESSION_NOT_AVAILABLE
        );
        assert_eq!(response.retry_after(), Some(Duration::from_millis(1500)));
        assert_eq!(response.request_duration(), Some(Duration::from_micros(250)));
        assert_eq!(response.lsn(), Some(-1));
        assert_eq!(response.item_count(), Some(12));
        assert!(response.is_offer_replace_pending());
        assert_eq!(response.session_token(), "0:-1#12".parse().ok());
        assert_eq!(response.partition_key_range_id(), Some(7.into()));
        assert_eq!(response.etag(), Etag::new("\"0-1\"").ok());
    }

    #[test]
    fn one_pass_reads_what_the_single_headers_say() {
        for charge in ["1.5", "NaN", "much"] {
            let headers = headers(&[
                (names::REQUEST_CHARGE, charge),
                (names::REQUEST_DURATION_MS, "0.42"),
                (names::LSN, "12"),
                (names::GLOBAL_COMMITTED_LSN, "9"),
                (names::PARTITION_KEY_RANGE_ID, "3"),
                (names::SUB_STATUS, " 1002 "),
                (names::ACTIVITY_ID, "id"),
                (names::SESSION_TOKEN, "0:-1#12"),
                (names::OWNER_ID, "rid"),
            ]);
            let (view, found) =
                (ResponseHeaders::new(&headers), ResponseHeaders::new(&headers).accounting());
            assert_eq!(found.request_charge, view.request_charge());
            assert_eq!(found.request_duration, view.request_duration());
            assert!(found.request_duration.is_some());
            assert_eq!((found.lsn, found.global_committed_lsn), (Some(12), Some(9)));
            assert_eq!((view.lsn(), view.global_committed_lsn()), (Some(12), Some(9)));
            assert_eq!(found.partition_key_range_id, Some("3"));
            assert_eq!(found.sub_status, Some(view.status(StatusCode::NOT_FOUND).sub_status()));
            let progress = view.session_progress();
            assert_eq!(progress.token, headers.get(&names::SESSION_TOKEN));
            assert_eq!(progress.owner_id, headers.get(&names::OWNER_ID));
            assert!(progress.token.is_some() && progress.owner_id.is_some());
        }
    }

    #[test]
    fn what_is_missing_or_garbled_is_none() {
        let map = headers(&[
            (names::REQUEST_CHARGE, "NaN"),
            (names::RETRY_AFTER_MS, "-5"),
            (names::LSN, "x"),
            (names::CONTINUATION, ""),
        ]);
        let response = ResponseHeaders::new(&map);
        assert_eq!(response.request_charge(), None);
        assert_eq!(response.retry_after(), None);
        assert_eq!(response.lsn(), None);
        assert_eq!(response.continuation(), None);
        assert_eq!(response.item_lsn(), None);
        assert_eq!(response.status(StatusCode::OK), CosmosStatus::OK);
    }

    #[test]
    fn query_metrics_are_pairs() {
        let map = headers(&[(
            names::QUERY_METRICS,
            "totalExecutionTimeInMs=33.67;retrievedDocumentCount=2;odd",
        )]);
        let metrics: Vec<_> = ResponseHeaders::new(&map).query_metrics().collect();
        assert_eq!(metrics, [("totalExecutionTimeInMs", 33.67), ("retrievedDocumentCount", 2.0)]);
    }
}
