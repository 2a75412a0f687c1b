//! How many changes are not handled, by an estimate.

use serde::Deserialize;
use sidereal_protocol::EffectivePartitionKeyRange;

use super::lease_store::LeaseStore;
use super::progress::RangeLag;
use crate::change_feed::request::{FetchedPage, NoPage, PageReader};
use crate::change_feed::start::Position;
use crate::query::targets::targets_of;
use crate::{ContainerClient, Error, ErrorKind, FeedRange, Result};

/// How often the ranges of a lease are looked up again because they were split or merged meanwhile.
const MAX_MOVES: usize = 10;

/// Asks every lease's range for its next change, and says how far its log is from there.
pub(super) async fn estimate(
    feed: &ContainerClient,
    leases: &LeaseStore,
    reader: &PageReader,
) -> Result<Vec<RangeLag>> {
    let mut lags = Vec::new();
    for lease in leases.list().await? {
        let Some(range) = lease.range() else { continue };
        let changes = lag_of(feed, reader, &range, &lease.position()).await?;
        lags.push(RangeLag { feed_range: FeedRange(range), owner: lease.owner, changes });
    }
    Ok(lags)
}

async fn lag_of(
    feed: &ContainerClient,
    reader: &PageReader,
    range: &EffectivePartitionKeyRange,
    position: &Position,
) -> Result<u64> {
    let link = feed.link()?;
    let mut metadata = feed.driver().container(link).await?;
    'moved: for _ in 0..MAX_MOVES {
        let mut changes = 0;
        for (_, target) in targets_of(range, metadata.ranges()) {
            match reader.fetch(&target, position).await {
                Ok(page) => changes += behind(&page),
                Err(NoPage::Gone(_)) => {
                    metadata = feed.driver().refresh_container(link).await?;
                    continue 'moved;
                }
                Err(NoPage::Failed(error)) => return Err(error),
            }
        }
        return Ok(changes);
    }
    Err(Error::new(ErrorKind::Unavailable, "the partition ranges of the container keep changing"))
}

/// The log sequence number of a change.
#[derive(Deserialize)]
struct Numbered {
    #[serde(rename = "_lsn")]
    lsn: Option<i64>,
}

/// The sequence numbers from the first change of a page to the end of the log.
fn behind(page: &FetchedPage) -> u64 {
    let Some(Ok(Numbered { lsn: Some(first) })) = page.rows.decode(0) else {
        return u64::from(page.rows.len() > 0);
    };
    let headers = page.response.headers();
    let in_session = headers
        .session_token()
        .and_then(|token| token.segments().map(|(_, progress)| progress.global_lsn()).max());
    let last = in_session.or_else(|| headers.lsn()).unwrap_or(first);
    u64::try_from(last - first + 1).unwrap_or(1)
}
