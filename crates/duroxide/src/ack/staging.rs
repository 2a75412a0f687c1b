//! Removing what a staged turn that was not committed has left, so that it does not count for the next one.
//!
//! There may be many thousands of documents. They are removed page by page, and each batch extends the lock: without that
//! another dispatcher takes the instance every few seconds, until its turn counts as poison.

use duroxide::providers::ProviderError;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::TurnCommitter;
use super::commit::{ACK, Step};
use crate::PATIENCE_MS;
use crate::documents::KeyValueDocument;
use crate::failure::{Cause, Failure};
use crate::held::HeldTurn;
use crate::store::Scope;
use crate::telemetry::Occurrence;
use crate::write::{self, Write};

/// Documents of the turn, by their ids alone: their payloads may be large.
const DOCUMENTS: &str = "SELECT TOP @limit VALUE c.id FROM c WHERE c.stagedTurn = @turn";

/// Keys that the turn would have changed: they stay, as they were before it.
const KEYS: &str = "SELECT * FROM c WHERE c.staged.turn = @turn";

/// How many documents are looked for at once: those of two batches. The lock is extended between them.
const PAGE: u32 = 2 * (write::MAX_BATCH_WRITES as u32 - 1);

impl TurnCommitter {
    /// Removes what an earlier turn has staged.
    pub(super) async fn sweep_staged(
        &self,
        token: &str,
        held: &mut HeldTurn,
    ) -> Result<(), ProviderError> {
        let Some(turn) = held.instance.staging_turn else { return Ok(()) };
        self.store.telemetry.occurred(Occurrence::TurnSwept);
        let keys = self.staged::<KeyValueDocument>(token, held, KEYS, turn).await?;
        let committed = held.instance.turn;
        let restore = |document: KeyValueDocument| {
            let document = document.committed_by(committed);
            match document.is_empty() {
                true => Write::delete(&document.id, None),
                false => Write::upsert(&document.id, &document),
            }
        };
        self.write_swept(token, held, keys.into_iter().map(restore).collect()).await?;
        loop {
            let ids = self.staged::<String>(token, held, DOCUMENTS, turn).await?;
            if ids.is_empty() {
                break;
            }
            let writes = ids.iter().map(|id| Write::delete(id, None)).collect();
            self.write_swept(token, held, writes).await?;
        }
        // Written by the next batch of the commit.
        (held.instance.staging_turn, held.instance.staged_batches) = (None, 0);
        Ok(())
    }

    async fn write_swept(
        &self,
        token: &str,
        held: &mut HeldTurn,
        writes: Vec<Write>,
    ) -> Result<(), ProviderError> {
        for chunk in write::chunks(writes, Write::replace_instance(&held.instance).bytes()) {
            self.write_fenced(token, held, Step::Sweep, chunk).await?;
        }
        Ok(())
    }

    /// Reads what was staged, with the patience of a commit. The lock is kept from page to page.
    async fn staged<T: DeserializeOwned>(
        &self,
        token: &str,
        held: &mut HeldTurn,
        text: &str,
        turn: u64,
    ) -> Result<Vec<T>, ProviderError> {
        let partition = held.instance.instance_id.clone();
        let parameters = [("@turn", json!(turn)), ("@limit", json!(PAGE))];
        let (store, until) = (self.store.brief(), self.store.now().saturating_add(PATIENCE_MS));
        let mut pauses = store.pauses();
        'again: loop {
            let (mut rows, scope) = (Vec::new(), Scope::Partition(&partition));
            let mut pages = store.pages::<Value>(scope, text, &parameters, Some(PAGE));
            while let Some(page) = pages.next().await {
                self.locks.keep_lock(ACK, token, held).await?;
                match page {
                    Ok(page) => rows.extend(page.into_items()),
                    Err(failure)
                        if failure.cause == Cause::Transient && self.store.now() < until =>
                    {
                        pauses.pause().await;
                        continue 'again;
                    }
                    Err(failure) => return Err(self.unprepared(token, &partition, &failure)),
                }
            }
            return Ok(rows.into_iter().filter_map(|row| self.store.readable(row)).collect());
        }
    }

    /// The error of a commit that could not be prepared. What is transient is over only after the patience of a commit: the
    /// token is dead, so that the runtime does not record a failure of the orchestration by it.
    pub(super) fn unprepared(
        &self,
        token: &str,
        instance: &str,
        failure: &Failure,
    ) -> ProviderError {
        if matches!(failure.cause, Cause::Transient | Cause::Ambiguous) {
            self.locks.held.kill(token);
        }
        failure.tell(ACK, instance)
    }
}
