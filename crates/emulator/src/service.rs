//! Answering a request: probe, authorization, checks that every request passes, dispatch.
//!
//! The service knows neither fault rules nor counters; [`Account`](crate::Account) wraps them around it.

use http::{HeaderName, header};
use sidereal_protocol::headers::{SerializationFormats, names};
use sidereal_protocol::{
    AuthorizationError, AuthorizationToken, CosmosStatus, DATE_WINDOW, RequestPath, ResourceType,
    Secret, check_date,
};

use crate::error::{Result, ServiceError};
use crate::handlers::{
    account, batch, change_feed, containers, databases, items, offers, partition_delete,
    partition_ranges, query,
};
use crate::operation::Operation;
use crate::outcome::ClientOrigin;
use crate::reply::{AGENT, Reply};
use crate::request::ClassifiedRequest;
use crate::state::AccountState;

/// Answered without a signature: any answer means that the endpoint is alive.
const PROBE: &str = "/probe";

/// Where a client asks whether it may move to the thin client.
const THIN_CLIENT_PROBE: &str = "/connectivity-probe";

/// Answers a request.
pub(crate) fn answer(account: &AccountState, request: &ClassifiedRequest) -> Reply {
    let reply = route(account, request).unwrap_or_else(|error| error_reply(request, error));
    if wants_binary(request) { reply.in_binary() } else { reply }
}

/// Whether a client reads the service's binary form of JSON, and the service would send it: for items and the rows of
/// queries, not for feeds and batches.
fn wants_binary(request: &ClassifiedRequest) -> bool {
    let Some(formats) = request.headers.get(names::SUPPORTED_SERIALIZATION_FORMATS) else {
        return false;
    };
    let has_form = match request.operation() {
        Operation::Create
        | Operation::Read
        | Operation::Upsert
        | Operation::Replace
        | Operation::Patch
        | Operation::Query => request.resource() == Some(ResourceType::Document),
        Operation::ReadFeed
        | Operation::ChangeFeed
        | Operation::Batch
        | Operation::QueryPlan
        | Operation::Delete
        | Operation::Other => false,
    };
    has_form && formats.to_str().is_ok_and(|text| SerializationFormats::from_header(text).binary)
}

/// An error as a response to this request.
pub(crate) fn error_reply(request: &ClassifiedRequest, mut error: ServiceError) -> Reply {
    // The service ends its messages so, and SDKs print them: the id finds the request in the logs.
    let activity = request.activity_id.to_str().unwrap_or_default();
    error.message.push_str(&format!("\r\nActivityId: {activity}, {AGENT}"));
    error.into_reply()
}

fn route(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    if request.uri.path() == PROBE {
        return Ok(Reply::empty(CosmosStatus::OK));
    }
    if request.uri.path() == THIN_CLIENT_PROBE && account.options.thin_client {
        let message = "Nothing speaks the thin client's protocol here.";
        return Err(ServiceError::new(CosmosStatus::SERVICE_UNAVAILABLE, message));
    }
    // Before authorization: a region that was removed has no account to authorize against.
    if request.topology.regions[request.region].removed {
        return Err(ServiceError::region_removed());
    }
    let path = request.path()?;
    authorize(account, request, path)?;
    check_forwarding(request, path)?;
    check_consistency(account, request)?;
    check_known_values(request)?;
    request.check_flags()?;
    check_metadata_write(request, path)?;
    dispatch(account, request, path)
}

