//! The session-token header: the LSNs of each partition range, by range id.

use std::fmt;
use std::str::FromStr;

use super::progress::PartitionSessionToken;
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::partition_key::PartitionKeyRangeId;
use crate::wire::serde_as_text;

/// A session token as it stands in a header: `{range id}:{token of the range}`, separated by commas.
///
/// Holds at least one range and each range once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionToken {
    segments: Vec<(PartitionKeyRangeId, PartitionSessionToken)>,
}

impl SessionToken {
    /// The token of a single range.
    pub fn of_range(range: PartitionKeyRangeId, progress: PartitionSessionToken) -> Self {
        Self { segments: vec![(range, progress)] }
    }

    /// The token of several ranges; a range given twice is merged. `None` without any.
    pub fn from_segments(
        segments: impl IntoIterator<Item = (PartitionKeyRangeId, PartitionSessionToken)>,
    ) -> Option<Self> {
        let mut segments = segments.into_iter();
        let (range, progress) = segments.next()?;
        let mut token = Self::of_range(range, progress);
        token.extend(segments);
        Some(token)
    }

    /// Each range and its token, in the order of the header.
    pub fn segments(
        &self,
    ) -> impl ExactSizeIterator<Item = (&PartitionKeyRangeId, &PartitionSessionToken)> {
        self.segments.iter().map(|(range, progress)| (range, progress))
    }

    /// The token of one range.
    pub fn range(&self, range: &str) -> Option<&PartitionSessionToken> {
        let (_, progress) = self.segments.iter().find(|(id, _)| id.as_str() == range)?;
        Some(progress)
    }

    /// Merges another token into this one: the least upper bound, range by range.
    pub fn merge(&mut self, other: &Self) {
        self.extend(other.segments.iter().cloned());
    }

    /// Whether the holder of this token has seen everything `other` has, in every range of it.
    pub fn covers(&self, other: &Self) -> bool {
        other.segments().all(|(range, progress)| {
            self.range(range.as_str()).is_some_and(|ours| ours.covers(progress))
        })
    }

    /// The token to send for a range: its own, merged with those of its parents, the ranges it was
    /// split or merged from. `None` if the session has seen none of them.
    pub fn inherited<'a>(
        &self,
        range: &'a str,
        parents: impl IntoIterator<Item = &'a str>,
    ) -> Option<PartitionSessionToken> {
        std::iter::once(range).chain(parents).filter_map(|id| self.range(id)).fold(
            None,
            |seen: Option<PartitionSessionToken>, progress| match seen {
                Some(seen) => Some(seen.merge(progress)),
                None => Some(progress.clone()),
            },
        )
    }
}

impl Extend<(PartitionKeyRangeId, PartitionSessionToken)> for SessionToken {
    fn extend<I: IntoIterator<Item = (PartitionKeyRangeId, PartitionSessionToken)>>(
        &mut self,
        segments: I,
    ) {
        for (range, progress) in segments {
            match self.segments.iter_mut().find(|(id, _)| *id == range) {
                Some((_, known)) => *known = known.merge(&progress),
                None => self.segments.push((range, progress)),
            }
        }
    }
}

impl fmt::Display for SessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (range, progress)) in self.segments.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{range}:{progress}")?;
        }
        Ok(())
    }
}

impl FromStr for SessionToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let segments = text.split(',').map(segment).collect::<Result<Vec<_>>>()?;
        Self::from_segments(segments).ok_or_else(|| refusal(text))
    }
}

fn segment(text: &str) -> Result<(PartitionKeyRangeId, PartitionSessionToken)> {
    let (range, progress) = text.trim().split_once(':').ok_or_else(|| refusal(text))?;
    let range = range.parse().map_err(|_| refusal(text))?;
    Ok((range, progress.parse()?))
}

fn refusal(text: &str) -> Error {
    let message = format!(
        "\"{}\" is not a session token: expected a range id and its progress, such as 0:1#42#3=41",
        excerpt(text).escape_debug()
    );
    Error::new(ErrorKind::SessionToken, message)
}

serde_as_text!(SessionToken);

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> SessionToken {
        text.parse().unwrap()
    }

    #[test]
    fn a_header_of_several_ranges_is_printed_as_it_was_read() {
        let text = "0:-1#12#1=3,17:42,2:1#5";
        assert_eq!(token(text).to_string(), text);
    }

    #[test]
    fn a_range_that_appears_twice_is_merged() {
        assert_eq!(token("0:1#5,1:7,0:1#9").to_string(), "0:1#9,1:7");
    }

    #[test]
    fn merging_keeps_ranges_of_both_sides() {
        let mut ours = token("0:1#5");
        ours.merge(&token("1:1#2,0:1#4"));
        assert_eq!(ours.to_string(), "0:1#5,1:1#2");
        assert!(ours.covers(&token("0:1#4,1:1#2")));
        assert!(!ours.covers(&token("2:1#1")));
    }

    #[test]
    fn a_child_inherits_the_progress_of_its_parents() {
        let session = token("0:1#50#1=4,3:1#60#1=2");
        assert_eq!(session.inherited("7", ["0", "3"]).unwrap().to_string(), "1#60#1=4");
        assert_eq!(session.inherited("7", ["5"]), None);
    }

    #[test]
    fn a_header_without_a_range_is_refused() {
        for bad in ["", "42", ":1#2", "0:", "0:1#2,", "0:1#2,,1:3"] {
            assert!(bad.parse::<SessionToken>().is_err(), "{bad}");
        }
    }
}
