//! Payloads in the container: texts that are too large for one document have parts in documents of their own.

use serde_json::{Value, json};
use sidereal_protocol::Etag;

use super::{Scope, Store};
use crate::documents::{PartDocument, Payload, kinds};
use crate::failure::{Cause, Failure};
use crate::write::{self, Write};

const PARTS: &str = "SELECT * FROM c WHERE c.type = 'part' AND c.owner = @owner";

impl Store {
    /// Reads the text of a payload, with its parts. A missing part makes a text that cannot be decoded.
    pub(crate) async fn text_of(
        &self,
        partition: &str,
        owner: &str,
        payload: &Payload,
    ) -> Result<String, Failure> {
        let count = match payload {
            Payload::Inline(text) => return Ok(text.clone()),
            Payload::Parts { parts } => *parts,
        };
        let scope = Scope::Partition(partition);
        let mut parts: Vec<PartDocument> =
            self.documents(scope, PARTS, &[("@owner", json!(owner))]).await?;
        parts.sort_by_key(|part| part.number);
        parts.truncate(count);
        Ok(parts.into_iter().map(|part| part.data).collect())
    }

    /// Creates a document and the parts of its payload. One that is there already is the same. Returns its version, if that is
    /// known.
    pub(crate) async fn create_with_parts(
        &self,
        partition: &str,
        create: Write,
        parts: &[PartDocument],
        until: i64,
    ) -> Result<Option<Etag>, Failure> {
        let parts: Vec<Write> = parts.iter().map(|part| Write::upsert(&part.id, part)).collect();
        for chunk in write::chunks(parts.clone(), 0) {
            self.write(partition, &chunk, until).await?;
        }
        let create = [create];
        loop {
            match self.write(partition, &create, until).await {
                Ok(results) => return Ok(results.first().and_then(|it| it.etag().cloned())),
                Err(failure) => match failure.cause {
                    Cause::Conflict => {
                        self.remove_unused_parts(partition, &create[0].id, &parts).await;
                        return Ok(None);
                    }
                    // Whether it was created or not, creating it again tells.
                    Cause::Ambiguous if self.now() < until => {}
                    _ => return Err(failure),
                },
            }
        }
    }

    /// Removes the parts of a message that was handled before. Best effort: they are removed with the instance.
    async fn remove_unused_parts(&self, partition: &str, id: &str, parts: &[Write]) {
        if parts.is_empty() {
            return;
        }
        match self.read::<Value>(partition, id).await {
            Ok(there) if there.as_ref().is_none_or(|it| it["type"] == kinds::TOMBSTONE) => {
                let parts = parts.iter().map(|part| Write::bury(partition, &part.id)).collect();
                if let Err(failure) = self.remove_all(partition, parts).await {
                    tracing::debug!(id, error = %failure.error(), "parts of a payload stay");
                }
            }
            Ok(_) => {}
            Err(failure) => {
                tracing::debug!(id, error = %failure.error(), "parts of a payload stay");
            }
        }
    }
}
