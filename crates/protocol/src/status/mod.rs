//! Statuses: the HTTP code and the service's sub-status, which mean something only together.
//!
//! How to react to a status is decided by the caller, above all by the driver's retry matrix. The names
//! are data, in `names`.

mod names;

use std::fmt;

/// An HTTP status code with the sub-status the service refined it by.
///
/// Plain data, so that the constants can be matched on. A sub-status of 0 means none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CosmosStatus {
    code: u16,
    sub_status: u32,
}

impl CosmosStatus {
    /// 200.
    pub const OK: Self = Self::new(200);
    /// 201.
    pub const CREATED: Self = Self::new(201);
    /// 204.
    pub const NO_CONTENT: Self = Self::new(204);
    /// 207: a batch of which some operation failed.
    pub const MULTI_STATUS: Self = Self::new(207);
    /// 304: a change feed without news, or a read of a version already known.
    pub const NOT_MODIFIED: Self = Self::new(304);
    /// 400.
    pub const BAD_REQUEST: Self = Self::new(400);
    /// 400/1001: the key in the header is not the key in the document.
    pub const PARTITION_KEY_MISMATCH: Self = Self::with_sub_status(400, 1001);
    /// 400/1004: the gateway cannot answer this query across partitions; ask for its plan.
    pub const CROSS_PARTITION_QUERY_NOT_SERVABLE: Self = Self::with_sub_status(400, 1004);
    /// 400/1024: the container was recreated under the same name.
    pub const COLLECTION_RID_MISMATCH: Self = Self::with_sub_status(400, 1024);
    /// 401.
    pub const UNAUTHORIZED: Self = Self::new(401);
    /// 401/5006: the Entra token has expired.
    pub const AAD_TOKEN_EXPIRED: Self = Self::with_sub_status(401, 5006);
    /// 403.
    pub const FORBIDDEN: Self = Self::new(403);
    /// 403/3: this region does not take writes.
    pub const WRITE_FORBIDDEN: Self = Self::with_sub_status(403, 3);
    /// 403/1008: this region no longer belongs to the account.
    pub const DATABASE_ACCOUNT_NOT_FOUND: Self = Self::with_sub_status(403, 1008);
    /// 403/5300: the operation does not exist for Entra tokens (databases, throughput); an account key is needed.
    pub const RBAC_OPERATION_NOT_SUPPORTED: Self = Self::with_sub_status(403, 5300);
    /// 404.
    pub const NOT_FOUND: Self = Self::new(404);
    /// 404/1002: the replica lags behind the session token.
    pub const READ_SESSION_NOT_AVAILABLE: Self = Self::with_sub_status(404, 1002);
    /// 404/1003: the database or container around it does not exist.
    pub const OWNER_RESOURCE_NOT_FOUND: Self = Self::with_sub_status(404, 1003);
    /// 405.
    pub const METHOD_NOT_ALLOWED: Self = Self::new(405);
    /// 408: a write may have been applied.
    pub const REQUEST_TIMEOUT: Self = Self::new(408);
    /// 409.
    pub const CONFLICT: Self = Self::new(409);
    /// 409/3301: another item has these values of a unique key.
    pub const UNIQUE_INDEX_CONFLICT: Self = Self::with_sub_status(409, 3301);
    /// 410.
    pub const GONE: Self = Self::new(410);
    /// 410/1000: the container was recreated under the same name.
    pub const NAME_CACHE_IS_STALE: Self = Self::with_sub_status(410, 1000);
    /// 410/1002: the partition range was split or merged away.
    pub const PARTITION_KEY_RANGE_GONE: Self = Self::with_sub_status(410, 1002);
    /// 410/1007: the partition range is being split or merged.
    pub const COMPLETING_SPLIT_OR_MERGE: Self = Self::with_sub_status(410, 1007);
    /// 410/1008: the partition range is being moved.
    pub const COMPLETING_PARTITION_MIGRATION: Self = Self::with_sub_status(410, 1008);
    /// 412: the etag condition did not hold.
    pub const PRECONDITION_FAILED: Self = Self::new(412);
    /// 412/1110: the filter of a patch did not hold.
    pub const PATCH_CONDITION_NOT_MET: Self = Self::with_sub_status(412, 1110);
    /// 413.
    pub const PAYLOAD_TOO_LARGE: Self = Self::new(413);
    /// 413/3402: the items of a batch's response are too large.
    pub const BATCH_RESPONSE_SIZE_EXCEEDED: Self = Self::with_sub_status(413, 3402);
    /// 424: another operation of the batch failed.
    pub const FAILED_DEPENDENCY: Self = Self::new(424);
    /// 429/3200: out of request units.
    pub const REQUEST_UNITS_EXCEEDED: Self = Self::with_sub_status(429, 3200);
    /// 429/3092: the node is out of resources; unlike other 429s, waiting here does not help.
    pub const SYSTEM_RESOURCE_UNAVAILABLE: Self = Self::with_sub_status(429, 3092);
    /// 449: two concurrent writes conflicted inside the service; retry in place.
    pub const RETRY_WITH: Self = Self::new(449);
    /// 500.
    pub const INTERNAL_SERVER_ERROR: Self = Self::new(500);
    /// 503.
    pub const SERVICE_UNAVAILABLE: Self = Self::new(503);
    /// 503/31001, made by the client: the transport failed, no response came.
    pub const CLIENT_TRANSPORT_FAILED: Self = Self::with_sub_status(503, 31001);
    /// 408/31002, made by the client: the operation's deadline passed.
    pub const CLIENT_DEADLINE_EXCEEDED: Self = Self::with_sub_status(408, 31002);
    /// 503/31004, made by the client: the wait queue for a connection is full.
    pub const CLIENT_QUEUE_FULL: Self = Self::with_sub_status(503, 31004);
    /// 500/31005, made by the client: the response cannot be parsed.
    pub const CLIENT_RESPONSE_INVALID: Self = Self::with_sub_status(500, 31005);
    /// 400/31006, made by the client: the request cannot be sent as it is.
    pub const CLIENT_REQUEST_INVALID: Self = Self::with_sub_status(400, 31006);