/// Checks date, kind of token and signature.
fn authorize(
    account: &AccountState,
    request: &ClassifiedRequest,
    path: &RequestPath,
) -> Result<()> {
    let refuse =
        |error: AuthorizationError| ServiceError::new(error.status(), authorization_message(error));
    let header = request.typed().text(&header::AUTHORIZATION)?.unwrap_or_default();
    let token = AuthorizationToken::from_header(header).map_err(refuse)?;
    // `x-ms-date` goes before `date`, which browsers do not let scripts set.
    let date = match request.typed().text(&names::DATE)? {
        Some(date) => date,
        None => request.typed().text(&header::DATE)?.unwrap_or_default(),
    };
    let signature = match token {
        AuthorizationToken::Key { signature } => signature,
        AuthorizationToken::Entra { access_token } => {
            return authorize_entra(account, request, &access_token);
        }
        AuthorizationToken::Resource { .. } => {
            return Err(ServiceError::new(
                CosmosStatus::UNAUTHORIZED,
                "The authorization token is of the type 'resource': this emulator accepts account keys \
                 and Entra tokens.",
            ));
        }
    };
    // Limits replay: a signature is valid for the window around its date.
    check_date(date, request.now.system_time(), DATE_WINDOW).map_err(refuse)?;
    let link = path.signed_link();
    let signed = path.signed(request.method(), &link, date);
    // Compared in constant time: no timing side channel.
    account.options.key.verify(&signed, &signature).map_err(refuse)
}

/// Checks an access token, as the published emulator does: no Entra ID stands behind it, so the account's key
/// has to be in the token, and its client on this machine. The date and claims of such a token prove nothing
/// and are not looked at.
fn authorize_entra(
    account: &AccountState,
    request: &ClassifiedRequest,
    access_token: &Secret,
) -> Result<()> {
    if account.options.entra_any {
        return Ok(());
    }
    // The origin first: nobody from elsewhere learns whether a token was right.
    let refusal = if request.origin != ClientOrigin::Loopback {
        "Entra tokens are accepted from clients on this machine only: start the emulator with --entra-any to \
         accept any token from anywhere."
    } else if account.options.key.is_in_entra_token(access_token) {
        return Ok(());
    } else {
        "The Entra token is not one for this emulator: put the base64url of the account key into its third \
         segment, or start the emulator with --entra-any to accept any token."
    };
    Err(ServiceError::new(CosmosStatus::UNAUTHORIZED, refusal))
}

