//! Reading and writing one item.

use std::fs;
use std::io::{self, IsTerminal, Read};
use std::path::Path;

use clap::Args;
use serde_json::Value;
use sidereal::models::{Etag, PartitionKey};
use sidereal::options::ItemOptions;
use sidereal::{CosmosClient, ErrorKind, ItemResponse};

use crate::account::{ContainerName, ItemScope, KeyArguments};
use crate::command::DiagnosticsArguments;
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::system_properties::without_system_properties;

/// No item is larger: the service takes 2 MB.
const MAX_ITEM_BYTES: u64 = 4 * 1024 * 1024;

#[derive(Args, Debug)]
pub(super) struct GetArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// Id of the item.
    id: String,
    #[command(flatten)]
    key: KeyArguments,
    /// Leave out what the service added (_rid, _self, _etag, _attachments, _ts).
    #[arg(long)]
    no_system: bool,
}

#[derive(Args, Debug)]
pub(super) struct CreateArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// The item: JSON, @FILE, or - for standard input. Its partition key is taken from it.
    item: String,
}

#[derive(Args, Debug)]
pub(super) struct PutArguments {
    #[command(flatten)]
    item: CreateArguments,
    #[command(flatten)]
    condition: ConditionArguments,
}

#[derive(Args, Debug)]
pub(super) struct DeleteArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// Id of the item.
    id: String,
    #[command(flatten)]
    key: KeyArguments,
    #[command(flatten)]
    condition: ConditionArguments,
}

#[derive(Args, Debug)]
pub(super) struct ConditionArguments {
    /// Only if the item still has this etag.
    #[arg(long, value_name = "ETAG", value_parser = etag)]
    if_match: Option<Etag>,
}

impl ConditionArguments {
    pub(super) fn options(&self) -> Option<ItemOptions<'static>> {
        let mut options = ItemOptions::default();
        options.write.if_match_etag = Some(self.if_match.clone()?);
        Some(options)
    }
}

fn etag(text: &str) -> Result<Etag, String> {
    // The quotes are part of an etag, and a shell takes them away.
    let text = if text.starts_with(['"', 'W']) || text == "*" {
        text.to_owned()
    } else {
        format!("\"{text}\"")
    };
    Etag::new(text).map_err(|error| error.to_string())
}

pub(super) async fn get(
    client: &CosmosClient,
    arguments: &GetArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let ItemScope { container, definition } = arguments.container.open(client).await?;
    let key = arguments.key.key_of_item(&arguments.id, &definition)?;
    let read = diagnostics.of(container.read_item(key.clone(), &arguments.id, None).await);
    let mut item: Value =
        read.map_err(|error| missing(error, &arguments.id, &key))?.into_model()?;
    if arguments.no_system {
        item = without_system_properties(item);
    }
    let text = if io::stdout().is_terminal() { format!("{item:#}\n") } else { format!("{item}\n") };
    Ok(output::print(&text)?)
}

pub(super) async fn create(
    client: &CosmosClient,
    arguments: &CreateArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let item = arguments.read()?;
    let ItemScope { container, definition } = arguments.container.open(client).await?;
    let created = container.create_item(definition.extract(&item), &item, None).await;
    let created = diagnostics.of(created).map_err(|error| match error.kind() {
        ErrorKind::Conflict => {
            Failure::from(error).with_hint("`sidereal item put` replaces the item that is there")
        }
        _ => error.into(),
    })?;
    told(id_of(&item), &created)
}

pub(super) async fn put(
    client: &CosmosClient,
    arguments: &PutArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let item = arguments.item.read()?;
    let ItemScope { container, definition } = arguments.item.container.open(client).await?;
    let key = definition.extract(&item);
    let options = arguments.condition.options();
    let written = diagnostics.of(container.upsert_item(key, &item, options).await)?;
    told(id_of(&item), &written)
}

