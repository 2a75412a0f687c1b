//! The session token of one partition range: a bare LSN, or a vector clock with an LSN per region.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::wire::serde_as_text;

/// The LSNs of one partition range that a session has seen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PartitionSessionToken {
    /// `{lsn}`: the form of accounts with a single region.
    Simple {
        /// The log sequence number.
        lsn: i64,
    },
    /// `{version}#{global lsn}#{region}={lsn}…`.
    Vector(VectorSessionToken),
}

/// A vector clock: the global LSN and one per region, under one version of the range's topology.
///
/// A version of `-1` means that no topology is known, as in the children of a fresh split; a
/// region's `-1` means that it has no LSN yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct VectorSessionToken {
    version: i64,
    global_lsn: i64,
    /// Sorted by region, each region once.
    regions: Box<[(u64, i64)]>,
}

impl VectorSessionToken {
    /// A vector; a region given twice keeps its greater LSN.
    pub fn new(
        version: i64,
        global_lsn: i64,
        regions: impl IntoIterator<Item = (u64, i64)>,
    ) -> Self {
        let mut regions: Vec<_> = regions.into_iter().collect();
        // The greater LSN of a region sorts first, and `dedup` keeps the first.
        regions.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
        regions.dedup_by_key(|entry| entry.0);
        Self { version, global_lsn, regions: regions.into() }
    }

    /// The version of the range's topology, or `-1`.
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The global LSN, which every region will reach.
    pub fn global_lsn(&self) -> i64 {
        self.global_lsn
    }

    /// The LSN per region, sorted by region.
    pub fn regions(&self) -> &[(u64, i64)] {
        &self.regions
    }

    /// The LSN of one region, if the vector mentions it.
    pub fn region_lsn(&self, region: u64) -> Option<i64> {
        let at = self.regions.binary_search_by_key(&region, |entry| entry.0).ok()?;
        Some(self.regions[at].1)
    }

    /// The least upper bound of two vectors: it has seen all that either has.
    ///
    /// Under one version that is the maximum of everything. Across versions the newer one decides
    /// the global number and which regions exist, because a failover may have discarded writes
    /// of the older one; regions in both still take the maximum.
    fn merge(&self, other: &Self) -> Self {
        let (newer, older) =
            if self.version >= other.version { (self, other) } else { (other, self) };
        if newer.version == older.version {
            let regions = newer.regions.iter().chain(&older.regions).copied();
            return Self::new(newer.version, newer.global_lsn.max(older.global_lsn), regions);
        }
        let raised = |&(region, lsn): &(u64, i64)| {
            (region, older.region_lsn(region).map_or(lsn, |older| lsn.max(older)))
        };
        Self {
            version: newer.version,
            global_lsn: newer.global_lsn,
            regions: newer.regions.iter().map(raised).collect(),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        if self.version != other.version {
            return self.version > other.version;
        }
        self.global_lsn >= other.global_lsn
            && other
                .regions
                .iter()
                .all(|&(region, lsn)| self.region_lsn(region).unwrap_or(-1) >= lsn)
    }
}

impl PartitionSessionToken {
    /// The least upper bound of two tokens: it has seen what either has.
    ///
    /// A bare number beside a vector raises the vector's global number: it comes from before the
    /// account had several regions, when there was only that one.
    pub fn merge(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Simple { lsn: a }, Self::Simple { lsn: b }) => Self::Simple { lsn: *a.max(b) },
            (Self::Vector(a), Self::Vector(b)) => Self::Vector(a.merge(b)),
            (Self::Simple { lsn }, Self::Vector(vector))
            | (Self::Vector(vector), Self::Simple { lsn }) => Self::Vector(VectorSessionToken {
                global_lsn: vector.global_lsn.max(*lsn),
                ..vector.clone()
            }),
        }
    }

    /// Whether this token dominates `other`: its holder has seen everything that `other` has.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Simple { lsn: a }, Self::Simple { lsn: b }) => a >= b,
            (Self::Vector(a), Self::Vector(b)) => a.covers(b),
            (Self::Vector(vector), Self::Simple { lsn }) => vector.global_lsn >= *lsn,
            (Self::Simple { lsn }, Self::Vector(vector)) => {
                *lsn >= vector.global_lsn && vector.version < 0 && vector.regions.is_empty()
            }
        }
    }

    /// The global LSN, which every region will reach.
    pub fn global_lsn(&self) -> i64 {
        match self {
            Self::Simple { lsn } => *lsn,
            Self::Vector(vector) => vector.global_lsn,
        }
    }
}

