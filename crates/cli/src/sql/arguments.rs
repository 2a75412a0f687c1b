//! The flags of `sidereal sql`.

use clap::Args;
use serde_json::Value;
use sidereal::query::ContinuationToken;

use crate::account::{AccountArguments, ContainerName, KeyArguments};
use crate::command::FormatArguments;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal sql shop/orders \"SELECT * FROM c WHERE c.total > @least\" --param least=100
  sidereal sql shop/orders \"SELECT VALUE COUNT(1) FROM c\" --partition-key contoso
  sidereal sql shop/orders \"SELECT * FROM c\" --max-items 100
  sidereal sql shop/orders            (a prompt; \\help says what it knows)
  sidereal sql shop/orders < queries.sql

Rows go to standard output; what they cost, and the token that continues a query, to standard error.")]
pub(crate) struct SqlArguments {
    #[command(flatten)]
    pub(super) account: AccountArguments,
    #[command(flatten)]
    pub(super) format: FormatArguments,

    /// The container, as database/container; at a prompt it can be chosen later, with \use.
    pub(super) container: Option<ContainerName>,

    /// The query [default: statements from standard input, each ended by a semicolon].
    pub(super) query: Option<String>,

    /// Parameter of the query, as NAME=VALUE; JSON where it is JSON, text otherwise. May be repeated.
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parameter)]
    pub(super) param: Vec<(String, Value)>,

    #[command(flatten)]
    pub(super) key: KeyArguments,

    /// Stop after so many rows and print the token that continues [default: 100 at a prompt].
    #[arg(long, short = 'n', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) max_items: Option<u32>,

    /// Rows of a page at most: what is asked for at once, and what a table is made of.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) page_size: Option<u32>,

    /// Continue where a query with --max-items stopped; its text and parameters must be the same.
    #[arg(long, value_name = "TOKEN", requires = "query")]
    pub(super) continuation: Option<ContinuationToken>,

    /// Show the system's properties (_rid, _self, _etag, _attachments, _ts) in tables too.
    #[arg(long)]
    pub(super) system: bool,

    /// Print what happened attempt by attempt, as JSON, to standard error.
    #[arg(long)]
    pub(super) diagnostics: bool,

    /// Do not print what a query cost.
    #[arg(long, short)]
    pub(super) quiet: bool,
}

/// A parameter on the command line or at the prompt.
pub(super) fn parameter(text: &str) -> Result<(String, Value), String> {
    let expected = || "expected a name and a value, such as least=100".to_owned();
    let (name, value) = text.split_once('=').ok_or_else(expected)?;
    let name = name.trim().trim_start_matches('@');
    if name.is_empty() || !name.chars().all(|it| it.is_alphanumeric() || it == '_') {
        return Err(expected());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_parameter_is_a_name_and_json_or_text() {
        for (text, name, value) in [
            ("least=100", "least", json!(100)),
            ("@name=contoso", "name", json!("contoso")),
            ("name=\"42\"", "name", json!("42")),
            ("list=[1,2]", "list", json!([1, 2])),
            ("equation=a=b", "equation", json!("a=b")),
            ("empty=", "empty", json!("")),
        ] {
            assert_eq!(parameter(text), Ok((name.to_owned(), value)), "{text}");
        }
        for wrong in ["least", "=1", "a b=1", ""] {
            assert!(parameter(wrong).is_err(), "{wrong}");
        }
    }
}
