//! Reads a container and its partition ranges: the requests, and what is made of the answers.

use http::HeaderValue;
use http::header::IF_NONE_MATCH;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sidereal_protocol::headers::names;
use sidereal_protocol::{
    Feed, OperationType, PartitionKeyDefinition, PartitionKeyRange, PartitionKeyRangeId,
    RequestPath, ResourceLink, ResourceType, RoutingMapError,
};

use super::container_metadata::RangesCursor;
use super::{ContainerMetadata, MetadataReader};
use crate::diagnostics::RequestDiagnostics;
use crate::exchange::Endpoint;
use crate::{CosmosOperation, CosmosResponse, Error, ErrorKind};

// `A-IM` of RFC 3229: only what has changed since the etag in `If-None-Match`.
const INCREMENTAL: HeaderValue = HeaderValue::from_static("Incremental Feed");
/// As many ranges as the service is ready to send at once.
const ALL: HeaderValue = HeaderValue::from_static("-1");

/// The most pages that one list of ranges may have. A container has thousands of ranges at most, a page some
/// hundreds; a service that goes on and on must not keep us reading.
const MAX_PAGES: usize = 1_000;

/// How often a list begins again because its pages came from different regions.
const MAX_RESTARTS: usize = 3;

/// Entries of a list, and where it ended.
struct RangeList {
    ranges: Vec<PartitionKeyRange>,
    cursor: Option<RangesCursor>,
}

/// The properties of a container that routing depends on. Its policies are not read: one with a value that is not known
/// here, set by a newer SDK, would make every operation on the container fail.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerIdentity {
    #[serde(rename = "_rid")]
    rid: Option<String>,
    partition_key: PartitionKeyDefinition,
}

/// Reads a container of which nothing is known.
pub(super) async fn read_container(
    reader: &dyn MetadataReader,
    link: &str,
) -> Result<ContainerMetadata, Error> {
    let link = parsed_link(link)?;
    let read = CosmosOperation::new(OperationType::Read, RequestPath::of(link.clone()));
    let ContainerIdentity { rid, partition_key } = decoded(&reader.execute(&read, true).await?)?;
    let rid = rid.ok_or_else(|| unusable("the container has no _rid"))?;
    let listed = list_all(reader, &link).await?;
    let metadata = ContainerMetadata::new(rid.into(), partition_key, listed.ranges, listed.cursor);
    metadata.map_err(not_tiled)
}

/// Reads what has changed in the ranges of a container.
///
/// A list that was made in the middle of a split may show half of it. It is asked for once more, then for all
/// ranges. All of them are listed too where the changes are another region's, and where they do not explain why the service
/// says that a range is `gone`.
pub(super) async fn read_range_changes(
    reader: &dyn MetadataReader,
    link: &str,
    known: &ContainerMetadata,
    gone: Option<&PartitionKeyRangeId>,
) -> Result<ContainerMetadata, Error> {
    let parsed = parsed_link(link)?;
    if let Some(cursor) = known.cursor() {
        for _ in 0..2 {
            let Some(listed) = list_since(reader, &parsed, cursor).await? else { break };
            let Ok(container) = known.after(listed.ranges, listed.cursor) else { continue };
            let is_explained =
                gone.is_none_or(|id| container.ranges().by_id(id.as_str()).is_none());
            if is_explained {
                return Ok(container);
            }
            break;
        }
    }
    let listed = list_all(reader, &parsed).await?;
    known.with_all(listed.ranges, listed.cursor).map_err(not_tiled)
}

/// Lists the ranges of a container. The first page may come from any region; those after it continue there.
async fn list_all(
    reader: &dyn MetadataReader,
    container: &ResourceLink,
) -> Result<RangeList, Error> {
    for _ in 0..MAX_RESTARTS {
        if let Some(listed) = list_pages(reader, container, None).await? {
            return Ok(listed);
        }
    }
    Err(unusable("the list of partition ranges is answered by one region after the other"))
}

/// Lists the ranges that changed since a list ended: nothing, if another region answers than the one whose list it was.
async fn list_since(
    reader: &dyn MetadataReader,
    container: &ResourceLink,
    cursor: &RangesCursor,
) -> Result<Option<RangeList>, Error> {
    list_pages(reader, container, Some(cursor.clone())).await
}

/// Lists page by page, until nothing is new, for as long as the same region answers.
async fn list_pages(
    reader: &dyn MetadataReader,
    container: &ResourceLink,
    since: Option<RangesCursor>,
) -> Result<Option<RangeList>, Error> {
    let path = RequestPath::feed(container.clone(), ResourceType::PartitionKeyRange);
    let path =
        path.map_err(|error| unusable("the link does not name a container").caused_by(error))?;
    let list = CosmosOperation::new(OperationType::ReadFeed, path)
        .with_header(names::A_IM, INCREMENTAL)
        .with_header(names::MAX_ITEM_COUNT, ALL);
    let (mut ranges, mut cursor) = (Vec::new(), since);
    for _ in 0..MAX_PAGES {
        let page = match &cursor {
            Some(cursor) => list.clone().with_header(IF_NONE_MATCH, header(&cursor.etag)?),
            None => list.clone(),
        };
        // An etag is not hedged: another region could only answer what is not asked.
        let response = reader.execute(&page, cursor.is_none()).await?;
        let answered_at = endpoint_of(&response);
        if cursor.as_ref().is_some_and(|cursor| answered_at.as_ref() != Some(&cursor.endpoint)) {
            return Ok(None);
        }
        let next = continuation_of(&response)
            .zip(answered_at)
            .map(|(etag, endpoint)| RangesCursor { etag, endpoint });
        if response.status().is_not_modified() {
            return Ok(Some(RangeList { ranges, cursor: next.or(cursor) }));
        }
        let page: Feed<PartitionKeyRange> = decoded(&response)?;
        ranges.extend(page.items);
        // Without a next page, or with the same one again, there is nothing to ask for.
        if next.is_none() || next == cursor {
            return Ok(Some(RangeList { ranges, cursor }));
        }
        cursor = next;
    }
    Err(unusable("the list of partition ranges does not end"))
}

/// The endpoint that a response came from: the other leg of a race may have been the last attempt.
fn endpoint_of(response: &CosmosResponse) -> Option<Endpoint> {
    let answered = |it: &&RequestDiagnostics| it.status == Some(response.status());
    let attempts = response.diagnostics().attempts();
    attempts.iter().rfind(answered).map(|attempt| attempt.endpoint.clone())
}

fn continuation_of(response: &CosmosResponse) -> Option<String> {
    response.headers().etag().map(|etag| etag.as_str().to_owned())
}

fn header(text: &str) -> Result<HeaderValue, Error> {
    let refused = |error| unusable("the etag of a list cannot be sent back").caused_by(error);
    HeaderValue::try_from(text).map_err(refused)
}

fn parsed_link(link: &str) -> Result<ResourceLink, Error> {
    link.parse().map_err(|error: sidereal_protocol::Error| {
        Error::new(ErrorKind::InvalidRequest, "the link does not name a container").caused_by(error)
    })
}

fn decoded<T: DeserializeOwned>(response: &CosmosResponse) -> Result<T, Error> {
    serde_json::from_slice(response.body())
        .map_err(|error| unusable("the metadata of a container cannot be read").caused_by(error))
}

fn not_tiled(error: RoutingMapError) -> Error {
    unusable("the partition ranges do not cover the key space").caused_by(error)
}

fn unusable(sentence: &'static str) -> Error {
    Error::new(ErrorKind::Unavailable, sentence)
}
