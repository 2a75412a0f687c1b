//! The struct of resolved values: one field per setting, without layers, for code that keeps the values.
//!
//! It is made by the view's `resolved`, and not by `From`: code that adjusts what it keeps converts by itself.

use proc_macro2::TokenStream;
use quote::{format_ident, quote};

use crate::parse::{Field, Group, Resolution, Resolved};

/// Writes the struct and the view's method that makes it, if the group asks for one.
pub(crate) fn generate(group: &Group) -> TokenStream {
    let Some(Resolved { visibility, name }) = &group.resolved else { return TokenStream::new() };
    let (options, view) = (&group.name, format_ident!("{}View", group.name));
    let fields = group.fields.iter().map(declared);
    let values = group.fields.iter().map(value);
    let summary = format!("The values of [`{options}`], resolved across its layers.");
    quote! {
        #[doc = #summary]
        #[derive(Clone, Debug, PartialEq)]
        #[allow(unreachable_pub, reason = "who may name it is decided by what exports it")]
        #visibility struct #name {
            #(#fields,)*
        }

        #[automatically_derived]
        impl #view<'_> {
            /// The values of all settings.
            #[must_use]
            pub(crate) fn resolved(&self) -> #name {
                #name { #(#values,)* }
            }
        }
    }
}

fn declared(field: &Field) -> TokenStream {
    let Field { name, docs, value, .. } = field;
    let value = field.resolved.as_ref().unwrap_or(value);
    match has_value(field) {
        true => quote!(#(#docs)* pub #name: #value),
        false => quote!(#(#docs)* pub #name: ::core::option::Option<#value>),
    }
}

/// The accessor's value, owned, and converted where the field says so.
fn value(field: &Field) -> TokenStream {
    let name = &field.name;
    let accessed = match (&field.resolution, has_value(field)) {
        (Resolution::Shadow { by_value: false, .. }, true) => {
            quote!(::core::clone::Clone::clone(self.#name()))
        }
        (Resolution::Shadow { by_value: false, .. }, false) => quote!(self.#name().cloned()),
        (Resolution::Nested, _) => quote!(self.#name().merged()),
        (Resolution::Shadow { .. } | Resolution::Merge { .. }, _) => quote!(self.#name()),
    };
    let converted = match (&field.resolved, has_value(field)) {
        (None, _) => accessed,
        (Some(_), true) => quote!(::core::convert::Into::into(#accessed)),
        (Some(_), false) => quote!((#accessed).map(::core::convert::Into::into)),
    };
    quote!(#name: #converted)
}

/// Whether some value is always in force: a default, or what layers merge to.
fn has_value(field: &Field) -> bool {
    match &field.resolution {
        Resolution::Shadow { default, .. } => default.is_some(),
        Resolution::Merge { .. } | Resolution::Nested => true,
    }
}