    /// A status without sub-status.
    pub const fn new(code: u16) -> Self {
        Self { code, sub_status: 0 }
    }

    /// A status with its sub-status; 0 for none.
    pub const fn with_sub_status(code: u16, sub_status: u32) -> Self {
        Self { code, sub_status }
    }

    /// The HTTP status code.
    pub const fn code(self) -> u16 {
        self.code
    }

    /// The sub-status, or 0 for none.
    pub const fn sub_status(self) -> u32 {
        self.sub_status
    }

    /// The name of the sub-status under this code, or else of the code.
    pub fn name(self) -> Option<&'static str> {
        let refined = if self.sub_status == 0 { None } else { self.sub_status_name() };
        refined.or_else(|| self.code_name())
    }

    /// The name of the code, as the service puts it in the body of an error.
    pub fn code_name(self) -> Option<&'static str> {
        let (_, name) = CODES.iter().find(|(code, _)| *code == self.code)?;
        Some(name)
    }

    fn sub_status_name(self) -> Option<&'static str> {
        let start = names::NAMES.partition_point(|(sub_status, ..)| *sub_status < self.sub_status);
        let rows = names::NAMES[start..].iter().take_while(|row| row.0 == self.sub_status);
        // The row for any code sorts before the rows for a certain one, and the last match wins.
        let (.., name) = rows.filter(|(_, code, _)| *code == 0 || *code == self.code).last()?;
        Some(name)
    }
}

/// Questions that a pipeline asks about a status.
impl CosmosStatus {
    /// Any 2xx.
    pub const fn is_success(self) -> bool {
        matches!(self.code, 200..=299)
    }

    /// 304.
    pub const fn is_not_modified(self) -> bool {
        self.code == 304
    }

    /// Any 404, a session that is not available included.
    pub const fn is_not_found(self) -> bool {
        self.code == 404
    }

    /// 404/1002: the replica lags behind the session token.
    pub const fn is_read_session_not_available(self) -> bool {
        matches!(self, Self::READ_SESSION_NOT_AVAILABLE)
    }

