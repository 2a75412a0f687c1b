//! A forced change of the write region, on an account of its own: what it costs, and that the service can tell.
//!
//! The run itself changes the write region gracefully, which loses nothing. A forced change is for a region that does not
//! come back: what it had acknowledged and not replicated is lost, whatever the client does.

use std::collections::BTreeSet;

use serde_json::json;
use sidereal_emulator::{LostWrite, WriteRegionChange};
use sidereal_protocol::RegionName;

use crate::error::DemoError;
use crate::ledger;
use crate::stage::Stage;

/// Orders that are written before replication stops, and after.
const REPLICATED: usize = 5;
const UNREPLICATED: usize = 3;

/// The outcome of a forced change of the write region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ForcedChange {
    pub(crate) from: RegionName,
    pub(crate) to: RegionName,
    /// Writes that were acknowledged before it.
    pub(crate) acknowledged: usize,
    /// Those of them that it lost, as the service lists them.
    pub(crate) lost: Vec<LostWrite>,
    /// Items that are there after it.
    pub(crate) left: usize,
    /// The difference from the expected outcome, if there is one.
    pub(crate) problem: Option<String>,
}

/// Writes, stops replication, writes on, and forces the change.
pub(crate) async fn force(regions: &[RegionName]) -> Result<ForcedChange, DemoError> {
    let stage = Stage::open(regions, None).await?;
    let account = stage.emulator.account();
    let orders = stage.profiles();
    let (from, to) = (&regions[0], &regions[1]);
    let mut late = BTreeSet::new();
    for number in 0..REPLICATED + UNREPLICATED {
        if number == REPLICATED {
            for other in &regions[1..] {
                // What is on its way arrives first: only what follows is behind.
                account.set_replication_delay(other, std::time::Duration::ZERO)?;
                account.pause_replication(other, true)?;
            }
        }
        let id = format!("order-{number}");
        let order = json!({ "id": id, "customer": format!("customer-{number}") });
        orders.create_item(format!("customer-{number}").as_str(), &order, None).await?;
        if number >= REPLICATED {
            late.insert(id);
        }
    }
    let lost = account.change_write_region(to, WriteRegionChange::Forced)?;
    let left = ledger::ids(account, orders.id())?;
    let named: BTreeSet<String> = lost.iter().flat_map(|write| write.items.clone()).collect();
    let problem = problem(&late, &named, &left);
    let forced = ForcedChange {
        from: from.clone(),
        to: to.clone(),
        acknowledged: REPLICATED + UNREPLICATED,
        lost,
        left: left.len(),
        problem,
    };
    stage.emulator.shutdown().await;
    Ok(forced)
}

/// Whether the list names what is gone, and nothing else is.
fn problem(
    late: &BTreeSet<String>,
    named: &BTreeSet<String>,
    left: &BTreeSet<String>,
) -> Option<String> {
    if late != named {
        return Some(format!(
            "the forced change names {named:?} as lost where {late:?} had not arrived"
        ));
    }
    let missing =
        (0..REPLICATED).map(|number| format!("order-{number}")).find(|id| !left.contains(id));
    if let Some(id) = missing {
        return Some(format!("{id} had arrived before the forced change and is gone"));
    }
    late.iter()
        .find(|id| left.contains(*id))
        .map(|id| format!("{id} is named as lost and is there"))
}
