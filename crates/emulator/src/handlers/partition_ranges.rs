//! Partition ranges: how the key space is divided.

use serde_json::{Value, json};
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, Etag, ResourceType};

use crate::error::Result;
use crate::grease::Latitude;
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::store::{Container, Partition};

/// `GET /dbs/{db}/colls/{coll}/pkranges`: the ranges, or those that changed since an etag.
pub(crate) fn list(request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.container()?;
    let layout = container.layout();
    let offset = numbering_offset(request);
    let etag = Etag::new(format!("\"{}\"", layout.generation() + offset))?;
    let seen = request.typed().if_none_match()?;
    // An etag of ours is a cursor and gets what changed after it; any other reader gets everything.
    let cursor = seen.as_ref().and_then(|seen| seen.as_str().trim_matches('"').parse::<u64>().ok());
    let is_beyond =
        cursor.is_some_and(|cursor| offset > 0 && cursor >= layout.generation() + offset);
    if is_beyond || seen.as_ref().is_some_and(|seen| seen.matches(&etag)) {
        return Ok(Reply::empty(CosmosStatus::NOT_MODIFIED).with_etag(&etag));
    }
    let after = cursor.unwrap_or(0).saturating_sub(offset);
    let ranges = layout.partitions().iter().filter(|partition| partition.generation > after);
    let ranges = ranges.map(|partition| resource(request, container, partition, &etag)).collect();
    let reply = Reply::feed(Some(container.rid), "PartitionKeyRanges", ranges);
    Ok(reply.with_etag(&etag).with_shared(headers::OWNER_FULL_NAME, &container.full_name))
}

/// The number that each region adds to that of a layout, where etags are those of their region.
///
/// The first region is furthest ahead: its etags are beyond all that the others know, and they answer 304 to them.
fn numbering_offset(request: &ClassifiedRequest) -> u64 {
    /// More than the changes that a container sees, so that the numbers of two regions do not meet.
    const BETWEEN_REGIONS: usize = 1_000_000;
    let uses = request.draw.as_ref().is_some_and(|draw| draw.knows(Latitude::RegionalEtags));
    let regions_behind = request.topology.regions.len() - request.region;
    if uses { (regions_behind * BETWEEN_REGIONS) as u64 } else { 0 }
}

fn resource(
    request: &ClassifiedRequest,
    container: &Container,
    partition: &Partition,
    etag: &Etag,
) -> Value {
    let number: u32 = partition.id.as_str().parse().unwrap_or_default();
    let rid = container
        .rid
        // The service numbers the RIDs of ranges from 2.
        .child(ResourceType::PartitionKeyRange, u64::from(number) + 2)
        .map(|rid| rid.to_string())
        .unwrap_or_default();
    json!({
        "_rid": rid,
        "id": partition.id.as_str(),
        "_etag": etag.as_str(),
        "minInclusive": partition.range.min().to_string(),
        "maxExclusive": partition.range.max().to_string(),
        "ridPrefix": number,
        "_self": format!("{}pkranges/{rid}/", container.link),
        "throughputFraction": 1.0 / container.partitions().len() as f64,
        "status": if request.takes(Latitude::UnknownValues) { "greased" } else { "online" },
        "parents": partition.parents,
        "_ts": container.created_at,
        "lsn": request.view(partition).lsn(),
    })
}
