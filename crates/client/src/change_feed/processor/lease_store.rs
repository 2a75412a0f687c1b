//! The lease container: every request to it.

use serde::de::DeserializeOwned;
use sidereal_driver::options::{ItemOptions, ItemWriteOptions};
use sidereal_protocol::{Etag, PartitionKeyPath};

use super::lease::{
    LEASE_KIND, LeaseDocument, OWNER_ID, OWNER_KEY, OwnerDocument, PARTITION_KEY_PATH,
    PROCESSOR_ID, ProcessorDocument,
};
use crate::{BatchItemOptions, ContainerClient, Error, ErrorKind, Result, TransactionalBatch};

/// Leases of one batch, beside the document of the processor or the parent.
pub(super) const MAX_TOGETHER: usize = 98;
/// How often the documents of a processor are looked at again because another worker wrote them meanwhile.
const MAX_TRIES: usize = 200;

/// The leases of one processor.
#[derive(Clone, Debug)]
pub(super) struct LeaseStore {
    container: ContainerClient,
    processor: String,
}

/// Why a lease was not written.
#[derive(Debug)]
pub(super) enum NotWritten {
    /// Another worker has it, or it is gone.
    Lost,
    /// It is not known; the lease may still be one's own.
    Failed(Error),
}

impl LeaseStore {
    pub(super) fn new(container: ContainerClient, processor: String) -> Self {
        Self { container, processor }
    }

    /// Makes sure that the container is this application's.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the container belongs to another application, holds documents that
    /// are not leases, or is not partitioned by `/processor`.
    pub(super) async fn claim(&self, application: &str) -> Result<()> {
        if self.processor.starts_with('$') || self.processor.is_empty() {
            return Err(Error::invalid(
                "the name of a processor is not empty and does not begin with `$`",
            ));
        }
        let properties = self.container.read(None).await?.into_properties()?;
        let paths: Vec<&str> =
            properties.partition_key.paths().iter().map(PartitionKeyPath::as_str).collect();
        if paths != [PARTITION_KEY_PATH] {
            return Err(Error::invalid(format!(
                "the lease container {} is partitioned by {}: a lease container is partitioned by \
                 {PARTITION_KEY_PATH}",
                self.container.id(),
                properties.partition_key
            )));
        }
        for _ in 0..MAX_TRIES {
            if let Some(owner) = self.read::<OwnerDocument>(OWNER_KEY, OWNER_ID).await? {
                return self.check_owner(&owner, application);
            }
            self.check_empty().await?;
            let owner = OwnerDocument {
                id: OWNER_ID.to_owned(),
                processor: OWNER_KEY.to_owned(),
                application: application.to_owned(),
            };
            match self.container.create_item(OWNER_KEY, &owner, None).await {
                Ok(_) => return Ok(()),
                // Another worker was faster, or our own attempt was, whose answer was lost.
                Err(error) if error.kind() == ErrorKind::Conflict => {}
                Err(error) => return Err(error),
            }
        }
        Err(unsettled())
    }

