//! The schema document: which layout the documents of the container have, and which region they live in.

use serde::{Deserialize, Serialize};
use sidereal::prelude::*;
use sidereal_protocol::CosmosStatus;

use super::creation::{ATTEMPTS, FIRST_PAUSE};
use crate::ProviderSetupError;
use crate::documents::kinds;
use crate::region::RequestTerms;

/// The version of the documents' layout.
const SCHEMA_VERSION: u32 = 1;

/// The partition of what belongs to the container itself.
const OWN_PARTITION: &str = "__sidereal__";
const SCHEMA_ID: &str = "schema";

/// What the container says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchemaDocument {
    id: String,
    instance_id: String,
    #[serde(rename = "type")]
    kind: String,
    schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<RegionName>,
    #[serde(rename = "_etag", default, skip_serializing)]
    etag: Option<Etag>,
}

/// Waits until the region has what was stored in the one that all providers agree on: the session covers it.
pub(super) async fn await_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
) -> Result<(), ProviderSetupError> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        match container.read_item(OWN_PARTITION, SCHEMA_ID, terms.item()).await {
            Ok(_) => break,
            Err(error) if is_behind(&error) && attempt < ATTEMPTS => {
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn is_behind(error: &sidereal::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || error.status().is_some_and(CosmosStatus::is_read_session_not_available)
}

/// What the container says of itself; none if it is empty. One whose documents are not of this layout is refused.
pub(super) async fn read_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
) -> Result<Option<SchemaDocument>, ProviderSetupError> {
    match container.read_item(OWN_PARTITION, SCHEMA_ID, terms.item()).await {
        Ok(response) => {
            let schema: SchemaDocument = response.into_model()?;
            return match schema.schema_version == SCHEMA_VERSION {
                true => Ok(Some(schema)),
                false => Err(ProviderSetupError::mismatch(format!(
                    "the container {} has documents of layout {}, and this provider knows layout {SCHEMA_VERSION}: \
                     use the provider that wrote them, or another container",
                    container.id(),
                    schema.schema_version
                ))),
            };
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    let query = container.query("SELECT TOP 1 VALUE c.id FROM c").with_options(terms.query());
    let foreign: Option<String> = query.first().await?;
    match foreign {
        None => Ok(None),
        Some(id) => Err(ProviderSetupError::mismatch(format!(
            "the container {} has documents of another application, such as {id}: duroxide-cdb's cannot be read \
             by this provider; use another container",
            container.id()
        ))),
    }
}

/// Stores the layout and the region, if they are not. Says what is stored then: another provider may have been faster.
pub(super) async fn store_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
    there: Option<SchemaDocument>,
    region: Option<RegionName>,
) -> Result<SchemaDocument, ProviderSetupError> {
    let (is_new, etag) = (there.is_none(), there.as_ref().and_then(|there| there.etag.clone()));
    if let Some(there) = there
        && (region.is_none() || there.region == region)
    {
        return Ok(there);
    }
    let schema = SchemaDocument {
        id: SCHEMA_ID.to_owned(),
        instance_id: OWN_PARTITION.to_owned(),
        kind: kinds::SCHEMA.to_owned(),
        schema_version: SCHEMA_VERSION,
        region,
        etag: None,
    };
    let mut options = terms.item().unwrap_or_default();
    options.write.if_match_etag = etag;
    let written = match is_new {
        true => container.create_item(OWN_PARTITION, &schema, Some(options)).await,
        false => container.replace_item(OWN_PARTITION, SCHEMA_ID, &schema, Some(options)).await,
    };
    match written {
        Ok(_) => Ok(schema),
        // Somebody else was faster, or an answer was lost.
        Err(error)
            if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::PreconditionFailed) =>
        {
            read_schema(container, terms).await?.ok_or_else(|| error.into())
        }
        Err(error) => Err(error.into()),
    }
}
