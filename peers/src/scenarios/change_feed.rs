//! The change feed.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use azure_data_cosmos::FeedScope;
use azure_data_cosmos::clients::ContainerClient;
use azure_data_cosmos::feed::ContinuationToken;
use azure_data_cosmos::options::{
    ChangeFeedMode, ChangeFeedOptions, ChangeFeedStartFrom, MaxItemCountHint,
};
use futures::StreamExt;
use serde_json::{Value, json};

use crate::harness::{Failure, Outcome, Peer, key_of, numbered, refused};
use crate::{ensure, scenarios};

scenarios! { "change feed":
    changes_from_the_beginning_are_all_items,
    changes_of_one_partition_key_are_its_items,
    changes_from_now_are_those_to_come,
    changes_resume_from_their_continuation,
    changes_come_in_pages,
    changes_survive_a_split,
    all_versions_and_deletes_are_not_kept,
}

/// Ranges of a container of these scenarios: five, of which two are split.
const MAX_RANGES: u32 = 7;

/// Reads until there is nothing new: the ids, and where the next read begins.
async fn drained(
    container: &ContainerClient,
    scope: FeedScope,
    start: ChangeFeedStartFrom,
    options: Option<ChangeFeedOptions>,
) -> Result<(Vec<String>, ContinuationToken), Failure> {
    let mut pages = container.query_change_feed::<Value>(scope, start, options).await?;
    let mut ids = Vec::new();
    let mut empty = 0;
    // The feed has no end. Pages come from one range after the other, so that there is nothing new once as many in
    // a row are empty as there can be ranges.
    while empty < MAX_RANGES {
        let page = pages.next().await.ok_or("the feed ended")??;
        empty = if page.items().is_empty() { empty + 1 } else { 0 };
        let id = |value: &Value| value["id"].as_str().unwrap_or_default().to_owned();
        ids.extend(page.items().iter().filter_map(|item| item.current()).map(id));
    }
    Ok((ids, pages.to_continuation_token()?))
}

async fn changes_from_the_beginning_are_all_items(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    container.delete_item(key_of(7), "7", None).await?;
    container.replace_item(key_of(8), "8", numbered(8), None).await?;
    let (ids, _) =
        drained(&container, FeedScope::full_container(), ChangeFeedStartFrom::Beginning, None)
            .await?;
    let distinct: BTreeSet<_> = ids.iter().collect();
    ensure!(ids.len() == 29 && distinct.len() == 29, "{ids:?}");
    Ok(Outcome::Passed)
}

async fn changes_of_one_partition_key_are_its_items(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let scope = FeedScope::partition("key-3");
    let (ids, _) = drained(&container, scope, ChangeFeedStartFrom::Beginning, None).await?;
    ensure!(ids == ["3", "13", "23"], "{ids:?}");
    Ok(Outcome::Passed)
}

async fn changes_from_now_are_those_to_come(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(10).await?;
    let scope = FeedScope::full_container;
    let (old, token) = drained(&container, scope(), ChangeFeedStartFrom::Now, None).await?;
    ensure!(old.is_empty(), "{old:?}");
    container.create_item("key-1", "new", json!({ "id": "new", "pk": "key-1" }), None).await?;
    let options = ChangeFeedOptions::default().with_continuation_token(token);
    let (ids, _) = drained(&container, scope(), ChangeFeedStartFrom::Now, Some(options)).await?;
    ensure!(ids == ["new"], "{ids:?}");
    Ok(Outcome::Passed)
}

async fn changes_resume_from_their_continuation(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(10).await?;
    let scope = FeedScope::full_container;
    let begin = ChangeFeedStartFrom::Beginning;
    let (first, token) = drained(&container, scope(), begin.clone(), None).await?;
    ensure!(first.len() == 10, "{first:?}");
    container.upsert_item(key_of(4), "4", numbered(4), None).await?;
    let options = ChangeFeedOptions::default().with_continuation_token(token);
    let (news, _) = drained(&container, scope(), begin, Some(options)).await?;
    ensure!(news == ["4"], "{news:?}");
    Ok(Outcome::Passed)
}

async fn changes_come_in_pages(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(30).await?;
    let three = MaxItemCountHint::Limit(NonZeroU32::new(3).ok_or("three")?);
    let options = ChangeFeedOptions::default().with_max_item_count(three);
    let scope = FeedScope::full_container();
    let mut pages = container
        .query_change_feed::<Value>(scope, ChangeFeedStartFrom::Beginning, Some(options))
        .await?;
    let mut seen = 0;
    while seen < 30 {
        let page = pages.next().await.ok_or("the feed ended")??;
        ensure!(page.items().len() <= 3, "{}", page.items().len());
        seen += page.items().len();
    }
    Ok(Outcome::Passed)
}

async fn changes_survive_a_split(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(20).await?;
    let scope = FeedScope::full_container;
    let begin = ChangeFeedStartFrom::Beginning;
    let (first, token) = drained(&container, scope(), begin.clone(), None).await?;
    ensure!(first.len() == 20, "{first:?}");
    for range in ["0", "2"] {
        peer.split(&container, range)?;
    }
    for number in 0..20 {
        container.upsert_item(key_of(number), &number.to_string(), numbered(number), None).await?;
    }
    let options = ChangeFeedOptions::default().with_continuation_token(token);
    let (news, _) = drained(&container, scope(), begin, Some(options)).await?;
    let distinct: BTreeSet<_> = news.iter().collect();
    ensure!(news.len() == 20 && distinct.len() == 20, "{news:?}");
    Ok(Outcome::Passed)
}

async fn all_versions_and_deletes_are_not_kept(peer: Peer) -> Result<Outcome, Failure> {
    let container = peer.filled(1).await?;
    let options = ChangeFeedOptions::default().with_mode(ChangeFeedMode::AllVersionsAndDeletes);
    let scope = FeedScope::full_container();
    let mut pages = container
        .query_change_feed::<Value>(scope, ChangeFeedStartFrom::Now, Some(options))
        .await?;
    refused(pages.next().await.ok_or("no page")?, 400)?;
    Ok(Outcome::EmulatorLacks("the change feed of all versions and deletes"))
}
