//! The account: what it was told to be, and the way of a request through it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode};
use sidereal_protocol::{
    AccountKey, AuthorizationError, AuthorizationToken, ConsistencyLevel, CosmosStatus,
    DATE_WINDOW, RegionName, RequestPath, check_date,
};

use sidereal_protocol::headers::names as headers;

use crate::charge;
use crate::clock::{Clock, SystemClock, Timestamp};
use crate::counters::Counters;
use crate::error::{Result, ServiceError};
use crate::faults::Faults;
use crate::handlers;
use crate::interference::no_answer;
use crate::regions::{Regions, Topology};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{Catalog, Container, Lag, Partition, WritePlace};

/// The key that the published emulator has; every SDK's documentation names it.
const PUBLISHED_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The most writes that a region may be behind under bounded staleness, as the service defaults it.
const MAX_STALENESS: u64 = 100_000;

/// What an account is told to be.
#[derive(Clone)]
pub struct AccountOptions {
    /// The key that requests are signed with; the published emulator key by default.
    pub key: AccountKey,
    /// The account's consistency; session by default.
    pub consistency: ConsistencyLevel,
    /// Physical partitions of a new container; by its throughput where this is not set.
    pub partitions: Option<u32>,
    /// Whether requests beyond the provisioned throughput are refused.
    pub enforce_throughput: bool,
    /// The account's regions; the first accepts writes.
    pub regions: Vec<RegionName>,
    /// Whether every region accepts writes.
    pub multi_write: bool,
    /// How far behind a region's replicas are.
    pub replication_delay: Duration,
    /// Under bounded staleness, the most writes that a region may be behind.
    pub max_staleness: u64,
    /// Whether clients are told to move the writes of a failing partition by themselves.
    pub partition_failover: bool,
    /// Whether clients are told not to hedge across regions.
    pub hedging_suppressed: bool,
    /// Whether thin-client locations are listed to clients that ask for them. Nothing speaks there yet:
    /// their probe answers 503, so clients stay on this gateway.
    pub thin_client: bool,
    /// Where the account gets its time from.
    pub clock: Arc<dyn Clock>,
}

impl Default for AccountOptions {
    fn default() -> Self {
        Self {
            key: AccountKey::from_base64(PUBLISHED_KEY).expect("the published key is base64"),
            consistency: ConsistencyLevel::Session,
            partitions: None,
            enforce_throughput: false,
            regions: vec![RegionName::from("South Central US")],
            multi_write: false,
            replication_delay: Duration::ZERO,
            max_staleness: MAX_STALENESS,
            partition_failover: false,
            hedging_suppressed: false,
            thin_client: false,
            clock: Arc::new(SystemClock),
        }
    }
}

impl fmt::Debug for AccountOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("AccountOptions")
            .field("consistency", &self.consistency)
            .field("partitions", &self.partitions)
            .field("enforce_throughput", &self.enforce_throughput)
            .field("regions", &self.regions)
            .field("replication_delay", &self.replication_delay)
            .finish_non_exhaustive()
    }
}

/// An account, free of any transport.
#[derive(Debug)]
pub struct Account {
    options: AccountOptions,
    catalog: Catalog,
    regions: Regions,
    faults: Faults,
    counters: Counters,
}

impl Account {
    /// An empty account.
    #[must_use]
    pub fn new(options: AccountOptions) -> Self {
        let mut topology = Topology::new(&options.regions, options.multi_write);
        for region in &mut topology.regions {
            region.replication.delay = options.replication_delay;
        }
        Self {
            options,
            catalog: Catalog::default(),
            regions: Regions::new(topology),
            faults: Faults::default(),
            counters: Counters::default(),
        }
    }

    /// What the account was told to be.
    #[must_use]
    pub fn options(&self) -> &AccountOptions {
        &self.options
    }

