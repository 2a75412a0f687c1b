//! The operation for which a transactional batch failed.

use std::fmt;

use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::{BatchOperationType, CosmosStatus};

/// The operation that a batch failed by.
#[derive(Clone, Debug)]
pub struct BatchFailure {
    pub(crate) index: usize,
    pub(crate) of: usize,
    pub(crate) operation: BatchOperationType,
    pub(crate) id: Option<String>,
    pub(crate) status: CosmosStatus,
    pub(crate) diagnostics: DiagnosticsContext,
}

impl BatchFailure {
    /// Its position in the batch, from 0.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// The type of the operation.
    #[must_use]
    pub fn operation(&self) -> BatchOperationType {
        self.operation
    }

    /// The item it was about; none if its body says so, as for a creation.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Why it failed.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        self.status
    }

    /// Whether the batch may have been applied after all: an attempt before the one that was refused was lost, and
    /// what the batch met may be what it wrote itself.
    #[must_use]
    pub fn may_have_been_applied(&self) -> bool {
        self.diagnostics.has_ambiguous_attempt()
    }

    pub(crate) fn diagnostics(&self) -> &DiagnosticsContext {
        &self.diagnostics
    }
}

impl fmt::Display for BatchFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "operation {} of {} ({}", self.index, self.of, self.operation)?;
        if let Some(id) = &self.id {
            write!(formatter, " {id}")?;
        }
        match self.may_have_been_applied() {
            false => {
                write!(
                    formatter,
                    ") failed with {}, so nothing of the batch was applied",
                    self.status
                )
            }
            true => write!(
                formatter,
                ") failed with {}, after an attempt whose answer was lost (the batch may have been applied)",
                self.status
            ),
        }
    }
}
