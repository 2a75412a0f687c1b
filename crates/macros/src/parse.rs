//! Attributes to a [`Group`]: the only module that parses syntax, and the only one that can reject it.
//!
//! Every error points at the offending tokens and says what to write instead. All problems of a
//! struct are reported in one go.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use proc_macro2::Span;
use syn::{
    Attribute, Data, DeriveInput, Expr, Fields, GenericArgument, Ident, Lit, LitStr, Meta,
    MetaNameValue, PathArguments, Type, Visibility, meta::ParseNestedMeta, spanned::Spanned,
};

/// An option group: a struct whose fields are all `Option<T>`.
pub(crate) struct Group {
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    /// Lowest priority first: runtime, account, operation.
    pub(crate) layers: Vec<Layer>,
    /// The struct of resolved values, if one is asked for.
    pub(crate) resolved: Option<Resolved>,
    pub(crate) fields: Vec<Field>,
}

/// The name of the struct of resolved values, and who sees it.
pub(crate) struct Resolved {
    pub(crate) visibility: Visibility,
    pub(crate) name: Ident,
}

/// One setting, or one nested group of settings.
pub(crate) struct Field {
    pub(crate) name: Ident,
    /// The `T` of `Option<T>`.
    pub(crate) value: Type,
    pub(crate) docs: Vec<Attribute>,
    /// The variable and its aliases, in the order they are tried; empty without `env`.
    pub(crate) variables: Vec<LitStr>,
    pub(crate) redacted: bool,
    pub(crate) resolution: Resolution,
    /// The type that the resolved value is converted into, if it is another.
    pub(crate) resolved: Option<Type>,
}

impl Field {
    /// The documentation as one line of text.
    pub(crate) fn description(&self) -> String {
        let line = |attribute: &Attribute| match &attribute.meta {
            Meta::NameValue(MetaNameValue { value: Expr::Lit(literal), .. }) => {
                match &literal.lit {
                    Lit::Str(text) => Some(text.value().trim().to_owned()),
                    _ => None,
                }
            }
            _ => None,
        };
        let lines: Vec<String> = self.docs.iter().filter_map(line).collect();
        lines.join(" ").trim().to_owned()
    }
}

/// How the values of several layers become one.
pub(crate) enum Resolution {
    /// The highest layer that has a value wins.
    Shadow { default: Option<Box<Expr>>, by_value: bool },
    /// Collections are merged from the lowest layer to the highest.
    Merge { attribute: Span },
    /// The field's own view resolves it.
    Nested,
}

/// A layer that users set explicitly, ordered from lowest priority to highest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Runtime,
    Account,
    Operation,
}

impl Layer {
    const NAMES: &str = "`runtime`, `account` and `operation`";

    /// The name of the view's field and parameter.
    pub(crate) fn field(self) -> Ident {
        Ident::new(self.name(), Span::call_site())
    }

    /// The variant of the run-time `Layer`.
    pub(crate) fn variant(self) -> Ident {
        let name = match self {
            Self::Runtime => "Runtime",
            Self::Account => "Account",
            Self::Operation => "Operation",
        };
        Ident::new(name, Span::call_site())
    }

    /// Whether it is that of one call.
    pub(crate) fn is_operation(self) -> bool {
        matches!(self, Self::Operation)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Runtime => "runtime",
            Self::Account => "account",
            Self::Operation => "operation",
        }
    }

    fn from_ident(ident: &Ident) -> Option<Self> {
        [Self::Runtime, Self::Account, Self::Operation]
            .into_iter()
            .find(|layer| ident == layer.name())
    }
}

impl Group {
    pub(crate) fn from_input(input: &DeriveInput) -> syn::Result<Self> {
        let mut problems = Problems::default();
        let (layers, resolved) = problems.keep(parse_struct(input)).unwrap_or_default();
        let fields =
            problems.keep(parse_fields(input, &mut Problems::default())).unwrap_or_default();
        problems.check(refuse_generics(input));
        problems.check(refuse_shared_variables(&fields));
        problems.finish(Self {
            name: input.ident.clone(),
            visibility: input.vis.clone(),
            layers,
            resolved,
            fields,
        })
    }
}

/// Collects errors so that a struct with three mistakes is corrected in one round.
#[derive(Default)]
struct Problems(Option<syn::Error>);

impl Problems {
    fn keep<T>(&mut self, result: syn::Result<T>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                match &mut self.0 {
                    Some(first) => first.combine(error),
                    None => self.0 = Some(error),
                }
                None
            }
        }
    }

    fn check(&mut self, result: syn::Result<()>) {
        self.keep(result);
    }

    fn finish<T>(&mut self, value: T) -> syn::Result<T> {
        self.0.take().map_or(Ok(value), Err)
    }
}

fn refuse_generics(input: &DeriveInput) -> syn::Result<()> {
    if input.generics.params.is_empty() {
        return Ok(());
    }
    let message = "an option group has no generic parameters: the same type is used at every layer";
    Err(syn::Error::new(input.generics.span(), message))
}

