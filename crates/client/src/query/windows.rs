//! Fallback for services that refuse windows of the key space: the whole partition range is asked, and rows outside of the
//! window are dropped here.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;
use sidereal_driver::{CosmosDriver, CosmosOperation, CosmosResponse};
use sidereal_protocol::{EffectivePartitionKeyRange, PartitionKeyDefinition};

use super::fetch::RawRows;
use super::targets::Target;
use crate::Result;
use crate::long_call::Call;

/// Where the item is in a row. Rows without one cannot be told apart by their keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemIn {
    /// The row is the item.
    Row,
    /// The item is the payload of a row of a sorted query.
    Payload,
    /// The row was made of one or more items.
    Nowhere,
}

/// Whether the service takes windows, as far as one reading of a container knows.
#[derive(Debug)]
pub(crate) struct Windows {
    definition: PartitionKeyDefinition,
    item: ItemIn,
    /// A request was refused with its window and answered without.
    are_refused: AtomicBool,
}

/// A response, and the window that its rows still have to be narrowed to.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) response: CosmosResponse,
    pub(crate) window: Option<EffectivePartitionKeyRange>,
}

impl Windows {
    pub(crate) fn new(definition: &PartitionKeyDefinition, item: ItemIn) -> Self {
        Self { definition: definition.clone(), item, are_refused: AtomicBool::new(false) }
    }

    /// Sends a request to a target: with its window, and once more without if the window is refused with 400 and rows
    /// can be told apart here.
    pub(crate) async fn ask(
        &self,
        (driver, call): (&CosmosDriver, &Call),
        target: &Target,
        operation_for: impl Fn(&Target) -> Result<CosmosOperation>,
    ) -> Result<Asked> {
        let whole = self.without_window(target);
        // Relaxed: a hint that saves a request, and guards no other memory.
        if let Some((whole, window)) = &whole
            && self.are_refused.load(Ordering::Relaxed)
        {
            let response =
                driver.execute_operation(&operation_for(whole)?, &call.options()).await?;
            return Ok(Asked { response, window: Some(window.clone()) });
        }
        let response = driver.execute_operation(&operation_for(target)?, &call.options()).await;
        let (error, (whole, window)) = match (response, whole) {
            (Err(error), Some(whole)) if is_bad_request(&error) => (error, whole),
            (response, _) => return Ok(Asked { response: response?, window: None }),
        };
        match driver.execute_operation(&operation_for(&whole)?, &call.options()).await {
            Ok(response) => {
                // Relaxed: as above.
                self.are_refused.store(true, Ordering::Relaxed);
                Ok(Asked { response, window: Some(window) })
            }
            // The request is refused, not its window: the first refusal tells the caller as much.
            Err(second) if is_bad_request(&second) => Err(error.into()),
            Err(second) => Err(second.into()),
        }
    }

    /// The target without its window, if there is one that can be applied here.
    fn without_window(&self, target: &Target) -> Option<(Target, EffectivePartitionKeyRange)> {
        match target {
            Target::Range { id, window: Some(window) } if self.item != ItemIn::Nowhere => {
                Some((Target::Range { id: id.clone(), window: None }, window.clone()))
            }
            Target::Range { .. } | Target::Key(_) => None,
        }
    }

    /// Drops rows that are outside of the window which their request was sent without.
    pub(crate) fn narrow(
        &self,
        rows: &mut RawRows,
        window: Option<&EffectivePartitionKeyRange>,
    ) -> Result<()> {
        let Some(window) = window else { return Ok(()) };
        rows.retain(|row: &Value| self.is_within(row, window))
    }

    fn is_within(&self, row: &Value, window: &EffectivePartitionKeyRange) -> bool {
        let item = match self.item {
            ItemIn::Row | ItemIn::Nowhere => row,
            ItemIn::Payload => &row["payload"],
        };
        let key = self.definition.effective_key(&self.definition.extract(item));
        key.is_ok_and(|key| window.contains(&key))
    }
}

fn is_bad_request(error: &sidereal_driver::Error) -> bool {
    error.status().is_some_and(|status| status.code() == 400)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_kept_by_the_key_of_their_item() {
        let definition = PartitionKeyDefinition::new(["/pk"]).unwrap();
        let halves = definition.even_ranges(2);
        let items: Vec<Value> = (0..50).map(|n| json!({"id": n.to_string(), "pk": n})).collect();
        for (item, rows) in [
            (ItemIn::Row, items.clone()),
            (ItemIn::Payload, items.iter().map(|it| json!({"payload": it})).collect()),
        ] {
            let windows = Windows::new(&definition, item);
            let body = json!({"Documents": rows, "_count": 50}).to_string();
            let mut kept = 0;
            for half in &halves {
                let mut rows = RawRows::of_feed(Bytes::from(body.clone())).unwrap();
                rows.retain(|row| windows.is_within(row, half)).unwrap();
                assert!(rows.len() > 10, "{item:?}: {}", rows.len());
                kept += rows.len();
            }
            assert_eq!(kept, 50, "{item:?}: each is in one half");
        }
    }
}
