//! Reads a container and its partition ranges: the requests, and what is made of the answers.

use http::HeaderValue;
use http::header::IF_NONE_MATCH;
use serde::de::DeserializeOwned;
use sidereal_protocol::headers::names;
use sidereal_protocol::{
    ContainerProperties, Feed, OperationType, PartitionKeyRange, RequestPath, ResourceLink,
    ResourceType, RoutingMapError,
};

use super::{ContainerMetadata, MetadataReader};
use crate::{CosmosOperation, CosmosResponse, Error, ErrorKind};

const INCREMENTAL: HeaderValue = HeaderValue::from_static("Incremental Feed");
/// As many ranges as the service is ready to send at once.
const ALL: HeaderValue = HeaderValue::from_static("-1");

/// The most pages that one list of ranges may have. A container has thousands of ranges at most, a page some
/// hundreds; a service that goes on and on must not keep us reading.
const MAX_PAGES: usize = 1_000;

/// Entries of a list, and where it ended.
type Listed = (Vec<PartitionKeyRange>, Option<String>);

/// Reads a container of which nothing is known.
pub(super) async fn read_container(
    reader: &dyn MetadataReader,
    link: &str,
) -> Result<ContainerMetadata, Error> {
    let link = parsed_link(link)?;
    let read = CosmosOperation::new(OperationType::Read, RequestPath::of(link.clone()));
    let properties: ContainerProperties = decoded(&reader.execute(&read).await?)?;
    let rid = properties.system.rid.clone().ok_or_else(|| unusable("the container has no _rid"))?;
    let (ranges, continuation) = list_ranges(reader, &link, None).await?;
    let definition = properties.partition_key;
    ContainerMetadata::new(rid.into(), definition, ranges, continuation).map_err(not_tiled)
}

/// Reads what has changed in the ranges of a container.
///
/// A list that was made in the middle of a split may show half of it. It is asked for once more, then for all
/// ranges.
pub(super) async fn read_range_changes(
    reader: &dyn MetadataReader,
    link: &str,
    known: &ContainerMetadata,
) -> Result<ContainerMetadata, Error> {
    let parsed = parsed_link(link)?;
    for _ in 0..2 {
        let (changes, continuation) = list_ranges(reader, &parsed, known.continuation()).await?;
        if let Ok(container) = known.after(changes, continuation) {
            return Ok(container);
        }
    }
    let (ranges, continuation) = list_ranges(reader, &parsed, None).await?;
    let definition = known.partition_key_definition().clone();
    ContainerMetadata::new(known.rid().into(), definition, ranges, continuation).map_err(not_tiled)
}

/// Lists the ranges of a container that changed since a list ended: page by page, until nothing is new.
async fn list_ranges(
    reader: &dyn MetadataReader,
    container: &ResourceLink,
    since: Option<&str>,
) -> Result<Listed, Error> {
    let path = RequestPath::feed(container.clone(), ResourceType::PartitionKeyRange);
    let path = path.map_err(|error| unusable("the link is no container's").caused_by(error))?;
    let list = CosmosOperation::new(OperationType::ReadFeed, path)
        .with_header(names::A_IM, INCREMENTAL)
        .with_header(names::MAX_ITEM_COUNT, ALL);
    let (mut ranges, mut continuation) = (Vec::new(), since.map(str::to_owned));
    for _ in 0..MAX_PAGES {
        let page = match &continuation {
            Some(continuation) => list.clone().with_header(IF_NONE_MATCH, header(continuation)?),
            None => list.clone(),
        };
        let response = reader.execute(&page).await?;
        let next = continuation_of(&response);
        if response.status().is_not_modified() {
            return Ok((ranges, next.or(continuation)));
        }
        let page: Feed<PartitionKeyRange> = decoded(&response)?;
        ranges.extend(page.items);
        // Without a next page, or with the same one again, there is nothing to ask for.
        if next.is_none() || next == continuation {
            return Ok((ranges, continuation));
        }
        continuation = next;
    }
    Err(unusable("the list of partition ranges does not end"))
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
        Error::new(ErrorKind::InvalidRequest, "the link is no container's").caused_by(error)
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
