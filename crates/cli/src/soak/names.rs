//! Names that the processes of a run agree on.

/// The database of the run: of the orchestrations' container, which has the provider's default name, and the ledger's.
pub(super) const DATABASE: &str = "soak";

/// The variables that name the account to a worker: its key is in no command line.
pub(super) const ENDPOINT: &str = "COSMOSDB_ENDPOINT";
pub(super) const KEY: &str = "COSMOSDB_KEY";

/// The line that a worker prints once it takes work.
pub(super) const READY: &str = "ready";

/// The instance of a number. Instances that it starts have longer ids: `state::started_id` adds a dot.
pub(super) fn instance(number: u64) -> String {
    format!("r{number}")
}
