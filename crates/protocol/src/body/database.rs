//! Databases.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::system::SystemProperties;

/// A database, as it is created and read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatabaseProperties {
    /// The name.
    pub id: String,
    /// System properties, which the service adds.
    #[serde(flatten)]
    pub system: SystemProperties,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl DatabaseProperties {
    /// A database to be created.
    pub fn new(id: impl Into<String>) -> Self {
        Self { id: id.into(), system: SystemProperties::default(), other: Map::new() }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_database_round_trips() {
        let json = json!({"id": "shop", "_rid": "qYcAAA==", "_self": "dbs/qYcAAA==/",
            "_etag": "\"1\"", "_ts": 1, "_colls": "colls/", "_users": "users/"});
        let database: DatabaseProperties = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(database.system.rid.as_deref(), Some("qYcAAA=="));
        assert_eq!(serde_json::to_value(database).unwrap(), json);
        assert_eq!(serde_json::to_value(DatabaseProperties::new("a")).unwrap(), json!({"id": "a"}));
    }
}