impl fmt::Display for PartitionSessionToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simple { lsn } => write!(f, "{lsn}"),
            Self::Vector(vector) => {
                write!(f, "{}#{}", vector.version, vector.global_lsn)?;
                vector.regions.iter().try_for_each(|(region, lsn)| write!(f, "#{region}={lsn}"))
            }
        }
    }
}

impl FromStr for PartitionSessionToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parse(text).ok_or_else(|| {
            let message = format!(
                "\"{}\" is not the session token of a partition range: expected 42 or 1#42#3=41",
                excerpt(text).escape_debug()
            );
            Error::new(ErrorKind::SessionToken, message)
        })
    }
}

fn parse(text: &str) -> Option<PartitionSessionToken> {
    let Some((version, rest)) = text.split_once('#') else {
        return Some(PartitionSessionToken::Simple { lsn: text.parse().ok()? });
    };
    let mut parts = rest.split('#');
    let global_lsn = parts.next()?.parse().ok()?;
    let regions = parts
        .map(|part| {
            let (region, lsn) = part.split_once('=')?;
            Some((region.parse().ok()?, lsn.parse().ok()?))
        })
        .collect::<Option<Vec<_>>>()?;
    let vector = VectorSessionToken::new(version.parse().ok()?, global_lsn, regions);
    Some(PartitionSessionToken::Vector(vector))
}

serde_as_text!(PartitionSessionToken);

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> PartitionSessionToken {
        text.parse().unwrap()
    }

    fn merged(a: &str, b: &str) -> String {
        token(a).merge(&token(b)).to_string()
    }

    #[test]
    fn every_form_is_printed_as_it_was_read() {
        for text in ["42", "-1", "-1#42", "1#100#1=20#2=5#3=30", "-1#0#1=-1"] {
            assert_eq!(token(text).to_string(), text);
        }
    }

    #[test]
    fn under_one_version_everything_takes_its_maximum() {
        assert_eq!(merged("1#100#1=20#2=5", "1#99#2=7#3=1"), "1#100#1=20#2=7#3=1");
        assert_eq!(merged("5", "7"), "7");
    }

    #[test]
    fn a_newer_version_decides_the_global_number_and_the_regions() {
        assert_eq!(merged("1#100#1=20#2=5", "2#90#1=10#3=4"), "2#90#1=20#3=4");
    }

    #[test]
    fn a_number_from_before_the_vector_raises_its_global_progress() {
        assert_eq!(merged("120", "1#100#1=20"), "1#120#1=20");
        assert_eq!(merged("1#100#1=20", "80"), "1#100#1=20");
    }

    #[test]
    fn a_token_covers_what_it_has_seen() {
        assert!(token("2#1").covers(&token("1#100")));
        assert!(token("1#100#1=20").covers(&token("1#100#1=19")));
        assert!(!token("1#100#1=18").covers(&token("1#100#1=19")));
        assert!(token("1#100").covers(&token("1#100#1=-1")));
        assert!(!token("1#100").covers(&token("1#100#1=0")));
        assert!(token("1#100").covers(&token("99")));
        assert!(!token("100").covers(&token("1#99#1=4")));
    }

    #[test]
    fn what_is_not_a_token_is_refused() {
        for bad in
            ["", "#", "1#", "1#2#", "1#2#3", "1#2#x=1", "1#2#-1=1", "9223372036854775808", "1.5"]
        {
            assert!(bad.parse::<PartitionSessionToken>().is_err(), "{bad}");
        }
    }
}
