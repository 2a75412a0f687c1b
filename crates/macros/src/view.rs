//! The view: references to the group at each layer, and one accessor per setting.
//!
//! Accessors walk from the highest layer to the lowest and allocate nothing, merges excepted. Layers that do
//! not change any more can be merged into one group, and a view made of that.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::{Expr, Ident, Type, spanned::Spanned};

use crate::parse::{Field, Group, Resolution};

/// Writes the view struct, its constructor, its accessors and its table of settings.
pub(crate) fn generate(group: &Group) -> TokenStream {
    let name = &group.name;
    let view = format_ident!("{}View", name);
    let visibility = &group.visibility;
    let layers: Vec<Ident> = parameters(group);
    let accessors = group.fields.iter().map(|field| accessor(group, field));
    let settings = group.fields.iter().map(|field| settings(group, field));
    let merged = group.fields.iter().map(|field| merged(group, field));
    let (over_parameters, over_layers) = over_merged(group);
    let unset = group.layers.iter().any(|layer| !layer.is_operation()).then(|| {
        quote! {
            static UNSET: ::std::sync::LazyLock<#name> =
                ::std::sync::LazyLock::new(::core::default::Default::default);
        }
    });
    let checks = group.fields.iter().filter_map(|field| nested_layers_check(group, field));
    let summary =
        format!("Resolves [`{name}`] across its layers, each setting when it is asked for.");
    quote! {
        #[doc = #summary]
        #[derive(Clone, Copy, Debug)]
        #visibility struct #view<'a> {
            #(#layers: &'a #name,)*
        }

        #[automatically_derived]
        impl<'a> #view<'a> {
            /// Puts the layers on top of each other, lowest priority first.
            #[must_use]
            pub const fn new(#(#layers: &'a #name),*) -> Self {
                Self { #(#layers),* }
            }

            /// Puts layers that were [`merged`](Self::merged) before under those of a call.
            #[must_use]
            pub fn over_merged(#(#over_parameters),*) -> Self {
                #unset
                Self { #(#over_layers),* }
            }

            /// All layers as one group; what none of them sets stays unset.
            #[must_use]
            pub fn merged(&self) -> #name {
                #name { #(#merged),* }
            }

            #(#accessors)*

            /// Every setting with its value and the layer it came from.
            #[must_use]
            pub fn settings(&self) -> ::std::vec::Vec<::sidereal_driver::options::layering::Setting> {
                let mut table = ::sidereal_driver::options::layering::SettingsTable::default();
                self.describe(&mut table);
                table.into_settings()
            }

            /// Adds the group's settings to a table.
            pub fn describe(&self, table: &mut ::sidereal_driver::options::layering::SettingsTable) {
                #(#settings)*
            }
        }

        #(#checks)*
    }
}

/// Environment first, then the declared layers: the order of `new`, lowest priority first.
fn parameters(group: &Group) -> Vec<Ident> {
    let environment = Ident::new("env", Span::call_site());
    std::iter::once(environment).chain(group.layers.iter().map(|layer| layer.field())).collect()
}

