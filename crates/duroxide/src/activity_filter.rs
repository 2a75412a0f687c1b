//! Which activities are asked for: those that one worker takes, or that at least one of several does.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide::providers::TagFilter;

/// The activities that a worker takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActivityDemand<'a> {
    pub(crate) tags: &'a TagFilter,
    /// The name by which it has sessions, if it takes activities of sessions.
    pub(crate) owner: Option<&'a str>,
}

/// The terms of a worker, the same at each fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerTerms {
    pub(crate) tags: TagFilter,
    /// The name by which it has sessions, if it takes activities of sessions.
    pub(crate) owner: Option<String>,
    pub(crate) lock_timeout: Duration,
}

impl WorkerTerms {
    pub(crate) fn demand(&self) -> ActivityDemand<'_> {
        ActivityDemand { tags: &self.tags, owner: self.owner.as_deref() }
    }
}

/// Tags, and whether activities of sessions are among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ActivityFilter {
    untagged: bool,
    tags: BTreeSet<String>,
    every_tag: bool,
    sessions: bool,
}

impl ActivityFilter {
    /// The filter of one worker.
    pub(crate) fn of(tags: &TagFilter, sessions: bool) -> Self {
        let mut filter = Self::default();
        filter.include(tags, sessions);
        filter
    }

    /// Adds what another worker takes. Says whether some of that is new.
    pub(crate) fn include(&mut self, tags: &TagFilter, sessions: bool) -> bool {
        let before = (self.untagged, self.tags.len(), self.every_tag, self.sessions);
        self.untagged |= tags.matches(None);
        self.every_tag |= matches!(tags, TagFilter::Any);
        self.sessions |= sessions;
        if let TagFilter::Tags(names) | TagFilter::DefaultAnd(names) = tags {
            let new = names.iter().filter(|name| !self.tags.contains(*name));
            self.tags.extend(new.cloned().collect::<Vec<_>>());
        }
        before != (self.untagged, self.tags.len(), self.every_tag, self.sessions)
    }

    /// Whether nothing is taken.
    pub(crate) fn is_empty(&self) -> bool {
        !self.untagged && !self.every_tag && self.tags.is_empty()
    }

    /// Whether activities without a tag are taken.
    pub(crate) fn is_untagged(&self) -> bool {
        self.untagged
    }

    /// Whether an activity is taken.
    pub(crate) fn takes(&self, tag: Option<&str>, session: Option<&str>) -> bool {
        let of_tag = tag.map_or(self.untagged, |tag| self.every_tag || self.tags.contains(tag));
        of_tag && (self.sessions || session.is_none())
    }

    /// The names of the parameter `@tags` of the condition.
    pub(crate) fn tags(&self) -> &BTreeSet<String> {
        &self.tags
    }

    /// The condition of a query, to be appended; empty if every activity is taken.
    pub(crate) fn condition(&self) -> String {
        let tags = match (self.untagged, self.tags.is_empty()) {
            _ if self.every_tag => "",
            (true, true) => " AND IS_NULL(c.tag)",
            (true, false) => " AND (IS_NULL(c.tag) OR ARRAY_CONTAINS(@tags, c.tag))",
            (false, _) => " AND ARRAY_CONTAINS(@tags, c.tag)",
        };
        let sessions = if self.sessions { "" } else { " AND IS_NULL(c.sessionId)" };
        format!("{tags}{sessions}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_of_several_workers_takes_is_taken() {
        let mut filter = ActivityFilter::default();
        assert!(filter.is_empty() && !filter.takes(None, None));
        assert!(filter.include(&TagFilter::DefaultOnly, false));
        assert!(filter.takes(None, None) && !filter.takes(Some("gpu"), None));
        assert!(!filter.takes(None, Some("s")));
        assert!(filter.include(&TagFilter::tags(["gpu"]), true));
        assert!(filter.takes(Some("gpu"), Some("s")) && !filter.takes(Some("arm"), None));
        assert!(!filter.include(&TagFilter::default_and(["gpu"]), true), "known already");
        assert!(filter.include(&TagFilter::Any, false));
        assert!(filter.takes(Some("arm"), None));
    }

    #[test]
    fn the_container_is_asked_for_what_is_taken() {
        let condition = |tags, sessions| ActivityFilter::of(&tags, sessions).condition();
        assert_eq!(condition(TagFilter::Any, true), "");
        assert_eq!(
            condition(TagFilter::DefaultOnly, false),
            " AND IS_NULL(c.tag) AND IS_NULL(c.sessionId)"
        );
        assert_eq!(condition(TagFilter::tags(["gpu"]), true), " AND ARRAY_CONTAINS(@tags, c.tag)");
        assert_eq!(
            condition(TagFilter::default_and(["gpu"]), true),
            " AND (IS_NULL(c.tag) OR ARRAY_CONTAINS(@tags, c.tag))"
        );
    }
}