/// The layers, and the struct of resolved values if one is asked for.
fn parse_struct(input: &DeriveInput) -> syn::Result<(Vec<Layer>, Option<Resolved>)> {
    let mut layers: Vec<Layer> = Vec::new();
    let mut resolved = None;
    let mut declared = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("options")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("resolved") {
                let span = meta.path.span();
                let value = meta.value()?;
                let (visibility, name) = (value.parse()?, value.parse()?);
                return once(&mut resolved, Resolved { visibility, name }, span);
            }
            if !meta.path.is_ident("layers") {
                return Err(meta.error("unknown key; write `#[options(layers(…))]`"));
            }
            declared = true;
            meta.parse_nested_meta(|layer| add_layer(&mut layers, &layer))
        })?;
    }
    if !declared {
        let message = "an option group names its layers; write `#[options(layers(runtime, account))]` \
                       or another selection of `runtime`, `account` and `operation`";
        return Err(syn::Error::new(input.ident.span(), message));
    }
    if layers.is_empty() {
        let message = format!("a group has at least one layer; the layers are {}", Layer::NAMES);
        return Err(syn::Error::new(input.ident.span(), message));
    }
    layers.sort_unstable();
    Ok((layers, resolved))
}

fn add_layer(layers: &mut Vec<Layer>, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
    let layer = meta.path.get_ident().and_then(Layer::from_ident).ok_or_else(|| {
        let environment = meta.path.is_ident("environment") || meta.path.is_ident("env");
        meta.error(if environment {
            format!("the environment is always a layer; name only {}", Layer::NAMES)
        } else {
            format!("unknown layer; the layers are {}", Layer::NAMES)
        })
    })?;
    if layers.contains(&layer) {
        return Err(meta.error("this layer is named twice; name each layer once"));
    }
    layers.push(layer);
    Ok(())
}

fn parse_fields(input: &DeriveInput, problems: &mut Problems) -> syn::Result<Vec<Field>> {
    let Data::Struct(data) = &input.data else {
        return Err(syn::Error::new(
            input.ident.span(),
            "an option group is a struct with named fields",
        ));
    };
    let Fields::Named(named) = &data.fields else {
        return Err(syn::Error::new(
            input.ident.span(),
            "an option group is a struct with named fields",
        ));
    };
    let fields = named.named.iter().filter_map(|field| problems.keep(parse_field(field))).collect();
    problems.finish(fields)
}

fn parse_field(field: &syn::Field) -> syn::Result<Field> {
    let name = field.ident.clone().expect("the fields of a named struct have names");
    let mut keys = Keys::default();
    for attribute in field.attrs.iter().filter(|attribute| attribute.path().is_ident("option")) {
        attribute.parse_nested_meta(|meta| keys.read(&meta))?;
    }
    let value = value_of_option(&field.ty)?;
    let resolution = keys.resolution(&value)?;
    Ok(Field {
        name,
        docs: field
            .attrs
            .iter()
            .filter(|attribute| attribute.path().is_ident("doc"))
            .cloned()
            .collect(),
        variables: keys
            .env
            .into_iter()
            .chain(keys.aliases.into_iter().map(|(_, name)| name))
            .collect(),
        redacted: keys.redact.is_some(),
        resolution,
        resolved: keys.resolved,
        value,
    })
}

/// The keys of `#[option(…)]`, with the span of each for the messages.
#[derive(Default)]
struct Keys {
    env: Option<LitStr>,
    aliases: Vec<(Span, LitStr)>,
    default: Option<(Span, Box<Expr>)>,
    merge: Option<Span>,
    nested: Option<Span>,
    copy: Option<Span>,
    redact: Option<Span>,
    resolved: Option<Type>,
}

impl Keys {
    fn read(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let span = meta.path.span();
        let Some(key) = meta.path.get_ident() else {
            return Err(unknown_key(meta));
        };
        match key.to_string().as_str() {
            "env" => once(&mut self.env, variable_name(meta)?, span),
            "alias" => {
                self.aliases.push((span, variable_name(meta)?));
                Ok(())
            }
            "default" => once(&mut self.default, (span, Box::new(meta.value()?.parse()?)), span),
            "merge" => {
                let strategy: LitStr = meta.value()?.parse()?;
                if strategy.value() != "extend" {
                    let message = "the only way to merge is `merge = \"extend\"`";
                    return Err(syn::Error::new(strategy.span(), message));
                }
                once(&mut self.merge, span, span)
            }
            "nested" => once(&mut self.nested, span, span),
            "copy" => once(&mut self.copy, span, span),
            "redact" => once(&mut self.redact, span, span),
            "resolved" => once(&mut self.resolved, meta.value()?.parse()?, span),
            _ => Err(unknown_key(meta)),
        }
    }

