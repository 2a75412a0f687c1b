//! Provisioned throughput: what a database or container is given, as the caller states it.
//!
//! How it travels (two creation headers, or a resource of its own) is in [`Offer`](crate::Offer).

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::wire::serde_as_text;

/// Request units per second, fixed or scaled by the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ThroughputProperties {
    /// A fixed number of request units per second.
    Manual {
        /// Request units per second.
        throughput: u32,
    },
    /// Scaled between a tenth of the maximum and the maximum.
    Autoscale {
        /// The most request units per second.
        max_throughput: u32,
        /// By how much the maximum grows, in percent, when storage demands it.
        increment_percent: Option<u32>,
    },
}

impl ThroughputProperties {
    /// A fixed number of request units per second.
    pub const fn manual(throughput: u32) -> Self {
        Self::Manual { throughput }
    }

    /// Scaled by the service up to `max_throughput`.
    pub const fn autoscale(max_throughput: u32, increment_percent: Option<u32>) -> Self {
        Self::Autoscale { max_throughput, increment_percent }
    }

    /// The fixed request units per second, unless scaled.
    pub const fn manual_throughput(&self) -> Option<u32> {
        match self {
            Self::Manual { throughput } => Some(*throughput),
            Self::Autoscale { .. } => None,
        }
    }

    /// The most request units per second, if scaled.
    pub const fn autoscale_max_throughput(&self) -> Option<u32> {
        match self {
            Self::Manual { .. } => None,
            Self::Autoscale { max_throughput, .. } => Some(*max_throughput),
        }
    }

    /// The most request units per second, fixed or scaled.
    pub const fn ceiling(&self) -> u32 {
        match self {
            Self::Manual { throughput } => *throughput,
            Self::Autoscale { max_throughput, .. } => *max_throughput,
        }
    }
}

impl fmt::Display for ThroughputProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manual { throughput } => write!(f, "manual:{throughput}"),
            Self::Autoscale { max_throughput, increment_percent: None } => {
                write!(f, "autoscale:{max_throughput}")
            }
            Self::Autoscale { max_throughput, increment_percent: Some(percent) } => {
                write!(f, "autoscale:{max_throughput}+{percent}%")
            }
        }
    }
}

impl FromStr for ThroughputProperties {
    type Err = Error;

    /// Reads `400`, `manual:400`, `autoscale:4000` or `autoscale:4000+10%`.
    fn from_str(text: &str) -> Result<Self> {
        parse(text.trim()).ok_or_else(|| {
            let message = format!(
                "\"{}\" is not a throughput: expected manual:400, autoscale:4000 or autoscale:4000+10%",
                excerpt(text)
            );
            Error::new(ErrorKind::Throughput, message)
        })
    }
}

fn parse(text: &str) -> Option<ThroughputProperties> {
    let (mode, amount) = text.split_once(':').unwrap_or(("manual", text));
    if mode.eq_ignore_ascii_case("manual") {
        return Some(ThroughputProperties::manual(amount.parse().ok()?));
    }
    if !mode.eq_ignore_ascii_case("autoscale") {
        return None;
    }
    let (max, increment) = match amount.split_once('+') {
        Some((max, increment)) => (max, Some(increment.strip_suffix('%')?.parse().ok()?)),
        None => (amount, None),
    };
    Some(ThroughputProperties::autoscale(max.parse().ok()?, increment))
}

serde_as_text!(ThroughputProperties);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_printed_as_it_is_read() {
        for text in ["manual:400", "autoscale:4000", "autoscale:4000+10%"] {
            let throughput: ThroughputProperties = text.parse().unwrap();
            assert_eq!(throughput.to_string(), text);
        }
        assert_eq!("400".parse(), Ok(ThroughputProperties::manual(400)));
    }

    #[test]
    fn a_malformed_throughput_is_refused_with_examples() {
        for bad in ["", "-1", "auto:3", "autoscale:4000+10", "manual:4+1%"] {
            let error = bad.parse::<ThroughputProperties>().unwrap_err();
            assert!(error.to_string().contains("autoscale:4000"), "{error}");
        }
    }
}
