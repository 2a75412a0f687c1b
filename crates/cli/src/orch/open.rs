//! The provider of an existing container, and its errors as sentences with hints.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duroxide::client::ClientError;
use duroxide::providers::{InstanceInfo, Provider, ProviderError};
use sidereal::CosmosClient;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};

use crate::account::ContainerName;
use crate::failure::{ExitStatus, Failure};

/// Longer than any command: delivering the messages of other processes is left to runtimes.
const NEVER: Duration = Duration::from_secs(100 * 3600);

/// The orchestrations of a container.
pub(super) struct Opened {
    pub(super) provider: Arc<CosmosDBProvider>,
    pub(super) client: duroxide::Client,
    container: ContainerName,
}

impl Opened {
    /// Opens a container; unlike a runtime, it does not create one.
    pub(super) async fn open(
        client: &CosmosClient,
        container: &ContainerName,
    ) -> Result<Self, Failure> {
        container.open(client).await.map_err(|failure| match failure.status() {
            ExitStatus::NotFound => Failure::new(failure.status(), failure.to_string())
                .with_hint("--container names the one that the runtime's configuration names"),
            _ => failure,
        })?;
        let mut config = CosmosDBProviderConfig::with_client(client.clone())
            .with_database(&container.database)
            .with_container(&container.container);
        config.reconciler_scan_interval = NEVER;
        let provider = CosmosDBProvider::new(config).await.map_err(|error| {
            let sentence = format!("{container} is no container of orchestrations");
            Failure::new(ExitStatus::InvalidInput, sentence).caused_by(&error)
        })?;
        let provider = Arc::new(provider);
        let client = duroxide::Client::new(Arc::clone(&provider) as Arc<dyn Provider>);
        Ok(Self { provider, client, container: container.clone() })
    }

    pub(super) async fn close(&self) {
        self.provider.shutdown().await;
    }

    /// Reads an instance; a failure if it does not exist.
    pub(super) async fn instance(&self, instance: &str) -> Result<InstanceInfo, Failure> {
        let info = self.client.get_instance_info(instance).await;
        info.map_err(|error| self.explain(error, instance))
    }

    /// The failure of a call about an instance.
    pub(super) fn explain(&self, error: ClientError, instance: &str) -> Failure {
        match error {
            ClientError::InstanceNotFound { .. } => self.missing(instance),
            ClientError::Provider(error) if error.message.contains("not found") => {
                match error.message.starts_with("Execution") {
                    true => Failure::new(ExitStatus::NotFound, error.message)
                        .with_hint(format!("`sidereal orch show {instance}` lists its executions")),
                    false => self.missing(instance),
                }
            }
            ClientError::Provider(error) => self.explain_provider(&error),
            ClientError::InstanceStillRunning { .. } => {
                let sentence = format!("{instance} is still running");
                Failure::new(ExitStatus::Conflict, sentence).with_hint(
                    "end it with `sidereal orch cancel`, or delete it all the same with --force",
                )
            }
            ClientError::CannotDeleteSubOrchestration { .. } => {
                let sentence = format!("{instance} is a sub-orchestration");
                Failure::new(ExitStatus::Conflict, sentence).with_hint(
                    "delete the instance that it belongs to: `sidereal orch show` names it",
                )
            }
            ClientError::InvalidInput { message } => {
                Failure::new(ExitStatus::InvalidInput, message)
            }
            error @ (ClientError::ManagementNotAvailable | ClientError::Timeout) => {
                Failure::of(ExitStatus::Failed, &error)
            }
        }
    }

    /// The failure of a call about the container.
    pub(super) fn explain_provider(&self, error: &ProviderError) -> Failure {
        match error.is_retryable() {
            true => Failure::of(ExitStatus::Unavailable, error)
                .with_hint("see whether the account answers, and try again"),
            false => Failure::of(ExitStatus::Failed, error),
        }
    }

    fn missing(&self, instance: &str) -> Failure {
        let sentence = format!("there is no instance {instance} in {}", self.container);
        Failure::new(ExitStatus::NotFound, sentence)
            .with_hint("`sidereal orch list` lists those that there are")
    }
}

/// A moment before now, in milliseconds since 1970.
pub(super) fn before(age: Duration) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.saturating_sub(age).as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 as a time.
pub(super) fn time(millis: u64) -> String {
    let time = SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    // The text has room for years up to 9999.
    let latest = Duration::from_secs(253_402_300_799);
    let time = time.filter(|time| {
        time.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since <= latest)
    });
    time.map_or_else(|| "-".to_owned(), |time| humantime::format_rfc3339_millis(time).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_people_write_them() {
        assert_eq!(time(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(time(1_700_000_000_123), "2023-11-14T22:13:20.123Z");
        assert_eq!(time(u64::MAX), "-");
        assert!(before(Duration::from_secs(60)) > 1_700_000_000_000);
        assert_eq!(before(Duration::MAX), 0);
    }
}