    /// 409.
    pub const fn is_conflict(self) -> bool {
        self.code == 409
    }

    /// 412.
    pub const fn is_precondition_failed(self) -> bool {
        self.code == 412
    }

    /// Whether the session token of the response is to be captured: a success, or a rejection that
    /// rests on what the replica holds.
    pub const fn carries_session_progress(self) -> bool {
        self.is_success()
            || self.is_not_modified()
            || self.is_conflict()
            || self.is_precondition_failed()
            || (self.is_not_found() && !self.is_read_session_not_available())
    }
}

impl From<http::StatusCode> for CosmosStatus {
    fn from(code: http::StatusCode) -> Self {
        Self::new(code.as_u16())
    }
}

/// `404/1002 ReadSessionNotAvailable`, `409 Conflict`.
impl fmt::Display for CosmosStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if self.sub_status != 0 {
            write!(f, "/{}", self.sub_status)?;
        }
        match self.name() {
            Some(name) => write!(f, " {name}"),
            None => Ok(()),
        }
    }
}

/// The names of the codes the service answers with.
const CODES: &[(u16, &str)] = &[
    (200, "Ok"),
    (201, "Created"),
    (202, "Accepted"),
    (204, "NoContent"),
    (207, "MultiStatus"),
    (304, "NotModified"),
    (400, "BadRequest"),
    (401, "Unauthorized"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (405, "MethodNotAllowed"),
    (406, "NotAcceptable"),
    (408, "RequestTimeout"),
    (409, "Conflict"),
    (410, "Gone"),
    (412, "PreconditionFailed"),
    (413, "RequestEntityTooLarge"),
    (423, "Locked"),
    (424, "FailedDependency"),
    (429, "TooManyRequests"),
    (449, "RetryWith"),
    (500, "InternalServerError"),
    (502, "BadGateway"),
    (503, "ServiceUnavailable"),
    (504, "GatewayTimeout"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(code: u16, sub_status: u32) -> String {
        CosmosStatus::with_sub_status(code, sub_status).to_string()
    }

    #[test]
    fn a_status_is_shown_with_the_name_a_person_knows() {
        assert_eq!(shown(404, 1002), "404/1002 ReadSessionNotAvailable");
        assert_eq!(shown(410, 1002), "410/1002 PartitionKeyRangeGone");
        assert_eq!(shown(409, 0), "409 Conflict");
        assert_eq!(shown(404, 4242), "404/4242 NotFound");
        assert_eq!(shown(599, 0), "599");
    }

    #[test]
    fn a_name_for_one_code_goes_before_the_name_for_any() {
        assert_eq!(shown(503, 6001), "503/6001 AggregatedHealthStateError");
        assert_eq!(shown(200, 6001), "200/6001 QueryWaitForSequentialProgress");
        assert_eq!(shown(400, 1008), "400/1008 BadRequest");
    }

    #[test]
    fn the_table_is_sorted_and_each_row_is_there_once() {
        assert_eq!(names::NAMES.len(), 371 + 6);
        assert!(names::NAMES.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)));
    }

    #[test]
    fn every_row_is_found_again() {
        for &(sub_status, code, name) in names::NAMES.iter().filter(|row| row.0 != 0) {
            let code = if code == 0 { 599 } else { code };
            assert_eq!(CosmosStatus::with_sub_status(code, sub_status).name(), Some(name));
        }
    }

    #[test]
    fn a_constant_can_be_matched_on() {
        let status = CosmosStatus::with_sub_status(403, 3);
        assert!(matches!(status, CosmosStatus::WRITE_FORBIDDEN));
    }

    #[test]
    fn a_missing_session_tells_nothing_of_progress() {
        assert!(CosmosStatus::NOT_FOUND.carries_session_progress());
        assert!(!CosmosStatus::READ_SESSION_NOT_AVAILABLE.carries_session_progress());
        assert!(!CosmosStatus::SERVICE_UNAVAILABLE.carries_session_progress());
    }
}