    /// Answers a request to the account's global endpoint.
    ///
    /// It answers reads of the account whatever region is down, and forwards everything else to the
    /// region that accepts writes. The URLs that the answer advertises carry the scheme and authority of
    /// the request's URI, or of its `host` header where the URI has none.
    ///
    /// There is no connection here for a fault rule to act on: delays pass at once, and where the
    /// connection would break or hang the answer is an empty 503.
    #[must_use]
    pub fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        let incoming = self.enter(None, request);
        incoming.and_then(|incoming| self.at_once(&incoming)).unwrap_or_else(no_answer)
    }

    /// Answers a request to the endpoint of one region; `None` is a refused connection, or one that a
    /// fault rule breaks or lets hang.
    #[must_use]
    pub fn handle_in(
        &self,
        region: &RegionName,
        request: Request<Bytes>,
    ) -> Option<Response<Bytes>> {
        self.at_once(&self.enter(Some(region), request)?)
    }

    /// A request at the account's global endpoint or at that of a region; `None` where the region's door
    /// is closed.
    pub(crate) fn enter(
        &self,
        door: Option<&RegionName>,
        request: Request<Bytes>,
    ) -> Option<Incoming> {
        let now = self.options.clock.now();
        let topology = self.regions.current();
        let region = match door {
            None => topology.writer(now),
            Some(name) => topology.regions.iter().position(|known| known.name == *name)?,
        };
        if door.is_some() && !topology.regions[region].online {
            return None;
        }
        Some(Incoming::new(request, now, region, topology))
    }

    /// A request that waited, as it finds the account now.
    pub(crate) fn entering_now(&self, incoming: Incoming, regional: bool) -> Incoming {
        let now = self.options.clock.now();
        let topology = self.regions.current();
        let region = if regional { incoming.region } else { topology.writer(now) };
        Incoming { now, region, topology, ..incoming }
    }

    pub(crate) fn answer(&self, incoming: &Incoming) -> Response<Bytes> {
        self.conclude(incoming, |path| self.route(incoming, path))
    }

    /// Makes an answer of what `work` says, and counts it.
    pub(crate) fn conclude(
        &self,
        incoming: &Incoming,
        work: impl FnOnce(&ParsedPath) -> Result<Reply>,
    ) -> Response<Bytes> {
        let activity = activity_of(incoming);
        let path = incoming.uri.path().parse();
        let reply = work(&path).unwrap_or_else(|mut error| {
            error.message.push_str(&format!("\r\nActivityId: {activity}, {AGENT}"));
            error.into_reply()
        });
        self.count(incoming, path.as_ref().ok(), Some(&reply));
        finish(reply, &activity)
    }

    pub(crate) fn fault_rules(&self) -> &Faults {
        &self.faults
    }

    pub(crate) fn counted(&self) -> &Counters {
        &self.counters
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Refuses a request to a partition whose throughput is spent, if throughput is enforced.
    pub(crate) fn admit(
        &self,
        container: &Container,
        partition: &Partition,
        now: Timestamp,
    ) -> Result<()> {
        if !self.options.enforce_throughput {
            return Ok(());
        }
        let own = self.catalog.offer_of(container.rid);
        let shared = || container.rid.database_rid().and_then(|rid| self.catalog.offer_of(rid));
        let Some(offer) = own.or_else(shared) else { return Ok(()) };
        let units = f64::from(offer.throughput.ceiling()) / container.partitions().len() as f64;
        partition.budget.admit(now, units).map_err(ServiceError::throttled)
    }

    /// Books what a request cost.
    pub(crate) fn spend(&self, partition: &Partition, now: Timestamp, units: f64) {
        if self.options.enforce_throughput {
            partition.budget.spend(now, units);
        }
    }

    pub(crate) fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Where a write of a partition happens, if the region that it reached accepts it.
    pub(crate) fn write_place<'a>(
        &self,
        incoming: &'a Incoming,
        partition: &Partition,
    ) -> Result<WritePlace<'a>> {
        let tentative =
            incoming.topology.multi_write && incoming.typed().allows_tentative_writes()?;
        if !tentative && partition.writer(&incoming.topology, incoming.now) != incoming.region {
            return Err(ServiceError::write_forbidden());
        }
        let lag = match self.options.consistency {
            ConsistencyLevel::Strong => Lag::None,
            ConsistencyLevel::BoundedStaleness => Lag::AtMost(self.options.max_staleness),
            _ => Lag::Unbounded,
        };
        let Incoming { region, topology, now, .. } = incoming;
        Ok(WritePlace { region: *region, topology, now: *now, lag })
    }

    fn route(&self, incoming: &Incoming, path: &ParsedPath) -> Result<Reply> {
        if incoming.uri.path() == PROBE {
            return Ok(Reply::empty(CosmosStatus::OK));
        }
        if incoming.uri.path() == THIN_CLIENT_PROBE && self.options.thin_client {
            let message = "Nothing speaks the thin client's protocol here.";
            return Err(ServiceError::new(CosmosStatus::SERVICE_UNAVAILABLE, message));
        }
        if incoming.topology.regions[incoming.region].removed {
            return Err(ServiceError::region_removed());
        }
        let path = path.as_ref().map_err(|error| ServiceError::bad_request(error.to_string()))?;
        self.authorize(incoming, path)?;
        handlers::dispatch(self, incoming, path)
    }

    /// Checks date, kind of token and signature.
    fn authorize(&self, incoming: &Incoming, path: &RequestPath) -> Result<()> {
        let refuse =
            |error: AuthorizationError| ServiceError::new(error.status(), words_for(error));
        let header = incoming.typed().text(&http::header::AUTHORIZATION)?.unwrap_or_default();
        let token = AuthorizationToken::from_header(header).map_err(refuse)?;
        let date = match incoming.typed().text(&headers::DATE)? {
            Some(date) => date,
            None => incoming.typed().text(&http::header::DATE)?.unwrap_or_default(),
        };
        let AuthorizationToken::Key { signature } = token else {
            return Err(ServiceError::new(
                CosmosStatus::UNAUTHORIZED,
                "The authorization token is not of the type 'master': this emulator accepts account keys only.",
            ));
        };
        check_date(date, incoming.now.system_time(), DATE_WINDOW).map_err(refuse)?;
        let link = path.signed_link();
        let signed = path.signed(&incoming.method, &link, date);
        self.options.key.verify(&signed, &signature).map_err(refuse)
    }
}

