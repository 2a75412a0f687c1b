//! The table of latitudes, and which of them an account uses.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Whether the service is known to use a latitude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Documented, recorded, or provided for by several of the official SDKs.
    Certain,
    /// Compatible with what is documented, and not seen.
    Assumed,
}

/// Declares the latitudes: variant, name, certainty, how often it is used, and the contract that it stays within.
macro_rules! latitudes {
    ($( $variant:ident = $name:literal, $certainty:ident, 1 in $one_in:literal: $contract:literal; )+) => {
        /// A freedom that the service's contract leaves it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Latitude {
            $( #[doc = $contract] $variant, )+
        }

        impl Latitude {
            /// Every latitude.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The name, as `--grease-only` takes it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )+ }
            }

            /// The contract that an answer stays within when it uses the latitude.
            #[must_use]
            pub const fn contract(self) -> &'static str {
                match self { $( Self::$variant => $contract, )+ }
            }

            /// Whether the service is known to use it.
            #[must_use]
            pub const fn certainty(self) -> Certainty {
                match self { $( Self::$variant => Certainty::$certainty, )+ }
            }

            /// It is used for one in this many of the requests that it applies to.
            pub(super) const fn one_in(self) -> u64 {
                match self { $( Self::$variant => $one_in, )+ }
            }
        }
    };
}

latitudes! {
    ShortPages = "short-pages", Certain, 1 in 2:
        "A page of a query, feed or change feed ends after any number of items up to `x-ms-max-item-count`.";
    EmptyPages = "empty-pages", Certain, 1 in 4:
        "A page of a query or feed has no items and a continuation.";
    PartialResults = "partial-results", Certain, 1 in 1:
        "Aggregates, groups and distinct rows of a page are those of the items that the page has read, also within one partition key.";
    EmptyChanges = "empty-changes", Assumed, 1 in 3:
        "A change feed answers 200 without items before it answers 304.";
    OwnerHeaders = "owner-headers", Assumed, 1 in 3:
        "Responses about items leave out `x-ms-content-path` and `x-ms-alt-content-path`.";
    OptionalHeaders = "optional-headers", Assumed, 1 in 3:
        "Responses leave out item counts, sequence numbers, versions and durations.";
    EmptySessions = "empty-sessions", Assumed, 1 in 2:
        "A page that has read nothing carries no session token.";
    UnknownHeaders = "unknown-headers", Certain, 1 in 2:
        "Responses carry headers that no client knows.";
    UnknownFields = "unknown-fields", Certain, 1 in 2:
        "Feeds, plans, errors and results of batches carry fields that no client knows.";
    BatchSpelling = "batch-spelling", Assumed, 1 in 2:
        "Results of batches spell the sub-status `subStatusCode` or `substatusCode`, and write one that is 0.";
    FractionalNumbers = "fractional-numbers", Assumed, 1 in 2:
        "Numbers of feeds and results of batches that are whole are written with a fraction, `3.0`.";
    RetryAfter = "retry-after", Assumed, 1 in 2:
        "A throttled request is answered without `x-ms-retry-after-ms`, or with 0.";
    UnknownSubStatuses = "unknown-sub-statuses", Assumed, 1 in 2:
        "Errors of items and containers carry a sub-status that no client knows where they need none.";
    UnknownValues = "unknown-values", Assumed, 1 in 2:
        "Enumerations in partition ranges have values that no client knows.";
    RegionalEtags = "regional-etags", Certain, 1 in 1:
        "The etag of the partition ranges is that of a region: another one answers 304 to a later one, and all ranges to an earlier one.";
    PassingSplits = "passing-splits", Assumed, 1 in 2:
        "Requests to a partition range that a split or merge has made are answered 410/1007, three at most.";
    StaleReplicas = "stale-replicas", Certain, 1 in 8:
        "A read of the latest write of its session is answered 404/1002, once for each write, since its replica is behind.";
    ConflictingWrites = "conflicting-writes", Certain, 1 in 16:
        "A write is answered 449 and not applied, since another one was under way.";
    ClosedConnections = "closed-connections", Certain, 1 in 32:
        "A connection is closed after any response: with GOAWAY in HTTP/2, with or without `connection: close` in HTTP/1.1.";
    LongContinuations = "long-continuations", Certain, 1 in 8:
        "A continuation is up to 8 KB long.";
}

impl fmt::Display for Latitude {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

/// A name that is not a latitude's.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("\"{0}\" is not a latitude: the names are {names}", names = names())]
pub struct UnknownLatitude(String);

fn names() -> String {
    let names: Vec<&str> = Latitude::ALL.iter().map(|it| it.name()).collect();
    names.join(", ")
}

impl FromStr for Latitude {
    type Err = UnknownLatitude;

    fn from_str(text: &str) -> Result<Self, UnknownLatitude> {
        let found = Self::ALL.iter().find(|latitude| latitude.name() == text);
        found.copied().ok_or_else(|| UnknownLatitude(text.to_owned()))
    }
}

/// Which latitudes an account uses, and the seed that says when.
///
/// Equal seeds and equal sequences of requests give equal answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grease {
    pub(super) seed: u64,
    latitudes: Vec<Latitude>,
}

impl Grease {
    /// Every latitude, by a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed, latitudes: Latitude::ALL.to_vec() }
    }

    /// Only these latitudes.
    #[must_use]
    pub fn only(self, latitudes: impl IntoIterator<Item = Latitude>) -> Self {
        Self { latitudes: latitudes.into_iter().collect(), ..self }
    }

    /// Only the latitudes that the service is known to use.
    #[must_use]
    pub fn certain(self) -> Self {
        let latitudes = Latitude::ALL.iter().copied();
        self.only(latitudes.filter(|latitude| latitude.certainty() == Certainty::Certain))
    }

    /// Removes a latitude.
    #[must_use]
    pub fn without(mut self, latitude: Latitude) -> Self {
        self.latitudes.retain(|it| *it != latitude);
        self
    }

    /// The seed.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The latitudes that are used.
    #[must_use]
    pub fn latitudes(&self) -> &[Latitude] {
        &self.latitudes
    }
}

impl From<u64> for Grease {
    fn from(seed: u64) -> Self {
        Self::new(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_latitude_is_found_by_its_name() {
        for latitude in Latitude::ALL {
            assert_eq!(latitude.name().parse(), Ok(*latitude));
            assert!(latitude.contract().ends_with('.'), "{latitude}");
        }
        let error = "short".parse::<Latitude>().unwrap_err().to_string();
        assert!(error.contains("short-pages, empty-pages"), "{error}");
    }

    #[test]
    fn certain_grease_assumes_nothing() {
        let certain = Grease::new(1).certain();
        assert!(certain.latitudes().contains(&Latitude::PartialResults));
        assert!(!certain.latitudes().contains(&Latitude::FractionalNumbers));
        assert!(!certain.without(Latitude::ShortPages).latitudes().contains(&Latitude::ShortPages));
    }
}
