//! Reading settings from variables: nothing malformed is skipped, and everything malformed is
//! reported together.

use std::error::Error;
use std::ffi::OsString;
use std::fmt;

use super::OptionGroup;

/// One or more variables hold something that is not a value of their setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvironmentError {
    malformed: Vec<MalformedVariable>,
}

impl EnvironmentError {
    /// Every variable that could not be read, in the order of the settings.
    #[must_use]
    pub fn malformed(&self) -> &[MalformedVariable] {
        &self.malformed
    }
}

impl fmt::Display for EnvironmentError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, variable) in self.malformed.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}{variable}")?;
        }
        Ok(())
    }
}

impl Error for EnvironmentError {}

/// A variable whose value cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MalformedVariable {
    /// The variable's name.
    pub variable: &'static str,
    /// The value of the variable.
    pub value: String,
    /// The expected value, as the end of a sentence that begins with "expected".
    pub expected: String,
}

impl fmt::Display for MalformedVariable {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { variable, value, expected } = self;
        write!(formatter, "{variable} is {value:?}; expected {expected}")
    }
}

/// Reads the variables of one or several groups and remembers what was malformed.
///
/// A variable that is absent, empty or blank is not set: that is how deployment tools spell "none".
pub struct EnvironmentReader<'a> {
    lookup: &'a dyn Fn(&str) -> Option<OsString>,
    malformed: Vec<MalformedVariable>,
}

impl fmt::Debug for EnvironmentReader<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EnvironmentReader")
            .field("malformed", &self.malformed)
            .finish_non_exhaustive()
    }
}

impl<'a> EnvironmentReader<'a> {
    /// Starts reading through `lookup`.
    #[must_use]
    pub fn new(lookup: &'a dyn Fn(&str) -> Option<OsString>) -> Self {
        Self { lookup, malformed: Vec::new() }
    }

    /// Reads a setting that has one variable.
    pub fn one<T>(
        &mut self,
        variable: &'static str,
        parse: impl Fn(&str, &str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(variable)?;
        match parse(variable, &text) {
            Ok(value) => Some(value),
            Err(expected) => {
                self.malformed.push(MalformedVariable { variable, value: text, expected });
                None
            }
        }
    }

    /// Reads a setting that has aliases: all that are set must agree.
    pub fn any<T: PartialEq>(
        &mut self,
        variables: &[&'static str],
        parse: impl Fn(&str, &str) -> Result<T, String>,
    ) -> Option<T> {
        let mut found: Option<(&'static str, T)> = None;
        for &variable in variables {
            let Some(value) = self.one(variable, &parse) else {
                continue;
            };
            match &found {
                None => found = Some((variable, value)),
                Some((_, first)) if *first == value => {}
                // Which of two should win is not ours to guess.
                Some((other, _)) => self.disagreement(variable, other),
            }
        }
        found.map(|(_, value)| value)
    }

    /// Reads a nested group; none of it set is `None`.
    pub fn nested<G: OptionGroup>(&mut self) -> Option<G> {
        let group = G::read(self);
        (!group.is_unset()).then_some(group)
    }

    /// Ends the reading: the value, if nothing was malformed.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`] with all malformed variables.
    pub fn finish<T>(self, value: T) -> Result<T, EnvironmentError> {
        if self.malformed.is_empty() {
            return Ok(value);
        }
        Err(EnvironmentError { malformed: self.malformed })
    }

    fn text(&mut self, variable: &'static str) -> Option<String> {
        match (self.lookup)(variable)?.into_string() {
            Ok(text) if text.trim().is_empty() => None,
            Ok(text) => Some(text.trim().to_owned()),
            Err(raw) => {
                let value = raw.to_string_lossy().into_owned();
                let expected = "text in Unicode".to_owned();
                self.malformed.push(MalformedVariable { variable, value, expected });
                None
            }
        }
    }

    fn disagreement(&mut self, variable: &'static str, other: &'static str) {
        let value = self.text(variable).unwrap_or_default();
        let expected =
            format!("the same as {other}, another name of this setting; set only one of the two");
        self.malformed.push(MalformedVariable { variable, value, expected });
    }
}
