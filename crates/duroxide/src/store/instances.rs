//! Instances in the container: reading them, and removing documents of theirs.

use super::Store;
use crate::PATIENCE_MS;
use crate::documents::InstanceDocument;
use crate::failure::{Cause, Failure};
use crate::ids;
use crate::write::{self, Write};

impl Store {
    /// Reads an instance.
    pub(crate) async fn read_instance(
        &self,
        instance: &str,
    ) -> Result<Option<InstanceDocument>, Failure> {
        self.read(instance, &ids::instance(instance)).await
    }

    /// Reads an instance that a commit is about, retrying until a moment has come.
    pub(crate) async fn read_instance_patiently(
        &self,
        instance: &str,
        until: i64,
    ) -> Result<Option<InstanceDocument>, Failure> {
        let (store, id) = (self.brief(), ids::instance(instance));
        store.patiently(until, || store.read(instance, &id)).await
    }

    /// Removes documents in as many batches as it takes. Missing documents are ignored.
    pub(crate) async fn remove_all(
        &self,
        instance: &str,
        writes: Vec<Write>,
    ) -> Result<(), Failure> {
        for chunk in write::chunks(writes, 0) {
            match self.write_once(instance, &chunk).await {
                Ok(_) => {}
                Err(failure) if failure.cause == Cause::NotFound => {
                    for write in &chunk {
                        match self.write_once(instance, std::slice::from_ref(write)).await {
                            Err(failure) if failure.cause != Cause::NotFound => {
                                return Err(failure);
                            }
                            _ => {}
                        }
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(())
    }

    /// Removes documents of an instance in as many batches as it takes, each conditional on the version of the instance.
    /// Missing documents are ignored. With a lease in milliseconds, each batch extends the instance's lease.
    pub(crate) async fn remove_fenced(
        &self,
        instance: &mut InstanceDocument,
        writes: Vec<Write>,
        lease: Option<i64>,
    ) -> Result<(), Failure> {
        for mut chunk in write::chunks(writes, Write::replace_instance(instance).bytes()) {
            while !chunk.is_empty() {
                let now = self.now();
                if let Some(lease) = lease {
                    instance.locked_until = Some(now.saturating_add(lease));
                }
                let first = std::iter::once(Write::replace_instance(instance));
                let batch: Vec<Write> = first.chain(chunk.iter().cloned()).collect();
                let until = now.saturating_add(PATIENCE_MS);
                match self.write(&instance.instance_id, &batch, until).await {
                    Ok(results) => {
                        instance.etag = results.first().and_then(|it| it.etag().cloned());
                        break;
                    }
                    Err(failure) => match failure.position {
                        Some(gone @ 1..) if failure.cause == Cause::NotFound => {
                            chunk.remove(gone - 1);
                        }
                        _ => return Err(failure),
                    },
                }
            }
        }
        Ok(())
    }
}