    fn check_owner(&self, owner: &OwnerDocument, application: &str) -> Result<()> {
        match owner.application == application {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "the lease container {} belongs to the application {:?}, and this is {application:?}: give it a \
                 container of its own, or name the application with `with_application`",
                self.container.id(),
                owner.application
            ))),
        }
    }

    async fn check_empty(&self) -> Result<()> {
        let any = self.container.query("SELECT TOP 1 VALUE c.id FROM c WHERE c.id != @owner");
        let any = any.with_parameter("@owner", OWNER_ID).first::<serde_json::Value>().await?;
        match any {
            None => Ok(()),
            Some(id) => Err(Error::invalid(format!(
                "the lease container {} holds items that are no leases of this application, such as {id}: give the \
                 processor a container of its own",
                self.container.id()
            ))),
        }
    }

    pub(super) async fn processor_document(&self) -> Result<Option<ProcessorDocument>> {
        self.read(&self.processor, PROCESSOR_ID).await
    }

    /// Creates the document of the processor and its leases, unless it is there; a worker that stopped in between is
    /// carried on for.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the processor follows another container.
    pub(super) async fn initialise(
        &self,
        planned: &ProcessorDocument,
    ) -> Result<ProcessorDocument> {
        for _ in 0..MAX_TRIES {
            let stored = self.processor_document().await?;
            let is_new = stored.is_none();
            let document = stored.unwrap_or_else(|| planned.clone());
            if document.container != planned.container {
                return Err(Error::invalid(format!(
                    "the processor {:?} follows another container, or one of this name that was deleted and created \
                     again: give it another name, or delete its leases",
                    self.processor
                )));
            }
            if !is_new && document.pending.is_empty() {
                return Ok(document);
            }
            match self.create_pending(document, is_new).await {
                Ok(()) => {}
                // Another worker was faster, or our own attempt was, whose answer was lost: look again.
                Err(error) if is_contention(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Err(unsettled())
    }

    /// Creates some of the leases that a processor is to have. One transaction with its document, so that a worker
    /// that is late cannot bring back a lease that was split meanwhile.
    async fn create_pending(&self, mut document: ProcessorDocument, is_new: bool) -> Result<()> {
        let count = document.pending.len().min(MAX_TOGETHER);
        let leases: Vec<LeaseDocument> = document.pending.drain(..count).collect();
        let batch = TransactionalBatch::new(self.processor.as_str());
        let batch = match is_new {
            true => batch.create_item(&document),
            false => batch.replace_item(PROCESSOR_ID, &document, if_match(document.etag.clone())),
        };
        let batch = leases.iter().fold(batch, TransactionalBatch::create_item);
        self.container.execute_batch(batch, None).await.map(drop)
    }

    /// All leases of the processor.
    pub(super) async fn list(&self) -> Result<Vec<LeaseDocument>> {
        let query = self.container.query("SELECT * FROM c WHERE c.kind = @kind");
        let query = query.with_parameter("@kind", LEASE_KIND);
        query.with_partition_key(self.processor.as_str()).items().collect().await
    }

    /// Writes the next version of a lease that is still as it was read.
    pub(super) async fn write(&self, mut next: LeaseDocument) -> Result<LeaseDocument, NotWritten> {
        let write = ItemWriteOptions { if_match_etag: next.etag.clone(), ..Default::default() };
        let options = ItemOptions { write, ..ItemOptions::default() };
        let key = self.processor.as_str();
        let replaced = self.container.replace_item(key, &next.id, &next, Some(options)).await;
        match replaced {
            Ok(response) => {
                next.etag = response.etag();
                Ok(next)
            }
            Err(error) if error.may_have_been_applied() => self.written_before(next).await,
            Err(error) if is_contention(&error) || error.kind() == ErrorKind::NotFound => {
                Err(NotWritten::Lost)
            }
            Err(error) => Err(NotWritten::Failed(error)),
        }
    }

    /// Whether a version was written by an attempt whose answer was lost.
    async fn written_before(&self, next: LeaseDocument) -> Result<LeaseDocument, NotWritten> {
        let stored = self.read::<LeaseDocument>(&self.processor, &next.id).await;
        match stored.map_err(NotWritten::Failed)? {
            Some(stored) if stored.version == next.version && stored.owner == next.owner => {
                Ok(stored)
            }
            // As before the attempt: it was lost on its way.
            Some(stored) if stored.etag == next.etag => Err(NotWritten::Failed(Error::new(
                ErrorKind::Unavailable,
                "the lease could not be written",
            ))),
            Some(_) | None => Err(NotWritten::Lost),
        }
    }

    /// Puts leases in the place of one, all or none.
    pub(super) async fn replace(
        &self,
        parent: &LeaseDocument,
        children: &[LeaseDocument],
    ) -> Result<()> {
        let batch = TransactionalBatch::new(self.processor.as_str());
        let batch = batch.delete_item(&parent.id, if_match(parent.etag.clone()));
        let batch = children.iter().fold(batch, TransactionalBatch::create_item);
        self.container.execute_batch(batch, None).await.map(drop)
    }

    /// Creates a lease that should be there; another worker may be faster.
    pub(super) async fn create(&self, lease: &LeaseDocument) -> Result<()> {
        match self.container.create_item(self.processor.as_str(), lease, None).await {
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
            created => created.map(drop),
        }
    }

    /// Deletes a lease that is still as it was read; another worker may be faster.
    pub(super) async fn delete(&self, lease: &LeaseDocument) -> Result<()> {
        let write = ItemWriteOptions { if_match_etag: lease.etag.clone(), ..Default::default() };
        let options = ItemOptions { write, ..ItemOptions::default() };
        let deleted = self.container.delete_item(self.processor.as_str(), &lease.id, Some(options));
        match deleted.await {
            Err(error) if is_contention(&error) || error.kind() == ErrorKind::NotFound => Ok(()),
            deleted => deleted.map(drop),
        }
    }

    async fn read<T: DeserializeOwned>(&self, key: &str, id: &str) -> Result<Option<T>> {
        match self.container.read_item(key, id, None).await {
            Ok(response) => response.into_model().map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn if_match(etag: Option<Etag>) -> Option<BatchItemOptions> {
    Some(BatchItemOptions { if_match_etag: etag, ..BatchItemOptions::default() })
}

/// Somebody else wrote first.
fn is_contention(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::PreconditionFailed)
}

fn unsettled() -> Error {
    Error::new(
        ErrorKind::Unavailable,
        "the documents of the lease container keep changing: try again",
    )
}
