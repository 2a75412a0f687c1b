//! Messages that this process has written itself: an instance whose messages are all known can be locked without being
//! read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::turn::{MAX_MESSAGES, ReadMessage};

/// The most bytes of messages that are kept; an instance that has more is read.
const MAX_BYTES: usize = 16 << 20;

/// The known messages of instances that are ready.
#[derive(Debug, Default)]
pub(super) struct KnownMessages {
    by_instance: HashMap<Arc<str>, Known>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct Known {
    messages: Vec<ReadMessage>,
    /// There may be others.
    is_partial: bool,
}

impl KnownMessages {
    /// Notes a message, or that there is one that is not known.
    pub(super) fn push(&mut self, instance: &Arc<str>, message: Option<ReadMessage>) {
        let known = self.by_instance.entry(Arc::clone(instance)).or_default();
        let bytes = message.as_ref().map_or(0, |it| it.document.work_item.bytes());
        match message {
            Some(message)
                if !known.is_partial
                    && known.messages.len() < MAX_MESSAGES
                    && self.bytes + bytes <= MAX_BYTES =>
            {
                self.bytes += bytes;
                known.messages.push(message);
            }
            _ => {
                known.is_partial = true;
                self.bytes -= size(&std::mem::take(&mut known.messages));
            }
        }
    }

    /// Whether a message is known.
    pub(super) fn contains(&self, instance: &str, id: &str) -> bool {
        let known = self.by_instance.get(instance);
        known.is_some_and(|known| known.messages.iter().any(|message| message.document.id == id))
    }

    /// When the oldest message of an instance was enqueued, if all are known.
    pub(super) fn oldest(&self, instance: &str) -> Option<i64> {
        let known = self.by_instance.get(instance).filter(|known| !known.is_partial)?;
        known.messages.iter().map(|message| message.document.enqueued_at).min()
    }

    /// The messages of an instance, if all are known.
    pub(super) fn take(&mut self, instance: &str) -> Option<Vec<ReadMessage>> {
        let known = self.by_instance.remove(instance)?;
        self.bytes -= size(&known.messages);
        (!known.is_partial && !known.messages.is_empty()).then_some(known.messages)
    }
}

fn size(messages: &[ReadMessage]) -> usize {
    messages.iter().map(|message| message.document.work_item.bytes()).sum()
}

#[cfg(test)]
mod tests {
    use duroxide::providers::WorkItem;

    use super::*;
    use crate::work_items::{Enqueued, message};

    fn raised(bytes: usize) -> ReadMessage {
        let (instance, name) = ("i".to_owned(), "go".to_owned());
        let item = WorkItem::ExternalRaised { instance, name, data: String::new() };
        let enqueued = Enqueued { now: 1, seq: 1, visible_at: 1, is_fenced: true, is_start: false };
        let (document, _) = message("id".to_owned(), "i", "x".repeat(bytes), enqueued);
        ReadMessage { document, item }
    }

    #[test]
    fn messages_are_known_until_one_is_not() {
        let (mut known, i) = (KnownMessages::default(), Arc::from("i"));
        known.push(&i, Some(raised(10)));
        known.push(&i, Some(raised(10)));
        assert_eq!(known.take("i").map(|all| all.len()), Some(2));
        assert!(known.take("i").is_none());
        known.push(&i, Some(raised(10)));
        known.push(&i, None);
        known.push(&i, Some(raised(10)));
        assert!(known.take("i").is_none());
        assert_eq!(known.bytes, 0);
    }

    #[test]
    fn more_than_a_turn_takes_and_more_than_fits_is_read() {
        let (mut known, i) = (KnownMessages::default(), Arc::from("i"));
        for _ in 0..=MAX_MESSAGES {
            known.push(&i, Some(raised(1)));
        }
        assert!(known.take("i").is_none());
        for _ in 0..20 {
            known.push(&i, Some(raised(900_000)));
        }
        assert!(known.take("i").is_none());
        assert_eq!(known.bytes, 0);
    }
}