/// The path of a request, if it names a resource.
type ParsedPath = std::result::Result<RequestPath, sidereal_protocol::Error>;

/// Answered without a signature: any answer means that the endpoint is alive.
const PROBE: &str = "/probe";

/// Where a client asks whether it may move to the thin client.
const THIN_CLIENT_PROBE: &str = "/connectivity-probe";

/// How the emulator names itself in error messages and headers.
const AGENT: &str = concat!("sidereal-emulator/", env!("CARGO_PKG_VERSION"));

/// The service's own words come first, for tools that look for them; what to check comes after.
fn words_for(error: AuthorizationError) -> String {
    match error {
        AuthorizationError::WrongSignature => format!(
            "The input authorization token can't serve the request. The wrong key is being used or the \
             expected payload is not built as per the protocol: {error}."
        ),
        AuthorizationError::DateOutsideWindow => {
            format!("The authorization token is not valid at the current time: {error}.")
        }
        other => format!("Required Header authorization is missing or invalid: {other}."),
    }
}

/// The client's activity id, or one of our own.
fn activity_of(incoming: &Incoming) -> String {
    let own = || uuid::Uuid::new_v4().to_string();
    let sent = incoming.headers.get(headers::ACTIVITY_ID).and_then(|value| value.to_str().ok());
    sent.filter(|text| !text.is_empty()).map_or_else(own, str::to_owned)
}

/// Adds what every answer has.
fn finish(reply: Reply, activity: &str) -> Response<Bytes> {
    let Reply { status, headers: mut map, body, charge } = reply;
    if !body.is_empty() {
        map.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let charge = HeaderValue::try_from(charge::format(charge));
    map.insert(headers::REQUEST_CHARGE, charge.unwrap_or_else(|_| HeaderValue::from_static("0")));
    if let Ok(activity) = HeaderValue::try_from(activity) {
        map.insert(headers::ACTIVITY_ID, activity);
    }
    if status.sub_status() != 0 {
        map.insert(headers::SUB_STATUS, HeaderValue::from(status.sub_status()));
    }
    map.insert(headers::GATEWAY_VERSION, HeaderValue::from_static("version=2.14.0"));
    map.insert(headers::SERVICE_VERSION, HeaderValue::from_static(AGENT));
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status.code()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = map;
    response
}
