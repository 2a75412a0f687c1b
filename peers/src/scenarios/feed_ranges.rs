//! Feed ranges: parts of a container that workers share.

use azure_data_cosmos::FeedScope;
use azure_data_cosmos::feed::FeedRange;
use azure_data_cosmos::options::ReadFeedRangesOptions;
use futures::TryStreamExt;
use serde_json::Value;

use crate::harness::{Failure, Outcome, Peer};
use crate::{ensure, scenarios};

scenarios! { "feed ranges":
    a_container_has_a_feed_range_for_each_partition,
    queries_of_all_feed_ranges_see_every_item_once,
    the_feed_range_of_a_key_contains_its_items,
    feed_ranges_are_read_anew_after_a_split,
}

async fn a_container_has_a_feed_range_for_each_partition(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.container().await?;
    let ranges = container.read_feed_ranges(None).await?;
    ensure!(ranges.len() == 5, "{ranges:?}");
    let full = FeedRange::full();
    ensure!(ranges.iter().all(|range| range.is_subset_of(&full)), "{ranges:?}");
    Ok(Outcome::Passed)
}

async fn queries_of_all_feed_ranges_see_every_item_once(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let mut ids = Vec::new();
    for range in container.read_feed_ranges(None).await? {
        let scope = FeedScope::range(range);
        let found: Vec<Value> = container
            .query_items("SELECT VALUE c.id FROM c", scope, None)
            .await?
            .try_collect()
            .await?;
        ids.extend(found.iter().map(Value::to_string));
    }
    ids.sort();
    ids.dedup();
    ensure!(ids.len() == 30, "{}", ids.len());
    Ok(Outcome::Passed)
}

async fn the_feed_range_of_a_key_contains_its_items(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let ranges = container.feed_range_from_partition_key("key-3", None).await?;
    ensure!(ranges.len() == 1, "{ranges:?}");
    let all = container.read_feed_ranges(None).await?;
    let around = all.iter().filter(|range| range.overlaps(&ranges[0])).count();
    ensure!(around == 1, "{around}");
    Ok(Outcome::Passed)
}

async fn feed_ranges_are_read_anew_after_a_split(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(10).await?;
    let before = container.read_feed_ranges(None).await?.len();
    peer.split(&container, "1")?;
    let options = ReadFeedRangesOptions::default().with_force_refresh(true);
    let after = container.read_feed_ranges(Some(options)).await?.len();
    ensure!((before, after) == (5, 6), "{before} and {after}");
    Ok(Outcome::Passed)
}
