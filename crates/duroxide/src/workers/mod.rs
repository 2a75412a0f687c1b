//! Activities: fetched, finished, renewed and given back by workers.

mod ahead;
mod claim;
mod end;
mod fetch;
mod hold;

use crate::documents::{TombstoneDocument, WorkerDocument};
use crate::write::{Change, Write};

/// The lock of an activity as it is to be.
pub(crate) fn locked(item: &WorkerDocument, attempts: i32, visible_at: Option<i64>) -> Write {
    let change = Change::Lock {
        token: item.lock_token.clone(),
        until: item.locked_until,
        owner: item.lock_owner.clone(),
        attempts,
        visible_at,
        if_match: item.etag.clone(),
    };
    Write { id: item.id.clone(), change }
}

/// Removes a finished activity. What could be created a second time leaves a tombstone.
pub(crate) fn removed(item: &WorkerDocument) -> Write {
    match item.is_fenced {
        true => Write::delete(&item.id, item.etag.clone()),
        false => {
            let tombstone = TombstoneDocument::of(&item.instance_id, &item.id);
            Write::replace(&item.id, &tombstone, item.etag.clone())
        }
    }
}