fn accessor(group: &Group, field: &Field) -> TokenStream {
    let Field { name, value, docs, .. } = field;
    let body = match &field.resolution {
        Resolution::Shadow { default, by_value } => {
            shadow(group, field, default.as_deref(), *by_value)
        }
        Resolution::Merge { attribute } => merge(group, field, *attribute),
        Resolution::Nested => nested(group, name, value),
    };
    quote!(#(#docs)* #[must_use] #body)
}

fn shadow(group: &Group, field: &Field, default: Option<&Expr>, by_value: bool) -> TokenStream {
    let Field { name, value, .. } = field;
    let highest_first = parameters(group).into_iter().rev();
    let found = if by_value {
        let mut steps = highest_first.map(|layer| quote!(self.#layer.#name));
        let first = steps.next();
        quote!(#first #(.or(#steps))*)
    } else {
        let mut steps = highest_first.map(|layer| quote!(self.#layer.#name.as_ref()));
        let first = steps.next();
        quote!(#first #(.or(#steps))*)
    };
    match (default, by_value) {
        (None, true) => quote!(pub fn #name(&self) -> ::core::option::Option<#value> { #found }),
        (None, false) => {
            quote!(pub fn #name(&self) -> ::core::option::Option<&'a #value> { #found })
        }
        (Some(default), true) => quote! {
            pub fn #name(&self) -> #value {
                #found.unwrap_or_else(|| #default)
            }
        },
        (Some(default), false) => quote! {
            pub fn #name(&self) -> &'a #value {
                static DEFAULT: ::std::sync::LazyLock<#value> = ::std::sync::LazyLock::new(|| #default);
                #found.unwrap_or_else(|| &*DEFAULT)
            }
        },
    }
}

fn merge(group: &Group, field: &Field, attribute: Span) -> TokenStream {
    let Field { name, value, .. } = field;
    let layers = parameters(group);
    // The bound is checked where the attribute stands, so that the message points there.
    let extend =
        quote_spanned!(attribute=> ::sidereal_driver::options::layering::Merge::extend_from);
    let each = format_ident!("each_{}", name);
    quote! {
        pub fn #name(&self) -> #value {
            let mut merged = <#value as ::core::default::Default>::default();
            #(if let ::core::option::Option::Some(layer) = &self.#layers.#name {
                #extend(&mut merged, layer);
            })*
            merged
        }

        /// The values layer by layer, lowest first, for callers that merge them into a type of their own.
        pub fn #each(&self) -> impl ::core::iter::Iterator<Item = &'a #value> + use<'a> {
            [#(self.#layers.#name.as_ref()),*].into_iter().flatten()
        }
    }
}

/// The parameters of `over_merged`, and what each layer of the view is then: the merged group in the slot of
/// the lowest layer, nothing in those that it replaces, and the call's own.
fn over_merged(group: &Group) -> (Vec<TokenStream>, Vec<TokenStream>) {
    let name = &group.name;
    let mut taken = vec![quote!(merged: &'a #name)];
    let mut layers = vec![quote!(env: merged)];
    for layer in &group.layers {
        let field = layer.field();
        if layer.is_operation() {
            taken.push(quote!(#field: &'a #name));
            layers.push(quote!(#field));
        } else {
            layers.push(quote!(#field: &*UNSET));
        }
    }
    (taken, layers)
}

/// A field of the merged group: what the highest layer that has it says, or all of them together.
fn merged(group: &Group, field: &Field) -> TokenStream {
    let name = &field.name;
    let layers = parameters(group);
    let value = match field.resolution {
        Resolution::Shadow { .. } => {
            let highest_first = layers.iter().rev();
            quote!(::core::option::Option::None
                #(.or_else(|| ::core::clone::Clone::clone(&self.#highest_first.#name)))*)
        }
        Resolution::Merge { .. } => {
            quote!((false #(|| self.#layers.#name.is_some())*).then(|| self.#name()))
        }
        Resolution::Nested => {
            quote!((false #(|| self.#layers.#name.is_some())*).then(|| self.#name().merged()))
        }
    };
    quote!(#name: #value)
}

fn nested(group: &Group, name: &Ident, value: &Type) -> TokenStream {
    let view = view_of(value);
    let layers = parameters(group);
    quote! {
        pub fn #name(&self) -> #view<'a> {
            static UNSET: ::std::sync::LazyLock<#value> = ::std::sync::LazyLock::new(::core::default::Default::default);
            #view::new(#(self.#layers.#name.as_ref().unwrap_or_else(|| &*UNSET)),*)
        }
    }
}

/// `ConnectionPoolOptions` to `ConnectionPoolOptionsView`, along the same path.
fn view_of(value: &Type) -> Type {
    let mut view = value.clone();
    if let Type::Path(path) = &mut view
        && let Some(last) = path.path.segments.last_mut()
    {
        last.ident = format_ident!("{}View", last.ident);
    }
    view
}

fn nested_layers_check(group: &Group, field: &Field) -> Option<TokenStream> {
    let Resolution::Nested = field.resolution else {
        return None;
    };
    let (parent, child) = (&group.name, &field.value);
    let message =
        format!("the nested group `{}` must have the same layers as its parent", field.name);
    Some(quote_spanned! {child.span()=>
        const _: () = ::core::assert!(
            ::sidereal_driver::options::layering::same_layers(
                <#parent as ::sidereal_driver::options::layering::OptionGroup>::LAYERS,
                <#child as ::sidereal_driver::options::layering::OptionGroup>::LAYERS,
            ),
            #message
        );
    })
}

fn settings(group: &Group, field: &Field) -> TokenStream {
    let Field { name, variables, redacted, .. } = field;
    let (text, description) = (name.to_string(), field.description());
    if matches!(field.resolution, Resolution::Nested) {
        return quote! {
            table.nested(#text, |table| self.#name().describe(table));
        };
    }
    let shown = if *redacted {
        quote!(|_| ::std::string::String::from("(redacted)"))
    } else {
        quote!(|value| ::std::format!("{value:?}"))
    };
    let explicit = group.layers.iter().map(|layer| (layer.variant(), layer.field()));
    let layers =
        std::iter::once((format_ident!("Environment"), format_ident!("env"))).chain(explicit);
    let values = layers.map(|(variant, layer)| {
        quote!((::sidereal_driver::options::layering::Layer::#variant, self.#layer.#name.as_ref().map(#shown)))
    });
    let default = match &field.resolution {
        Resolution::Shadow { default: Some(default), .. } => {
            let value = &field.value;
            quote!({
                let default: #value = #default;
                ::core::option::Option::Some(::core::option::Option::Some(&default).map(#shown).unwrap_or_default())
            })
        }
        Resolution::Shadow { default: None, .. }
        | Resolution::Merge { .. }
        | Resolution::Nested => {
            quote!(::core::option::Option::None)
        }
    };
    let add = match field.resolution {
        Resolution::Merge { .. } => quote!(merged),
        Resolution::Shadow { .. } | Resolution::Nested => quote!(shadowed),
    };
    quote! {
        table.#add(
            ::sidereal_driver::options::layering::Declaration {
                name: #text,
                variables: &[#(#variables),*],
                description: #description,
            },
            [#(#values),*],
            #default,
        );
    }
}
