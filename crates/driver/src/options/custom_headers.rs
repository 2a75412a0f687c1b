//! Headers that an application adds to its requests.

use std::collections::HashMap;
use std::fmt;

use http::{HeaderName, HeaderValue};

use super::layering::Merge;

/// Headers by name, each once, in the order in which they were first set: every run sends them alike.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct CustomHeaders(Vec<(HeaderName, HeaderValue)>);

impl CustomHeaders {
    /// Sets a header; a value that it had is replaced.
    pub fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        match self.0.iter_mut().find(|(present, _)| *present == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name, value)),
        }
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

impl Merge for CustomHeaders {
    fn extend_from(&mut self, higher: &Self) {
        for (name, value) in higher.iter() {
            self.insert(name.clone(), value.clone());
        }
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for CustomHeaders {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        let mut all = Self::default();
        headers.into_iter().for_each(|(name, value)| all.insert(name, value));
        all
    }
}

impl<const N: usize> From<[(HeaderName, HeaderValue); N]> for CustomHeaders {
    fn from(headers: [(HeaderName, HeaderValue); N]) -> Self {
        headers.into_iter().collect()
    }
}

/// Sorted by name: a hash map is iterated in another order in each run.
impl<S> From<HashMap<HeaderName, HeaderValue, S>> for CustomHeaders {
    fn from(headers: HashMap<HeaderName, HeaderValue, S>) -> Self {
        let mut sorted: Vec<_> = headers.into_iter().collect();
        sorted.sort_unstable_by(|(one, _), (other, _)| one.as_str().cmp(other.as_str()));
        // The names of a map are different, so no value replaces another.
        Self(sorted)
    }
}

/// The names alone: a value may be a secret.
impl fmt::Debug for CustomHeaders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, HOST, TE};

    use super::*;

    fn headers<const N: usize>(all: [(HeaderName, &'static str); N]) -> CustomHeaders {
        all.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_higher_layer_overwrites_by_name_and_the_order_stays() {
        let mut merged = headers([(TE, "a"), (ACCEPT, "b")]);
        merged.extend_from(&headers([(ACCEPT, "c"), (HOST, "d")]));
        assert_eq!(merged, headers([(TE, "a"), (ACCEPT, "c"), (HOST, "d")]));
    }

    #[test]
    fn headers_of_a_hash_map_are_sent_in_the_order_of_their_names() {
        let value = HeaderValue::from_static("a");
        let map = HashMap::from([TE, HOST, ACCEPT].map(|name| (name, value.clone())));
        let sorted = headers([(ACCEPT, "a"), (HOST, "a"), (TE, "a")]);
        assert_eq!(CustomHeaders::from(map), sorted);
    }

    #[test]
    fn values_are_not_shown() {
        let shown = format!("{:?}", headers([(TE, "hunter2")]));
        assert_eq!(shown, "[\"te\"]");
    }
}
