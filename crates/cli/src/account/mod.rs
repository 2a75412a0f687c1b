//! Which account a command works on, and the names and keys of what is in it.
//!
//! [`AccountArguments`] is flattened into a command's own arguments; [`AccountArguments::connect`] gives the client.
//! What flags and variables mean together is decided by `selection.rs`, without reading any file.

mod arguments;
mod names;
mod partition_key;
mod selection;

pub(crate) use arguments::{AccountArguments, read_key};
pub(crate) use names::{ContainerName, ItemScope};
pub(crate) use partition_key::KeyArguments;
pub(crate) use selection::account_settings;
