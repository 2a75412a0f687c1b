//! The schema document: which layout the documents of the container have, and which region they live in.

use serde::{Deserialize, Serialize};
use sidereal::prelude::*;
use sidereal_protocol::CosmosStatus;

use super::creation::{ATTEMPTS, FIRST_PAUSE};
use crate::ProviderSetupError;
use crate::documents::{Unknown, kinds};
use crate::ids::SCHEMA_PARTITION;
use crate::region::RequestTerms;

/// The layout version that this release reads and writes.
const SCHEMA_VERSION: u32 = 1;

/// The partition of what belongs to the container itself.
const SCHEMA_ID: &str = "schema";

/// The layout of the container's documents, and which releases can use it.
///
/// A later release may change the layout and still leave it usable to earlier ones: it raises `schema_version` alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SchemaDocument {
    id: String,
    instance_id: String,
    #[serde(rename = "type")]
    kind: String,
    schema_version: u32,
    /// The least layout version that a release must know to read the documents; `schema_version` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_reader: Option<u32>,
    /// The least layout version that a release must know to write them; `schema_version` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_writer: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<RegionName>,
    #[serde(flatten)]
    unknown: Unknown,
    #[serde(rename = "_etag", default, skip_serializing)]
    etag: Option<Etag>,
}

impl SchemaDocument {
    fn new(region: Option<RegionName>) -> Self {
        Self {
            id: SCHEMA_ID.to_owned(),
            instance_id: SCHEMA_PARTITION.to_owned(),
            kind: kinds::SCHEMA.to_owned(),
            schema_version: SCHEMA_VERSION,
            min_reader: Some(SCHEMA_VERSION),
            min_writer: Some(SCHEMA_VERSION),
            region,
            unknown: Unknown::default(),
            etag: None,
        }
    }

    /// Refuses a layout that a release which knows versions up to `known` can only misread, or must not write.
    fn check(&self, known: u32) -> Result<(), String> {
        let (reader, writer) = (self.min_reader, self.min_writer);
        let needed = [("read", reader), ("written", writer)];
        for (done, least) in
            needed.map(|(done, least)| (done, least.unwrap_or(self.schema_version)))
        {
            if least > known {
                return Err(format!(
                    "has documents of layout {}, which is {done} by releases that know layout {least}, and this release \
                     knows layout {known}: use a newer release, or another container",
                    self.schema_version
                ));
            }
        }
        Ok(())
    }
}

/// Waits until the region has what was stored in the one that all providers agree on: the session covers it.
pub(super) async fn await_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
) -> Result<(), ProviderSetupError> {
    let mut pause = FIRST_PAUSE;
    for attempt in 1.. {
        match container.read_item(SCHEMA_PARTITION, SCHEMA_ID, terms.item()).await {
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

/// The schema document; `None` if the container is empty. A layout that this release cannot use is refused.
pub(super) async fn read_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
) -> Result<Option<SchemaDocument>, ProviderSetupError> {
    match container.read_item(SCHEMA_PARTITION, SCHEMA_ID, terms.item()).await {
        Ok(response) => {
            let schema: SchemaDocument = response.into_model()?;
            return match schema.check(SCHEMA_VERSION) {
                Ok(()) => Ok(Some(schema)),
                Err(sentence) => Err(ProviderSetupError::mismatch(format!(
                    "the container {} {sentence}",
                    container.id()
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

/// Stores the layout and the region, if they are not. Returns what is stored then: another provider may have been faster.
pub(super) async fn store_schema(
    container: &ContainerClient,
    terms: &RequestTerms,
    there: Option<SchemaDocument>,
    region: Option<RegionName>,
) -> Result<SchemaDocument, ProviderSetupError> {
    let (is_new, schema) = match there {
        Some(there) if region.is_none() || there.region == region => return Ok(there),
        // A later release may have stored more.
        Some(there) => (false, SchemaDocument { region, ..there }),
        None => (true, SchemaDocument::new(region)),
    };
    let mut options = terms.item().unwrap_or_default();
    options.write.if_match_etag.clone_from(&schema.etag);
    let written = match is_new {
        true => container.create_item(SCHEMA_PARTITION, &schema, Some(options)).await,
        false => container.replace_item(SCHEMA_PARTITION, SCHEMA_ID, &schema, Some(options)).await,
    };
    match written {
        Ok(_) => Ok(schema),
        // Another provider was faster, or a response was lost.
        Err(error)
            if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::PreconditionFailed) =>
        {
            read_schema(container, terms).await?.ok_or_else(|| error.into())
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn checked(mut fields: Value, known: u32) -> Result<(), String> {
        fields["id"] = "schema".into();
        fields["instanceId"] = SCHEMA_PARTITION.into();
        fields["type"] = kinds::SCHEMA.into();
        serde_json::from_value::<SchemaDocument>(fields).unwrap().check(known)
    }

    #[test]
    fn absent_limits_mean_the_layout_itself() {
        assert_eq!(checked(json!({"schemaVersion": 1}), 1), Ok(()));
        assert_eq!(checked(json!({"schemaVersion": 1}), 2), Ok(()));
        assert!(checked(json!({"schemaVersion": 2}), 1).unwrap_err().contains("layout 2"));
        assert!(checked(json!({"schemaVersion": 2, "minReader": 1}), 1).is_err());
    }

    #[test]
    fn a_later_layout_is_refused_only_by_releases_that_its_limits_exclude() {
        let later = json!({"schemaVersion": 5, "minReader": 2, "minWriter": 4});
        let read = checked(later.clone(), 1).unwrap_err();
        assert!(read.contains("is read by releases that know layout 2"), "{read}");
        let written = checked(later.clone(), 3).unwrap_err();
        assert!(written.contains("is written by releases that know layout 4"), "{written}");
        assert_eq!(checked(later, 4), Ok(()));
    }

    #[test]
    fn a_new_schema_document_names_its_limits() {
        let stored = serde_json::to_value(SchemaDocument::new(None)).unwrap();
        let limits = (&stored["schemaVersion"], &stored["minReader"], &stored["minWriter"]);
        assert_eq!(limits, (&json!(1), &json!(1), &json!(1)));
    }
}
