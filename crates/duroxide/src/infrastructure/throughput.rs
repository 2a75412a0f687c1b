//! The throughput of the container: a warning if it is less than a full batch costs.

use std::time::Duration;

use sidereal::prelude::*;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use crate::config::CosmosDBProviderConfig;

/// The request units of a batch of 99 small writes, which is what a large turn sends.
const FULL_BATCH: u32 = 1_000;

/// How long a start waits for this.
const PATIENCE: Duration = Duration::from_secs(2);

/// Logs a warning if the container's throughput is low. There is none to read on serverless accounts, and credentials of the
/// data plane may not read it: then nothing is logged.
pub(super) async fn warn_if_low(client: &CosmosClient, config: &CosmosDBProviderConfig) {
    // A refusal is expected, and the driver would log it as a failed operation.
    let read = read(client, config).with_subscriber(NoSubscriber::new());
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok((container, database))) => {
            if let Some(sentence) = warning(config, container, database) {
                tracing::warn!("{sentence}");
            }
        }
        Ok(Err(error)) => tracing::debug!(%error, "the throughput of the container is not known"),
        Err(_) => tracing::debug!("the throughput of the container was not read in time"),
    }
}

/// The throughput of the container, and of its database if the container has none of its own.
async fn read(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
) -> sidereal::Result<(Option<ThroughputProperties>, Option<ThroughputProperties>)> {
    let database = client.database(&config.database);
    match database.container(&config.container).read_throughput(None).await? {
        Some(container) => Ok((Some(container), None)),
        None => Ok((None, database.read_throughput(None).await?)),
    }
}

fn warning(
    config: &CosmosDBProviderConfig,
    container: Option<ThroughputProperties>,
    database: Option<ThroughputProperties>,
) -> Option<String> {
    let name = format!("{}/{}", config.database, config.container);
    let (subject, throughput) = match (container, database) {
        (Some(throughput), _) => (format!("the container {name} has"), throughput),
        (None, Some(throughput)) => {
            (format!("the containers of {} share", config.database), throughput)
        }
        (None, None) => return None,
    };
    let units = throughput.ceiling();
    (units < FULL_BATCH).then(|| {
        format!(
            "{subject} {units} RU/s: a batch of 99 writes costs about 1,000 RU, so large turns are throttled; provision \
             1,000 RU/s or more, for example as autoscale"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_below_a_full_batch_is_warned_of() {
        let config = CosmosDBProviderConfig::emulator().with_database("db").with_container("c");
        let (low, enough) =
            (ThroughputProperties::manual(999), ThroughputProperties::manual(1_000));
        let warned = |container, database| warning(&config, container, database);
        assert!(warned(Some(low), None).unwrap().contains("db/c has 999 RU/s"));
        assert!(warned(None, Some(low)).unwrap().contains("containers of db share 999 RU/s"));
        assert_eq!(warned(Some(enough), Some(low)), None);
        assert_eq!(warned(None, Some(ThroughputProperties::autoscale(1_000, None))), None);
        assert_eq!(warned(None, None), None, "serverless");
    }
}