/// The service's own words come first, for tools that look for them; what to check comes after.
fn authorization_message(error: AuthorizationError) -> String {
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

/// The global endpoint answers reads of the account by itself, and forwards everything else to the write
/// region, which may be offline. A request to an offline region's own endpoint does not get this far: its
/// connection is refused.
fn check_forwarding(request: &ClassifiedRequest, path: &RequestPath) -> Result<()> {
    let region = &request.topology.regions[request.region];
    if region.online || path.kind() == ResourceType::DatabaseAccount {
        return Ok(());
    }
    let message = format!("The region that accepts writes, {}, cannot be reached.", region.name);
    Err(ServiceError::new(CosmosStatus::SERVICE_UNAVAILABLE, message))
}

/// A request may ask for weaker consistency than the account's, never for stronger.
fn check_consistency(account: &AccountState, request: &ClassifiedRequest) -> Result<()> {
    let Some(asked) = request.typed().consistency_level()? else { return Ok(()) };
    let offered = account.options.consistency;
    if asked > offered {
        return Err(ServiceError::bad_request(format!(
            "ConsistencyLevel {asked} specified in the request is invalid when service is configured \
             with consistency level {offered}. Ensure the request consistency level is not stronger \
             than the service consistency level."
        )));
    }
    Ok(())
}

/// Headers that change nothing here.
const CHECKED: [HeaderName; 4] = [
    names::READ_CONSISTENCY_STRATEGY,
    names::PRIORITY_LEVEL,
    names::THROUGHPUT_BUCKET,
    names::INDEXING_DIRECTIVE,
];

/// Headers that change nothing here still have to hold a value that the service knows.
fn check_known_values(request: &ClassifiedRequest) -> Result<()> {
    let headers = request.typed();
    headers.api_version()?;
    // A look at every name is less than four lookups by hash, and few requests have any of them.
    if !request.headers.keys().any(|name| CHECKED.contains(name)) {
        return Ok(());
    }
    headers.read_consistency_strategy()?;
    headers.priority_level()?;
    headers.throughput_bucket()?;
    headers.indexing_directive()?;
    Ok(())
}

/// Databases, containers and offers are written in the account's write region.
fn check_metadata_write(request: &ClassifiedRequest, path: &RequestPath) -> Result<()> {
    let reads = matches!(
        request.operation(),
        Operation::Read | Operation::ReadFeed | Operation::ChangeFeed | Operation::Query
    );
    let topology = &request.topology;
    let accepted = topology.multi_write || request.region == topology.write_region(request.now);
    if path.kind().is_metadata() && !reads && !accepted {
        return Err(ServiceError::write_forbidden());
    }
    Ok(())
}

/// Sends an authorized request to its handler.
fn dispatch(
    account: &AccountState,
    request: &ClassifiedRequest,
    path: &RequestPath,
) -> Result<Reply> {
    use Operation as Op;
    use ResourceType as Kind;

    match (path.kind(), path.is_feed(), request.operation()) {
        (Kind::DatabaseAccount, _, Op::Read) => account::read(account, request),

        (Kind::Database, true, Op::ReadFeed) => databases::list(account, request),
        (Kind::Database, true, Op::Query) => databases::query(account, request),
        (Kind::Database, true, Op::Create) => databases::create(account, request),
        (Kind::Database, false, Op::Read) => databases::read(account, request),
        (Kind::Database, false, Op::Delete) => databases::delete(account, request),

        (Kind::DocumentCollection, true, Op::ReadFeed) => containers::list(account, request),
        (Kind::DocumentCollection, true, Op::Query) => containers::query(account, request),
        (Kind::DocumentCollection, true, Op::Create) => containers::create(account, request),
        (Kind::DocumentCollection, false, Op::Read) => containers::read(account, request),
        (Kind::DocumentCollection, false, Op::Replace) => containers::replace(account, request),
        (Kind::DocumentCollection, false, Op::Delete) => containers::delete(account, request),

        (Kind::PartitionKeyRange, true, Op::ReadFeed | Op::ChangeFeed) => {
            partition_ranges::list(request)
        }
        (Kind::PartitionKey, _, Op::Delete) => partition_delete::run(account, request),

        (Kind::Document, true, Op::QueryPlan) => query::plan(request),
        (Kind::Document, true, Op::Query) => query::run(account, request),
        (Kind::Document, true, Op::Batch) => batch::run(account, request),
        (Kind::Document, true, Op::Create) => items::create(account, request),
        (Kind::Document, true, Op::Upsert) => items::upsert(account, request),
        (Kind::Document, true, Op::ChangeFeed) => change_feed::read(account, request),
        (Kind::Document, true, Op::ReadFeed) => query::read_feed(account, request),
        (Kind::Document, false, Op::Read) => items::read(account, request),
        (Kind::Document, false, Op::Replace) => items::replace(account, request),
        (Kind::Document, false, Op::Patch) => items::patch(account, request),
        (Kind::Document, false, Op::Delete) => items::delete(account, request),

        (Kind::Offer, true, Op::ReadFeed) => offers::list(account, request),
        (Kind::Offer, true, Op::Query) => offers::query(account, request),
        (Kind::Offer, false, Op::Read) => offers::read(account, request),
        (Kind::Offer, false, Op::Replace) => offers::replace(account, request),

        (kind, is_feed, _) if exists(kind, is_feed) => Err(ServiceError::method_not_allowed()),
        (kind, ..) => Err(ServiceError::bad_request(format!(
            "This emulator has no resources of the kind {}: databases, containers, items, partition \
             ranges and offers are what it holds.",
            kind.path_segment()
        ))),
    }
}

/// Whether some operation on this kind of resource is supported.
fn exists(kind: ResourceType, is_feed: bool) -> bool {
    match kind {
        ResourceType::DatabaseAccount
        | ResourceType::Database
        | ResourceType::DocumentCollection
        | ResourceType::Document
        | ResourceType::Offer
        | ResourceType::PartitionKey => true,
        ResourceType::PartitionKeyRange => is_feed,
        _ => false,
    }
}
