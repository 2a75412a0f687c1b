//! `from_env`, `from_lookup`, and the group's half of reading several groups at once.
//!
//! The shape of a type decides how its text is read: lists split at commas, durations know units,
//! numbers say their range, and everything else goes through `FromStr`.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::{Type, spanned::Spanned};

use crate::parse::{Field, Group, Resolution, single_argument, type_name};

/// Writes the `OptionGroup` implementation and the two constructors.
pub(crate) fn generate(group: &Group) -> TokenStream {
    let name = &group.name;
    let reads = group.fields.iter().map(read);
    let unset = group.fields.iter().map(|field| {
        let name = &field.name;
        quote!(self.#name.is_none())
    });
    let variables = group.fields.iter().map(variables);
    let layers = group.layers.iter().map(|layer| layer.variant());
    quote! {
        #[automatically_derived]
        impl ::sidereal_driver::options::layering::OptionGroup for #name {
            const LAYERS: &'static [::sidereal_driver::options::layering::Layer] =
                &[#(::sidereal_driver::options::layering::Layer::#layers,)*];

            fn read(reader: &mut ::sidereal_driver::options::layering::EnvironmentReader<'_>) -> Self {
                Self { #(#reads)* }
            }

            fn is_unset(&self) -> bool {
                true #(&& #unset)*
            }

            fn variables() -> ::std::vec::Vec<&'static str> {
                let mut variables = ::std::vec::Vec::new();
                #(#variables)*
                variables
            }
        }

        #[automatically_derived]
        impl #name {
            /// Reads the settings that have a variable from the process environment.
            ///
            /// # Errors
            ///
            /// Every malformed variable is reported, with its value and what was expected.
            pub fn from_env() -> ::core::result::Result<Self, ::sidereal_driver::options::layering::EnvironmentError> {
                Self::from_lookup(|name| ::std::env::var_os(name))
            }

            /// Reads the settings that have a variable through `lookup`.
            ///
            /// # Errors
            ///
            /// Every malformed variable is reported, with its value and what was expected.
            pub fn from_lookup(
                lookup: impl ::core::ops::Fn(&str) -> ::core::option::Option<::std::ffi::OsString>,
            ) -> ::core::result::Result<Self, ::sidereal_driver::options::layering::EnvironmentError> {
                let mut reader = ::sidereal_driver::options::layering::EnvironmentReader::new(&lookup);
                let group = <Self as ::sidereal_driver::options::layering::OptionGroup>::read(&mut reader);
                reader.finish(group)
            }
        }
    }
}

fn read(field: &Field) -> TokenStream {
    let Field { name, value, variables, .. } = field;
    if matches!(field.resolution, Resolution::Nested) {
        return quote!(#name: reader.nested::<#value>(),);
    }
    if variables.is_empty() {
        return quote!(#name: ::core::option::Option::None,);
    }
    let parser = parser(value);
    // With aliases the values are compared; without, the type need not be comparable.
    let method = if variables.len() == 1 { quote!(one) } else { quote!(any) };
    let names =
        if variables.len() == 1 { quote!(#(#variables)*) } else { quote!(&[#(#variables),*]) };
    quote_spanned!(value.span()=> #name: reader.#method(#names, #parser),)
}

fn parser(value: &Type) -> TokenStream {
    if let Some(item) =
        ["Vec", "HashSet", "BTreeSet"].into_iter().find_map(|name| single_argument(value, name))
    {
        let item = parser(item);
        return quote!(|variable, text| ::sidereal_driver::options::layering::parse::list(variable, text, #item));
    }
    let function = match type_name(value).as_deref() {
        Some("Duration") => quote!(duration),
        Some("bool") => quote!(boolean),
        Some("f32" | "f64") => quote!(number::<#value>),
        Some(
            "u8" | "u16" | "u32" | "u64" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize"
            | "NonZeroU32",
        ) => quote!(integer::<#value>),
        _ => quote_spanned!(value.span()=> text::<#value>),
    };
    quote!(::sidereal_driver::options::layering::parse::#function)
}

fn variables(field: &Field) -> TokenStream {
    let Field { value, variables, .. } = field;
    if matches!(field.resolution, Resolution::Nested) {
        return quote! {
            variables.extend(<#value as ::sidereal_driver::options::layering::OptionGroup>::variables());
        };
    }
    if variables.is_empty() {
        return TokenStream::new();
    }
    quote!(variables.extend([#(#variables),*]);)
}