    fn resolution(&mut self, value: &Type) -> syn::Result<Resolution> {
        if let (None, Some((span, _))) = (&self.env, self.aliases.first()) {
            let message = "`alias` is a second name for `env`; write `env = \"…\", alias = \"…\"`";
            return Err(syn::Error::new(*span, message));
        }
        if let Some(nested) = self.nested {
            return self.refuse_beside_nested(nested).map(|()| Resolution::Nested);
        }
        if let Some(attribute) = self.merge {
            if let Some((span, _)) = self.default {
                let message =
                    "a merged collection starts empty and has no `default`; remove one of the two";
                return Err(syn::Error::new(span, message));
            }
            return Ok(Resolution::Merge { attribute });
        }
        let default = self.default.take().map(|(_, expression)| expression);
        Ok(Resolution::Shadow { default, by_value: self.copy.is_some() || is_known_copy(value) })
    }

    fn refuse_beside_nested(&self, nested: Span) -> syn::Result<()> {
        if self.env.is_some() {
            let message = "a nested group has no variable of its own; \
                           put `env` on the fields of the nested group";
            return Err(syn::Error::new(nested, message));
        }
        if self.merge.is_some() || self.default.is_some() || self.copy.is_some() {
            let message =
                "`nested` stands alone: the fields of the nested group say how they resolve";
            return Err(syn::Error::new(nested, message));
        }
        Ok(())
    }
}

fn once<T>(slot: &mut Option<T>, value: T, span: Span) -> syn::Result<()> {
    if slot.replace(value).is_some() {
        return Err(syn::Error::new(span, "this key is given twice; give it once"));
    }
    Ok(())
}

fn unknown_key(meta: &ParseNestedMeta<'_>) -> syn::Error {
    meta.error(
        "unknown key; the keys are `env = \"…\"`, `alias = \"…\"`, `default = …`, \
         `merge = \"extend\"`, `nested`, `copy`, `redact` and `resolved = …`",
    )
}

fn variable_name(meta: &ParseNestedMeta<'_>) -> syn::Result<LitStr> {
    let name: LitStr = meta.value()?.parse()?;
    let text = name.value();
    let well_formed = !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if well_formed {
        return Ok(name);
    }
    let message = "a variable name has capital letters, digits and underscores, \
                   like \"AZURE_COSMOS_REQUEST_TIMEOUT\"";
    Err(syn::Error::new(name.span(), message))
}

fn refuse_shared_variables(fields: &[Field]) -> syn::Result<()> {
    let mut owners: HashMap<String, &Ident> = HashMap::new();
    let mut problems = Problems::default();
    for field in fields {
        for variable in &field.variables {
            match owners.entry(variable.value()) {
                Entry::Vacant(entry) => {
                    entry.insert(&field.name);
                }
                Entry::Occupied(entry) => {
                    let owner = entry.get();
                    let message = format!(
                        "this variable already belongs to `{owner}`; give each setting its own"
                    );
                    problems.check(Err(syn::Error::new(variable.span(), message)));
                }
            }
        }
    }
    problems.finish(())
}

/// The `T` of `Option<T>`.
fn value_of_option(ty: &Type) -> syn::Result<Type> {
    if let Some(value) = single_argument(ty, "Option") {
        return Ok(value.clone());
    }
    let written = quote::quote!(#ty).to_string().replace(' ', "");
    let message = format!(
        "a setting can be absent at a layer, so its type is an `Option`; write `Option<{written}>`"
    );
    Err(syn::Error::new(ty.span(), message))
}

/// The `T` of `Name<T>`, whatever path leads to `Name`.
pub(crate) fn single_argument<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let last = path.path.segments.last().filter(|segment| segment.ident == name)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else {
        return None;
    };
    match arguments.args.first() {
        Some(GenericArgument::Type(inner)) if arguments.args.len() == 1 => Some(inner),
        _ => None,
    }
}

/// The last segment of a plain type path: `Duration` for `std::time::Duration`.
pub(crate) fn type_name(ty: &Type) -> Option<String> {
    let Type::Path(path) = ty else { return None };
    path.path.segments.last().map(|segment| segment.ident.to_string())
}

/// Types of the standard library that are `Copy`; for any other, `#[option(copy)]` says so.
fn is_known_copy(ty: &Type) -> bool {
    const COPY: &[&str] = &[
        "bool",
        "char",
        "u8",
        "u16",
        "u32",
        "u64",
        "u128",
        "usize",
        "i8",
        "i16",
        "i32",
        "i64",
        "i128",
        "isize",
        "f32",
        "f64",
        "Duration",
        "Instant",
        "IpAddr",
        "SocketAddr",
        "NonZeroU8",
        "NonZeroU16",
        "NonZeroU32",
        "NonZeroU64",
        "NonZeroUsize",
    ];
    type_name(ty).is_some_and(|name| COPY.contains(&name.as_str()))
}
