//! A partition key on the command line.

use clap::Args;
use serde_json::Value;
use sidereal::models::{PartitionKey, PartitionKeyDefinition, PartitionKeyValue};

use crate::failure::{ExitStatus, Failure};

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct KeyArguments {
    /// Partition key; once for each level of a hierarchical one.
    ///
    /// JSON where it is JSON (42, true, null, a list for a hierarchical key), text otherwise. Digits that are
    /// text are written '"42"'.
    #[arg(long, value_name = "KEY", value_parser = components)]
    partition_key: Vec<Components>,
}

/// The value of one flag: one component, or all of them as a list.
#[derive(Clone, Debug)]
struct Components(Vec<PartitionKeyValue>);

fn components(text: &str) -> Result<Components, String> {
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    match value {
        Value::Object(_) => {
            Err("a partition key is text, a number, true, false or null, or a list of them".into())
        }
        Value::Array(values) if values.iter().any(|it| it.is_array() || it.is_object()) => {
            Err("a component of a partition key is text, a number, true, false or null".into())
        }
        Value::Array(values) => {
            Ok(Components(values.iter().map(PartitionKeyValue::from_json).collect()))
        }
        value => Ok(Components(vec![PartitionKeyValue::from_json(&value)])),
    }
}

impl KeyArguments {
    /// The key, if one is given.
    pub(crate) fn key(&self) -> Result<Option<PartitionKey>, Failure> {
        if self.partition_key.is_empty() {
            return Ok(None);
        }
        let components = self.partition_key.iter().flat_map(|it| it.0.iter().cloned());
        let key = PartitionKey::new(components);
        key.map(Some).map_err(|error| {
            Failure::new(ExitStatus::InvalidInput, format!("--partition-key: {error}"))
        })
    }

    /// The key of the item with an id: the one that is given, or the id where that is the key.
    pub(crate) fn key_of_item(
        &self,
        id: &str,
        definition: &PartitionKeyDefinition,
    ) -> Result<PartitionKey, Failure> {
        if let Some(key) = self.key()? {
            let (given, wanted) = (key.components().len(), definition.paths().len());
            if given == wanted {
                return Ok(key);
            }
            let sentence = format!(
                "the key {key} has {given} components, and the container is partitioned by {wanted}: {definition}"
            );
            return Err(Failure::new(ExitStatus::InvalidInput, sentence)
                .with_hint("give --partition-key once for each path"));
        }
        if definition.to_string() == "/id" {
            return Ok(PartitionKey::from(id));
        }
        let sentence = format!("an item is named by its id and its partition key, {definition}");
        Err(Failure::new(ExitStatus::Usage, sentence)
            .with_hint("give the key with --partition-key, once for each path"))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        key: KeyArguments,
    }

    fn key(flags: &[&str]) -> Result<Option<PartitionKey>, String> {
        let flags = flags.iter().flat_map(|flag| ["--partition-key", flag]);
        let parsed = Alone::try_parse_from(std::iter::once("test").chain(flags));
        parsed.map_err(|error| error.to_string())?.key.key().map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_is_json_where_it_is_json_and_text_otherwise() {
        assert_eq!(key(&[]), Ok(None));
        assert_eq!(key(&["contoso"]), Ok(Some("contoso".into())));
        assert_eq!(key(&["42"]), Ok(Some(42.into())));
        assert_eq!(key(&["\"42\""]), Ok(Some("42".into())));
        assert_eq!(key(&["true"]), Ok(Some(true.into())));
        assert_eq!(key(&["{half"]), Ok(Some("{half".into())));
    }

    #[test]
    fn a_hierarchical_key_is_a_list_or_several_flags() {
        assert_eq!(key(&["a", "1"]), Ok(Some(("a", 1).into())));
        assert_eq!(key(&["[\"a\", 1]"]), Ok(Some(("a", 1).into())));
    }

    #[test]
    fn what_no_key_is_is_refused() {
        for wrong in ["{}", "[[1]]"] {
            assert!(key(&[wrong]).is_err(), "{wrong}");
        }
        assert!(key(&["a", "b", "c", "d"]).is_err());
    }

    #[test]
    fn an_id_is_its_own_key_where_the_container_says_so() {
        let none = KeyArguments::default();
        assert_eq!(none.key_of_item("1", &"/id".parse().unwrap()).unwrap(), "1".into());
        let failure = none.key_of_item("1", &"/customer".parse().unwrap()).unwrap_err();
        assert!(failure.to_string().contains("/customer"), "{failure}");
    }
}
