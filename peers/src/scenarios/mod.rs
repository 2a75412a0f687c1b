//! The scenarios, by area.

mod batches;
mod change_feed;
mod feed_ranges;
mod hierarchical_keys;
mod items;
mod multi_write;
mod patches;
mod queries;
mod resources;

use crate::harness::Scenario;

pub fn all() -> Vec<Scenario> {
    [
        resources::all(),
        items::all(),
        batches::all(),
        patches::all(),
        queries::all(),
        hierarchical_keys::all(),
        change_feed::all(),
        feed_ranges::all(),
        multi_write::all(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
