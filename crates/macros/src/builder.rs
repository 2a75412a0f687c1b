//! `Default` and the `with_*` methods.
//!
//! A builder takes what is convenient to write: a plain value for numbers and durations, anything
//! that converts for text and enums, any sequence of convertible items for lists and sets.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::Type;

use crate::parse::{Field, Group, Resolution, single_argument};

/// Writes `impl Default` and one builder method per field.
pub(crate) fn generate(group: &Group) -> TokenStream {
    let name = &group.name;
    let fields = group.fields.iter().map(|field| &field.name);
    let builders = group.fields.iter().map(builder);
    quote! {
        #[automatically_derived]
        impl ::core::default::Default for #name {
            fn default() -> Self {
                Self { #(#fields: ::core::option::Option::None,)* }
            }
        }

        #[automatically_derived]
        impl #name {
            #(#builders)*
        }
    }
}

fn builder(field: &Field) -> TokenStream {
    let Field { name, docs, .. } = field;
    let method = format_ident!("with_{}", name);
    let (parameter, value) = parameter(field);
    quote! {
        #(#docs)*
        #[must_use]
        pub fn #method(mut self, #name: #parameter) -> Self {
            self.#name = ::core::option::Option::Some(#value);
            self
        }
    }
}

fn parameter(field: &Field) -> (TokenStream, TokenStream) {
    let Field { name, value, .. } = field;
    let by_value = matches!(field.resolution, Resolution::Shadow { by_value: true, .. });
    if by_value || matches!(field.resolution, Resolution::Nested) {
        return (quote!(#value), quote!(#name));
    }
    if let Some(item) = sequence_item(value) {
        return (
            quote!(impl ::core::iter::IntoIterator<Item = impl ::core::convert::Into<#item>>),
            quote!(::core::iter::IntoIterator::into_iter(#name).map(::core::convert::Into::into).collect()),
        );
    }
    (quote!(impl ::core::convert::Into<#value>), quote!(::core::convert::Into::into(#name)))
}

fn sequence_item(value: &Type) -> Option<&Type> {
    ["Vec", "HashSet", "BTreeSet"].into_iter().find_map(|name| single_argument(value, name))
}
