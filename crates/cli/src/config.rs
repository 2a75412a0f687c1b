//! `sidereal config`: every setting, its value, where that comes from, its variable and its meaning.

use std::env;
use std::sync::Arc;

use clap::Args;
use serde_json::{Value, json};
use sidereal::options::{CosmosEnvironmentOptions, OptionLayers, Setting, Source};

use crate::account::account_settings;
use crate::command::{Format, FormatArguments};
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::table;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal config
  sidereal config hedging
  sidereal config AZURE_COSMOS_MAX_FAILOVER_RETRY_COUNT
  sidereal config --set --output json

These are the values that the commands on accounts use, and that a program has unless it sets its own, for its
runtime, an account or an operation: each of these layers wins over the environment, the last of them first.")]
pub(crate) struct ConfigArguments {
    #[command(flatten)]
    format: FormatArguments,
    /// Only settings whose name or variable contains one of these.
    names: Vec<String>,
    /// Only settings that the environment sets.
    #[arg(long)]
    set: bool,
}

pub(crate) fn run(arguments: &ConfigArguments) -> Result<(), Failure> {
    let environment = CosmosEnvironmentOptions::from_env().map_err(|error| {
        let malformed: Vec<String> = error.malformed().iter().map(ToString::to_string).collect();
        Failure::new(ExitStatus::InvalidInput, malformed.join("; "))
            .with_hint("a client would refuse these variables too: correct or unset them")
    })?;
    let layers = OptionLayers::new(Arc::new(environment), Arc::default(), Arc::default());
    let own = account_settings(|name| env::var(name).ok());
    let all = own.into_iter().chain(layers.settings());
    let chosen: Vec<Setting> = all.filter(|setting| arguments.wants(setting)).collect();
    match chosen.as_slice() {
        [] if arguments.names.is_empty() => arguments.format.print(HEADS, &[]),
        [] => {
            let sentence = format!("no setting is called {}", arguments.names.join(" or "));
            Err(Failure::new(ExitStatus::NotFound, sentence)
                .with_hint("`sidereal config` lists them all"))
        }
        // One setting has the width of the terminal for each of its facts.
        [one] => arguments.format.print_facts(&facts(one)),
        // Five columns in a terminal would each be cut to nothing.
        several
            if arguments.format.format() == Format::Table && table::terminal_width().is_some() =>
        {
            Ok(output::print(&several.iter().map(block).collect::<String>())?)
        }
        several => arguments.format.print(HEADS, &several.iter().map(row).collect::<Vec<_>>()),
    }
}

const HEADS: [&str; 5] = ["SETTING", "VALUE", "FROM", "VARIABLE", "MEANING"];

impl ConfigArguments {
    fn wants(&self, setting: &Setting) -> bool {
        let is_set = !matches!(setting.source, Source::Unset | Source::Default);
        let has = |text: &str, name: &str| text.to_lowercase().contains(&name.to_lowercase());
        let is_named = |name: &String| {
            has(&setting.name, name) || setting.variables.iter().any(|it| has(it, name))
        };
        (is_set || !self.set) && (self.names.is_empty() || self.names.iter().any(is_named))
    }
}

fn facts(setting: &Setting) -> [(&'static str, Value); 5] {
    [
        ("setting", json!(setting.name)),
        ("value", json!(setting.value)),
        ("from", json!(setting.source.to_string())),
        ("variables", json!(setting.variables)),
        ("meaning", json!(setting.description)),
    ]
}

/// A setting on lines of its own.
fn block(setting: &Setting) -> String {
    let value = setting.value.as_deref().unwrap_or("-");
    let variables = match setting.variables.as_slice() {
        [] => String::new(),
        variables => format!("    {}\n", variables.join(", ")),
    };
    let Setting { name, source, description, .. } = setting;
    format!("{name} = {} ({source})\n{variables}    {description}\n", table::printable(value))
}

fn row(setting: &Setting) -> (Value, [String; 5]) {
    let facts = facts(setting);
    let object = facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let or_dash = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let cells = [
        setting.name.clone(),
        or_dash(setting.value.as_deref()),
        setting.source.to_string(),
        or_dash(setting.variables.first().copied()),
        setting.description.to_owned(),
    ];
    (Value::Object(object), cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_on_a_terminal_has_a_line_for_each_of_its_facts() {
        let setting = Setting {
            name: "group.name".to_owned(),
            value: Some("7".to_owned()),
            source: Source::Default,
            variables: vec!["A", "B"],
            description: "What it means.",
        };
        assert_eq!(block(&setting), "group.name = 7 (default)\n    A, B\n    What it means.\n");
        let unset = Setting { value: None, source: Source::Unset, variables: vec![], ..setting };
        assert_eq!(block(&unset), "group.name = - (unset)\n    What it means.\n");
    }
}
