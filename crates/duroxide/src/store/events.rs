//! Events in the container, decoded into a history.

use duroxide::Event;
use serde_json::Value;

use super::Store;
use crate::documents::{HistoryDocument, InstanceDocument};
use crate::failure::Failure;

impl Store {
    /// Decodes the committed events among documents, in order. Returns them with the length of their text, or a sentence if one
    /// cannot be decoded.
    pub(crate) async fn decode_history(
        &self,
        instance: &InstanceDocument,
        rows: Vec<Value>,
    ) -> Result<Result<(Vec<Event>, usize), String>, Failure> {
        let mut documents = Vec::with_capacity(rows.len());
        for row in rows {
            let id = row["id"].as_str().unwrap_or_default().to_owned();
            match serde_json::from_value::<HistoryDocument>(row) {
                Ok(document) if instance.has_committed(document.staged_turn) => {
                    documents.push(document);
                }
                Ok(_) => {}
                Err(error) => return Ok(Err(format!("the event {id} cannot be read: {error}"))),
            }
        }
        documents.sort_by_key(|document| document.event_id);
        let (mut events, mut bytes) = (Vec::with_capacity(documents.len()), 0);
        for document in documents {
            let text =
                self.text_of(&document.instance_id, &document.id, &document.event_data).await?;
            bytes += text.len();
            match serde_json::from_str(&text) {
                Ok(event) => events.push(event),
                Err(error) => {
                    return Ok(Err(format!("the event {} cannot be read: {error}", document.id)));
                }
            }
        }
        Ok(Ok((events, bytes)))
    }
}
