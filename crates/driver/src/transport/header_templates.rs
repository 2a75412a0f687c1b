//! Header maps that are cloned instead of built.
//!
//! A `HeaderMap` hashes the name of every header that is inserted, byte by byte (FNV-1a); a clone hashes none.
//! Requests of one kind bring the same names and differ in their values, so a map with blank values is kept for
//! each list of names that comes up: a request clones it and fills in its own.

use std::sync::OnceLock;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::HeaderList;

/// The most lists of names that are kept. An application uses a handful: reads and writes, with and without a
/// session. What comes up after them is built header by header.
const MAX_TEMPLATES: usize = 16;

/// A template for each list of names, in the order in which the lists came up. Only ever added to, so reading
/// takes no lock.
#[derive(Debug, Default)]
pub(super) struct HeaderTemplates([OnceLock<HeaderTemplate>; MAX_TEMPLATES]);

/// The map of requests that bring the same names.
#[derive(Debug)]
struct HeaderTemplate {
    own: Box<[HeaderName]>,
    /// None if a request brings a header that is varied anyway: its slots would not be in order.
    map: Option<HeaderMap>,
}

/// The headers whose values differ from one request to the next, in the order of the map.
#[derive(Debug)]
pub(super) struct VaryingHeaders<'a> {
    pub(super) date: HeaderValue,
    pub(super) activity_id: HeaderValue,
    /// The request's own headers.
    pub(super) own: &'a HeaderList,
    pub(super) authorization: HeaderValue,
}

impl HeaderTemplates {
    /// The map of a request. `build` makes one by insertion, varying headers first; for the same names it must
    /// make one with the same names.
    pub(super) fn fill(
        &self,
        varying: VaryingHeaders<'_>,
        build: impl Fn(VaryingHeaders<'_>) -> HeaderMap,
    ) -> HeaderMap {
        for slot in &self.0 {
            let template = slot.get_or_init(|| HeaderTemplate::of(varying.own, &build));
            match (template.is_for(varying.own), &template.map) {
                (true, Some(map)) => return filled(map.clone(), varying),
                (true, None) => break,
                (false, _) => {}
            }
        }
        build(varying)
    }
}

impl HeaderTemplate {
    fn of(own: &HeaderList, build: impl Fn(VaryingHeaders<'_>) -> HeaderMap) -> Self {
        let names: Box<[HeaderName]> = own.iter().map(|(name, _)| name.clone()).collect();
        // Blank: a template outlives its first request, whose values may be secret.
        let blank = || HeaderValue::from_static("");
        let own: HeaderList = names.iter().map(|name| (name.clone(), blank())).collect();
        let varying = VaryingHeaders {
            date: blank(),
            activity_id: blank(),
            own: &own,
            authorization: blank(),
        };
        let (count, map) = (own.iter().count() + 3, build(varying));
        // Nothing else is blank. Fewer than there are names: two of them are the same header.
        let is_in_order = map.values().take_while(|value| value.is_empty()).count() == count;
        Self { own: names, map: is_in_order.then_some(map) }
    }

    fn is_for(&self, own: &HeaderList) -> bool {
        self.own.iter().eq(own.iter().map(|(name, _)| name))
    }
}

/// Replaces the blanks. A map from which nothing was removed is in the order of insertion.
fn filled(mut map: HeaderMap, varying: VaryingHeaders<'_>) -> HeaderMap {
    let mut slots = map.values_mut();
    let mut fill = |value| {
        if let Some(slot) = slots.next() {
            *slot = value;
        }
    };
    fill(varying.date);
    fill(varying.activity_id);
    varying.own.iter().for_each(|(_, value)| fill(value.clone()));
    fill(varying.authorization);
    map
}
