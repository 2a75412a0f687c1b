//! The table of settings: each value and where it came from, for people who ask "why is it so?".

use std::fmt;

use super::Layer;

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The setting's name, nested groups separated by dots: `connection.connection_pool.idle_timeout`.
    pub name: String,
    /// Its value as text; `None` where nothing sets it and it has no default.
    pub value: Option<String>,
    /// Where the value came from.
    pub source: Source,
    /// The variable that can set it, and its aliases.
    pub variables: Vec<&'static str>,
    /// The documentation of its declaration.
    pub description: &'static str,
}

/// The declaration of a setting: name, variables and documentation.
#[derive(Clone, Copy, Debug)]
pub struct Declaration<'a> {
    /// The field's name.
    pub name: &'a str,
    /// The variable that can set it, and its aliases.
    pub variables: &'a [&'static str],
    /// The field's documentation.
    pub description: &'static str,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// No layer sets it and it has no default.
    Unset,
    /// No layer sets it; the declaration has a default.
    Default,
    /// The highest layer that sets it.
    Layer(Layer),
    /// Several layers contributed to a merged collection, lowest first.
    Merged(Vec<Layer>),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unset => formatter.write_str("unset"),
            Self::Default => formatter.write_str("default"),
            Self::Layer(layer) => layer.fmt(formatter),
            Self::Merged(layers) => {
                let names: Vec<String> = layers.iter().map(Layer::to_string).collect();
                formatter.write_str(&names.join(" + "))
            }
        }
    }
}

/// Collects the settings of one or several groups.
#[derive(Clone, Debug, Default)]
pub struct SettingsTable {
    prefix: String,
    settings: Vec<Setting>,
}

impl SettingsTable {
    /// Adds a setting of which the highest layer wins. `layers` begins with the lowest.
    pub fn shadowed<const N: usize>(
        &mut self,
        declaration: Declaration<'_>,
        layers: [(Layer, Option<String>); N],
        default: Option<String>,
    ) {
        let highest =
            layers.into_iter().rev().find_map(|(layer, value)| value.map(|text| (layer, text)));
        let (source, value) = match (highest, default) {
            (Some((layer, text)), _) => (Source::Layer(layer), Some(text)),
            (None, Some(default)) => (Source::Default, Some(default)),
            (None, None) => (Source::Unset, None),
        };
        self.push(declaration, source, value);
    }

    /// Adds a setting to which every layer contributes. `layers` begins with the lowest.
    pub fn merged<const N: usize>(
        &mut self,
        declaration: Declaration<'_>,
        layers: [(Layer, Option<String>); N],
        default: Option<String>,
    ) {
        let set: Vec<(Layer, String)> = layers
            .into_iter()
            .filter_map(|(layer, value)| value.map(|text| (layer, text)))
            .collect();
        let source = match set.as_slice() {
            [] if default.is_some() => Source::Default,
            [] => Source::Unset,
            [(layer, _)] => Source::Layer(*layer),
            several => Source::Merged(several.iter().map(|(layer, _)| *layer).collect()),
        };
        let texts: Vec<String> = set.into_iter().map(|(_, text)| text).collect();
        let value = if texts.is_empty() { default } else { Some(texts.join(" + ")) };
        self.push(declaration, source, value);
    }

    /// Adds what `describe` adds, under `name`.
    pub fn nested(&mut self, name: &str, describe: impl FnOnce(&mut Self)) {
        let outer = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        describe(self);
        self.prefix.truncate(outer);
    }

    /// The rows, in the order of the declarations.
    #[must_use]
    pub fn into_settings(self) -> Vec<Setting> {
        self.settings
    }

    fn push(&mut self, declaration: Declaration<'_>, source: Source, value: Option<String>) {
        let Declaration { name, variables, description } = declaration;
        let name = format!("{}{name}", self.prefix);
        let variables = variables.to_vec();
        self.settings.push(Setting { name, value, source, variables, description });
    }
}
