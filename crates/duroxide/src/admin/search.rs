//! Searches for instances by status, orchestration and id prefix, with one query.

use duroxide::providers::ProviderError;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Admin;
use super::inspection::VISIBLE;
use crate::store::Scope;

/// The default limit of a search.
const DEFAULT_LIMIT: u32 = 100;

/// The conditions of a search: see [`CosmosDBProvider::find_instances`](crate::CosmosDBProvider::find_instances).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceSearch {
    /// `Running`, `Completed`, `Failed` or `ContinuedAsNew`; `None` for any.
    pub status: Option<String>,
    /// The name of the orchestration.
    pub orchestration: Option<String>,
    /// The prefix of the instance's id.
    pub id_prefix: Option<String>,
    /// The maximum number of instances, which are held in memory; 100 by default.
    pub limit: u32,
}

impl Default for InstanceSearch {
    fn default() -> Self {
        Self { status: None, orchestration: None, id_prefix: None, limit: DEFAULT_LIMIT }
    }
}

/// An instance that was found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct InstanceSummary {
    /// Its id.
    pub instance_id: String,
    /// The orchestration that it runs.
    pub orchestration_name: Option<String>,
    /// The orchestration's version.
    pub orchestration_version: Option<String>,
    /// `Running`, `Completed`, `Failed` or `ContinuedAsNew`.
    pub status: String,
    /// The custom status that it has set.
    #[serde(default, with = "crate::documents::compact")]
    pub custom_status: Option<String>,
    /// Its current execution.
    pub current_execution_id: u64,
    /// When it was created, in milliseconds since 1970.
    pub created_at: i64,
    /// When its last turn was committed.
    pub updated_at: i64,
    /// The instance that started it.
    pub parent_instance_id: Option<String>,
}

impl Admin {
    /// Finds instances, the youngest first.
    pub(crate) async fn find_instances(
        &self,
        search: &InstanceSearch,
    ) -> Result<Vec<InstanceSummary>, ProviderError> {
        let (text, parameters) = query(search);
        let found = self.store.documents(Scope::Everything, &text, &parameters).await;
        found.map_err(|failure| failure.tell("find_instances", "instances"))
    }
}

/// The query of a search, and its parameters.
fn query(search: &InstanceSearch) -> (String, Vec<(&'static str, Value)>) {
    let mut conditions = String::new();
    let mut parameters = vec![("@limit", json!(search.limit))];
    let named = [
        ("@status", " AND c.status = @status", &search.status),
        ("@name", " AND c.orchestrationName = @name", &search.orchestration),
        ("@prefix", " AND STARTSWITH(c.instanceId, @prefix)", &search.id_prefix),
    ];
    for (name, condition, value) in named {
        if let Some(value) = value {
            conditions.push_str(condition);
            parameters.push((name, json!(value)));
        }
    }
    let text = format!(
        "SELECT TOP @limit c.instanceId, c.orchestrationName, c.orchestrationVersion, c.status, c.customStatus, \
         c.currentExecutionId, c.createdAt, c.updatedAt, c.parentInstanceId \
         FROM c WHERE {VISIBLE}{conditions} ORDER BY c.createdAt DESC"
    );
    (text, parameters)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_asks_for_what_it_names() {
        let (text, parameters) = query(&InstanceSearch::default());
        assert!(text.contains("TOP @limit"), "{text}");
        assert_eq!(parameters, [("@limit", json!(100))]);
        let search = InstanceSearch {
            status: Some("Failed".to_owned()),
            orchestration: None,
            id_prefix: Some("order-".to_owned()),
            limit: 10,
        };
        let (text, parameters) = query(&search);
        let names: Vec<&str> = parameters.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["@limit", "@status", "@prefix"]);
        assert!(names.iter().all(|name| text.contains(name)) && !text.contains("@name"), "{text}");
    }
}
