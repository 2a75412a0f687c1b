//! `sidereal item`: one item at a time, and all of a container as JSON lines.

mod export;
mod import;
mod lines;
mod patch;
mod point;

pub(crate) use import::without_operation;
pub(crate) use point::check_item;

use clap::{Args, Subcommand};

use crate::account::AccountArguments;
use crate::command::{DiagnosticsArguments, block_on};
use crate::failure::Failure;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal item get shop/orders 4711 --partition-key contoso
  sidereal item get shop/orders 4711 --partition-key contoso --diagnostics
  sidereal item put shop/orders '{\"id\":\"4711\",\"customer\":\"contoso\",\"total\":120}'
  sidereal item put shop/orders @order.json
  sidereal item create shop/orders - < order.json
  sidereal item patch shop/orders 4711 --partition-key contoso --set /status='\"shipped\"' --increment /total=5
  sidereal item delete shop/orders 4711 --partition-key contoso
  sidereal item export shop/orders orders.jsonl
  sidereal item export shop/orders --query \"SELECT * FROM c WHERE c.total > 100\" > large.jsonl
  sidereal item import shop/orders orders.jsonl
  zcat orders.jsonl.gz | sidereal item import shop/orders -")]
pub(crate) struct ItemArguments {
    #[command(flatten)]
    account: AccountArguments,
    #[command(flatten)]
    diagnostics: DiagnosticsArguments,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Print an item.
    Get(point::GetArguments),
    /// Write an item, whether there is one of its id or not.
    #[command(visible_alias = "upsert")]
    Put(point::PutArguments),
    /// Write an item; there must be none of its id.
    Create(point::CreateArguments),
    /// Change parts of an item.
    ///
    /// Changes are made in this order: set, add, replace, increment, move, remove. All of them or none.
    Patch(Box<patch::PatchArguments>),
    /// Delete an item.
    #[command(visible_alias = "rm")]
    Delete(point::DeleteArguments),
    /// Upsert items from JSON lines, in bulk.
    ///
    /// A line that is no item, and an item that the service refuses, are named with their line and their reason; the
    /// others are imported all the same, and the exit status is 8.
    Import(import::ImportArguments),
    /// Write the items of a container as JSON lines, without what the service added.
    Export(export::ExportArguments),
}

pub(crate) fn run(arguments: &ItemArguments) -> Result<(), Failure> {
    block_on(async {
        let client = arguments.account.connect()?;
        let told = arguments.diagnostics;
        match &arguments.action {
            Action::Get(arguments) => point::get(&client, arguments, told).await,
            Action::Put(arguments) => point::put(&client, arguments, told).await,
            Action::Create(arguments) => point::create(&client, arguments, told).await,
            Action::Patch(arguments) => patch::patch(&client, arguments, told).await,
            Action::Delete(arguments) => point::delete(&client, arguments, told).await,
            Action::Import(arguments) => import::import(&client, arguments).await,
            Action::Export(arguments) => export::export(&client, arguments).await,
        }
    })
}
