//! `sidereal item patch`: changes to parts of an item, as flags.

use clap::Args;
use serde_json::{Number, Value};
use sidereal::{CosmosClient, Patch};

use super::point::{ConditionArguments, missing, told};
use crate::account::{ContainerName, ItemScope, KeyArguments};
use crate::command::DiagnosticsArguments;
use crate::failure::{ExitStatus, Failure};

#[derive(Args, Debug)]
pub(super) struct PatchArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// Id of the item.
    id: String,
    #[command(flatten)]
    key: KeyArguments,
    /// Set a property; the value is JSON, or text where it is not JSON.
    #[arg(long, value_name = "PATH=VALUE", value_parser = path_and_value)]
    set: Vec<(String, Value)>,
    /// Add a property, or an element of a list (/tags/0, /tags/- for its end).
    #[arg(long, value_name = "PATH=VALUE", value_parser = path_and_value)]
    add: Vec<(String, Value)>,
    /// Replace a property that is there.
    #[arg(long, value_name = "PATH=VALUE", value_parser = path_and_value)]
    replace: Vec<(String, Value)>,
    /// Add a number to a property.
    #[arg(long, value_name = "PATH=NUMBER", value_parser = path_and_number)]
    increment: Vec<(String, Number)>,
    /// Move a value from one path to another.
    #[arg(long = "move", value_name = "FROM=TO", value_parser = two_paths)]
    moves: Vec<(String, String)>,
    /// Remove a property.
    #[arg(long, value_name = "PATH")]
    remove: Vec<String>,
    /// Only if the item meets this condition, such as "FROM c WHERE c.total < 100".
    #[arg(long, value_name = "SQL")]
    condition: Option<String>,
    #[command(flatten)]
    etag: ConditionArguments,
}

pub(super) async fn patch(
    client: &CosmosClient,
    arguments: &PatchArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let patch = arguments.patch()?;
    let ItemScope { container, definition } = arguments.container.open(client).await?;
    let key = arguments.key.key_of_item(&arguments.id, &definition)?;
    let options = arguments.etag.options();
    let patched = container.patch_item(key.clone(), &arguments.id, patch, options).await;
    let patched = diagnostics.of(patched);
    told(&arguments.id, &patched.map_err(|error| missing(error, &arguments.id, &key))?)
}

impl PatchArguments {
    /// The changes; their order among kinds is the one that the help tells.
    fn patch(&self) -> Result<Patch, Failure> {
        let count = self.set.len() + self.add.len() + self.replace.len();
        let count = count + self.increment.len() + self.moves.len() + self.remove.len();
        if count == 0 {
            return Err(Failure::new(ExitStatus::Usage, "a patch without a change does nothing")
                .with_hint("for example --set /status='\"shipped\"'"));
        }
        let patch = Patch::new();
        let patch = self.set.iter().fold(patch, |patch, (path, value)| patch.set(path, value));
        let patch = self.add.iter().fold(patch, |patch, (path, value)| patch.add(path, value));
        let patch =
            self.replace.iter().fold(patch, |patch, (path, value)| patch.replace(path, value));
        let patch = self
            .increment
            .iter()
            .fold(patch, |patch, (path, by)| patch.increment(path, by.clone()));
        let patch = self.moves.iter().fold(patch, |patch, (from, to)| patch.move_value(from, to));
        let patch = self.remove.iter().fold(patch, Patch::remove);
        Ok(match &self.condition {
            Some(condition) => patch.with_condition(condition),
            None => patch,
        })
    }
}

fn path_and_value(text: &str) -> Result<(String, Value), String> {
    let (path, value) = split(text, "expected a path and a value, such as /status='\"shipped\"'")?;
    Ok((path, serde_json::from_str(&value).unwrap_or(Value::String(value))))
}

fn path_and_number(text: &str) -> Result<(String, Number), String> {
    let expected = "expected a path and a number, such as /total=5";
    let (path, value) = split(text, expected)?;
    let number = serde_json::from_str(&value).map_err(|_| expected.to_owned())?;
    Ok((path, number))
}

fn two_paths(text: &str) -> Result<(String, String), String> {
    let expected = "expected two paths, such as /old=/new";
    let (from, to) = split(text, expected)?;
    if to.starts_with('/') { Ok((from, to)) } else { Err(expected.to_owned()) }
}

fn split(text: &str, expected: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((path, value)) if path.starts_with('/') => Ok((path.to_owned(), value.to_owned())),
        _ => Err(expected.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_change_is_a_path_and_what_belongs_there() {
        assert_eq!(path_and_value("/a=1"), Ok(("/a".into(), json!(1))));
        assert_eq!(path_and_value("/a=x=y"), Ok(("/a".into(), json!("x=y"))));
        assert_eq!(path_and_number("/a=-1.5"), Ok(("/a".into(), Number::from_f64(-1.5).unwrap())));
        assert_eq!(two_paths("/a=/b"), Ok(("/a".into(), "/b".into())));
        for wrong in ["a=1", "/a", ""] {
            assert!(path_and_value(wrong).is_err() && two_paths(wrong).is_err(), "{wrong}");
        }
        assert!(path_and_number("/a=x").is_err() && two_paths("/a=b").is_err());
    }
}
