//! The headers that belong to one operation, inline.

use std::borrow::Borrow;
use std::ops::Index;

use http::{HeaderName, HeaderValue};
use smallvec::SmallVec;

/// Headers by name, each once, in the order in which they were first set.
///
/// A point operation has a handful, so a list without an allocation does what a map would need two for: the
/// map is made once, with the common headers, when the request is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderList(SmallVec<[(HeaderName, HeaderValue); 6]>);

impl HeaderList {
    /// None.
    #[inline] // So that it is made where it is kept: it is large.
    pub fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Sets a header; a value that it had is replaced.
    pub fn insert(&mut self, name: HeaderName, value: HeaderValue) {
        match self.0.iter_mut().find(|(present, _)| *present == name) {
            Some((_, present)) => *present = value,
            None => self.0.push((name, value)),
        }
    }

    /// The value of a header.
    pub fn get(&self, name: impl Borrow<HeaderName>) -> Option<&HeaderValue> {
        let name = name.borrow();
        self.0.iter().find(|(present, _)| present == name).map(|(_, value)| value)
    }

    /// Whether a header is set.
    pub fn contains_key(&self, name: impl Borrow<HeaderName>) -> bool {
        self.get(name).is_some()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

/// The value of a header that is there.
impl Index<HeaderName> for HeaderList {
    type Output = HeaderValue;

    fn index(&self, name: HeaderName) -> &HeaderValue {
        self.get(&name).expect("the header is set")
    }
}

impl FromIterator<(HeaderName, HeaderValue)> for HeaderList {
    fn from_iter<I: IntoIterator<Item = (HeaderName, HeaderValue)>>(headers: I) -> Self {
        let mut list = Self::default();
        headers.into_iter().for_each(|(name, value)| list.insert(name, value));
        list
    }
}

#[cfg(test)]
mod tests {
    use http::header::{ACCEPT, CONTENT_TYPE, HOST};

    use super::*;

    #[test]
    fn a_header_is_there_once_with_the_value_it_was_set_to_last() {
        let mut list = HeaderList::default();
        for (name, value) in [(ACCEPT, "a"), (HOST, "b"), (ACCEPT, "c")] {
            list.insert(name, HeaderValue::from_static(value));
        }
        let all: Vec<_> = list.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let expected = [(ACCEPT, "c"), (HOST, "b")];
        assert_eq!(all, expected.map(|(name, value)| (name, HeaderValue::from_static(value))));
        assert!(list.contains_key(HOST) && !list.contains_key(CONTENT_TYPE));
        assert_eq!(list[HOST], "b");
        assert_eq!(all.into_iter().collect::<HeaderList>(), list);
    }
}
