//! From the options of a call to those of the driver's operation, and its execution.

use std::sync::Arc;

use sidereal_driver::options::{
    ClientMethodOptions, CreateContainerOptions, CreateDatabaseOptions, DeleteContainerOptions,
    DeleteDatabaseOptions, ItemOptions, QueryContainersOptions, QueryDatabasesOptions,
    ReadContainerOptions, ReadDatabaseOptions, ReplaceContainerOptions, ThroughputOptions,
};
use sidereal_driver::{CosmosDriver, CosmosOperation, OperationOptions};

use crate::{Response, Result};

/// Executes an operation, and says what its response holds.
pub(crate) async fn execute<T>(
    driver: &Arc<CosmosDriver>,
    operation: &CosmosOperation,
    options: &OperationOptions<'_>,
) -> Result<Response<T>> {
    Ok(Response::new(driver.execute_operation(operation, options).await?))
}

/// The options of a call, as the driver takes them.
pub(crate) fn item_options(options: Option<ItemOptions<'_>>) -> OperationOptions<'_> {
    options.map_or_else(OperationOptions::default, |options| {
        let ItemOptions { method_options, request, availability, write, .. } = options;
        OperationOptions { method_options, request, availability, write }
    })
}

/// The options of calls on resources other than items: a deadline, an activity id, a way to cancel.
pub(crate) trait MethodOptions<'a>: Default {
    fn method_options(self) -> ClientMethodOptions<'a>;
}

macro_rules! method_options {
    ($($name:ident),*) => {
        $(impl<'a> MethodOptions<'a> for $name<'a> {
            fn method_options(self) -> ClientMethodOptions<'a> {
                self.method_options
            }
        })*
    };
}

method_options!(
    CreateContainerOptions,
    CreateDatabaseOptions,
    DeleteContainerOptions,
    DeleteDatabaseOptions,
    QueryContainersOptions,
    QueryDatabasesOptions,
    ReadContainerOptions,
    ReadDatabaseOptions,
    ReplaceContainerOptions,
    ThroughputOptions
);

/// See [`item_options`].
pub(crate) fn resource_options<'a>(
    options: Option<impl MethodOptions<'a>>,
) -> OperationOptions<'a> {
    OperationOptions::default().with_method_options(options.unwrap_or_default().method_options())
}