pub(super) async fn delete(
    client: &CosmosClient,
    arguments: &DeleteArguments,
    diagnostics: DiagnosticsArguments,
) -> Result<(), Failure> {
    let ItemScope { container, definition } = arguments.container.open(client).await?;
    let key = arguments.key.key_of_item(&arguments.id, &definition)?;
    let options = arguments.condition.options();
    let deleted = diagnostics.of(container.delete_item(key.clone(), &arguments.id, options).await);
    told(&arguments.id, &deleted.map_err(|error| missing(error, &arguments.id, &key))?)
}

/// Says what became of an item, and what that cost.
pub(super) fn told(id: &str, response: &ItemResponse) -> Result<(), Failure> {
    let what = match response.status().code() {
        201 => "created",
        204 => "deleted",
        _ => "replaced",
    };
    Ok(output::print(&format!("Item {id}: {what} ({:.2} RU).\n", response.request_charge()))?)
}

/// A failure with what this item has to do with it.
pub(super) fn missing(error: sidereal::Error, id: &str, key: &PartitionKey) -> Failure {
    let is_missing = error.kind() == ErrorKind::NotFound;
    let failure = Failure::from(error);
    match is_missing {
        true => Failure::new(failure.status(), format!("there is no item {id} with the key {key}"))
            .with_hint("digits are a number: a key that is text of digits is written '\"42\"'"),
        false => failure,
    }
}

fn id_of(item: &Value) -> &str {
    item["id"].as_str().unwrap_or_default()
}

impl CreateArguments {
    /// The item, from wherever it is; an id is what every item needs.
    fn read(&self) -> Result<Value, Failure> {
        let text = match self.item.as_str() {
            "-" => read(io::stdin().lock(), "standard input")?,
            text => match text.strip_prefix('@') {
                Some(path) => {
                    let unreadable = |error| Failure::file(Path::new(path), "read", error);
                    read(fs::File::open(path).map_err(unreadable)?, path)?
                }
                None => text.to_owned(),
            },
        };
        item_of(&text).map_err(|why| {
            Failure::new(ExitStatus::InvalidInput, format!("that is no item: {why}")).with_hint(
                "an item is a JSON object with an \"id\" that is text; @FILE reads it from a file",
            )
        })
    }
}

fn read(source: impl Read, name: &str) -> Result<String, Failure> {
    let mut text = String::new();
    let read = source.take(MAX_ITEM_BYTES + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::file(Path::new(name), "read", error))?;
    match text.len() as u64 > MAX_ITEM_BYTES {
        true => Err(Failure::new(
            ExitStatus::InvalidInput,
            format!("{name} is longer than {MAX_ITEM_BYTES} bytes, which no item is"),
        )),
        false => Ok(text),
    }
}

/// Parses an item, or says why the text is malformed.
pub(super) fn item_of(text: &str) -> Result<Value, String> {
    let item: Value =
        serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
    check_item(&item).map(|()| item)
}

/// Whether a value can be an item, or why not.
pub(crate) fn check_item(item: &Value) -> Result<(), String> {
    match item {
        Value::Object(properties) => match properties.get("id") {
            Some(Value::String(_)) => Ok(()),
            Some(_) => Err("its id is not text".to_owned()),
            None => Err("it has no id".to_owned()),
        },
        _ => Err("it is not an object".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_an_object_with_an_id() {
        assert!(item_of(r#"{"id":"1"}"#).is_ok());
        for (wrong, why) in [
            ("{", "not JSON"),
            ("[]", "not an object"),
            ("{}", "no id"),
            (r#"{"id":1}"#, "not text"),
        ] {
            assert!(item_of(wrong).unwrap_err().contains(why), "{wrong}");
        }
    }

    #[test]
    fn an_etag_may_be_given_without_its_quotes() {
        assert_eq!(etag("7").unwrap(), Etag::new("\"7\"").unwrap());
        assert_eq!(etag("\"7\"").unwrap(), Etag::new("\"7\"").unwrap());
    }
}
