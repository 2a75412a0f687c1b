//! `#[derive(CosmosOptions)]`: a setting is declared once, as a field, and everything else about it
//! is written by this macro.
//!
//! The generated code names `::sidereal_driver::options::layering`, where the run-time half lives:
//! parsing of environment values, the layers, and the table that tells where a value came from. This
//! crate holds syntax only: `parse` reads the attributes into a `Group`, and one module writes each
//! thing that is generated from it.

mod builder;
mod env;
mod parse;
mod resolved;
mod view;

use proc_macro::TokenStream;
use quote::quote;
use syn::{DeriveInput, parse_macro_input};

/// Turns a struct of `Option<T>` fields into an option group.
///
/// ```
/// use sidereal_driver::CosmosOptions;
/// use std::time::Duration;
///
/// /// Timeouts of a request.
/// #[derive(Clone, Debug, CosmosOptions)]
/// #[options(layers(runtime, account))]
/// pub struct TimeoutOptions {
///     /// The longest wait for one response.
///     #[option(env = "AZURE_COSMOS_RESPONSE_TIMEOUT_MS", default = Duration::from_secs(5))]
///     pub response_timeout: Option<Duration>,
/// }
///
/// let environment = TimeoutOptions::from_lookup(|_| Some("250".into()))?;
/// let runtime = TimeoutOptions::default();
/// let account = TimeoutOptions::default().with_response_timeout(Duration::from_secs(1));
///
/// let view = TimeoutOptionsView::new(&environment, &runtime, &account);
/// assert_eq!(view.response_timeout(), Duration::from_secs(1));
/// # Ok::<(), sidereal_driver::options::EnvironmentError>(())
/// ```
///
/// # The struct
///
/// `#[options(layers(runtime, account, operation))]` names the layers at which the group can be set.
/// The environment is below all of them and is always there.
///
/// `#[options(layers(…), resolved = pub(crate) TimeoutSettings)]` also writes a struct of the resolved values under that name,
/// with a field per setting, and the view's `resolved` that makes it: for code that keeps the values.
///
/// # The fields
///
/// | attribute | meaning |
/// |---|---|
/// | `#[option(env = "NAME")]` | read from this variable by `from_env` |
/// | `#[option(env = "NAME", alias = "OTHER")]` | also from this one; may be repeated; two that disagree are an error |
/// | `#[option(default = expr)]` | the value where no layer sets one; the accessor then returns `T`, not `Option<T>` |
/// | `#[option(merge = "extend")]` | the layers' collections are merged, higher layers overwriting per key |
/// | `#[option(nested)]` | the field is itself a group with the same layers |
/// | `#[option(copy)]` | the type is `Copy`, and the macro cannot see that from its name: return it by value |
/// | `#[option(redact)]` | the value never appears in the table of settings |
/// | `#[option(resolved = T)]` | the field of the struct of resolved values is a `T`, made by `Into` |
///
/// # What is generated
///
/// `Default` (nothing set), a `with_*` builder per field, `from_env` and `from_lookup`, and the
/// `…View` that resolves each setting: operation, then account, then runtime, then environment, then
/// default.
#[proc_macro_derive(CosmosOptions, attributes(options, option))]
pub fn derive_cosmos_options(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    match parse::Group::from_input(&input) {
        Ok(group) => {
            let builder = builder::generate(&group);
            let env = env::generate(&group);
            let view = view::generate(&group);
            let resolved = resolved::generate(&group);
            quote!(#builder #env #view #resolved).into()
        }
        Err(error) => error.into_compile_error().into(),
    }
}
