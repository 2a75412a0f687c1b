//! Values of settings that cannot be wrong once they exist.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A share of a whole, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Ratio(f64);

impl Ratio {
    const EXPECTED: &str = "expected a number from 0 to 1, such as 0.5";

    /// A ratio known when the code is written.
    ///
    /// # Panics
    ///
    /// Outside 0 to 1; in a constant, that is a compile error.
    #[must_use]
    pub const fn constant(value: f64) -> Self {
        // Not `RangeInclusive::contains`, which is not `const`. A NaN fails both comparisons.
        assert!(value >= 0.0 && value <= 1.0, "a ratio is from 0 to 1");
        Self(value)
    }

    /// The ratio as a number.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> Self {
        ratio.0
    }
}

impl TryFrom<f64> for Ratio {
    type Error = InvalidValue;

    fn try_from(value: f64) -> Result<Self, InvalidValue> {
        if (0.0..=1.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(InvalidValue(Self::EXPECTED))
        }
    }
}

impl FromStr for Ratio {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let value: f64 = text.parse().map_err(|_| InvalidValue(Self::EXPECTED))?;
        Self::try_from(value)
    }
}

/// The factor of exponential back-off: 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Factor(f64);

impl Factor {
    const EXPECTED: &str = "expected a number of 1 or more, such as 2";

    /// A factor known when the code is written.
    ///
    /// # Panics
    ///
    /// Below 1 or not finite; in a constant, that is a compile error.
    #[must_use]
    pub const fn constant(value: f64) -> Self {
        assert!(value >= 1.0 && value.is_finite(), "a factor is 1 or more");
        Self(value)
    }

    /// The factor as a number.
    #[must_use]
    pub const fn value(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Factor {
    type Error = InvalidValue;

    fn try_from(value: f64) -> Result<Self, InvalidValue> {
        if value >= 1.0 && value.is_finite() {
            Ok(Self(value))
        } else {
            Err(InvalidValue(Self::EXPECTED))
        }
    }
}

impl FromStr for Factor {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let value: f64 = text.parse().map_err(|_| InvalidValue(Self::EXPECTED))?;
        Self::try_from(value)
    }
}

/// Which writes are sent again after an attempt that may have been applied: it was sent and its answer lost, or it
/// timed out in the service (408).
///
/// A repeated write does no harm by itself. With another writer in between it can undo that writer's work:
///
/// - *replace, upsert*: applied, its answer lost; another writer reads it and replaces it; the repetition overwrites that.
/// - *delete*: applied, its answer lost; another writer creates the item again; the repetition deletes it.
/// - *create*: applied, its answer lost; another writer deletes the item; the repetition creates it again.
///
/// Writes that would apply twice (increments, appends, moves, stored procedures) are never repeated. Writes that
/// certainly did not happen always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum AmbiguousWriteRetry {
    /// Idempotent writes: create, replace, upsert, delete, and patches and batches of such operations.
    #[default]
    Idempotent,
    /// Idempotent writes whose repetition the service refuses if they were applied: with `if_match`; and batches that hold
    /// such an operation or a create, because all their operations are applied or none. On an account with several write
    /// regions they are repeated in the region that may have applied them, the only one that can tell.
    Conditional,
    /// None: the error says `may_have_been_applied`, and the caller decides.
    Never,
}

impl AmbiguousWriteRetry {
    /// Whether a write may be repeated, by what it is.
    #[must_use]
    pub const fn permits(self, is_idempotent: bool, is_conditional: bool) -> bool {
        match self {
            Self::Idempotent => is_idempotent,
            Self::Conditional => is_idempotent && is_conditional,
            Self::Never => false,
        }
    }
}

impl FromStr for AmbiguousWriteRetry {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let named = |name: &str| text.eq_ignore_ascii_case(name);
        match text {
            _ if named("idempotent") => Ok(Self::Idempotent),
            _ if named("conditional") => Ok(Self::Conditional),
            _ if named("never") => Ok(Self::Never),
            _ => Err(InvalidValue("expected idempotent, conditional or never")),
        }
    }
}

/// How long an attempt may take before a second one starts in another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HedgingThreshold {
    /// From the latencies seen lately (their 99th percentile), within the bounds.
    Dynamic {
        /// Never sooner than this.
        min: Duration,
        /// Never later than this.
        max: Duration,
    },
    /// Always the same.
    Static(Duration),
}

impl HedgingThreshold {
    /// The lowest bound that a dynamic threshold can have.
    pub const FLOOR: Duration = Duration::from_millis(50);
    /// The highest bound that a dynamic threshold can have.
    pub const CEILING: Duration = Duration::from_millis(4_000);

    /// The threshold in force, given the percentile seen lately; none seen is the upper bound.
    ///
    /// Bounds can narrow the range from [`FLOOR`](Self::FLOOR) to [`CEILING`](Self::CEILING), not
    /// widen it; where they contradict each other, the upper one gives way.
    #[must_use]
    pub fn resolve(self, recent: Option<Duration>) -> Duration {
        match self {
            Self::Static(threshold) => threshold,
            Self::Dynamic { min, max } => {
                // The lower bound first, so that `clamp` below cannot panic on crossed bounds.
                let min = min.clamp(Self::FLOOR, Self::CEILING);
                let max = max.clamp(min, Self::CEILING);
                recent.map_or(max, |latency| latency.clamp(min, max))
            }
        }
    }
}

impl Default for HedgingThreshold {
    fn default() -> Self {
        Self::Dynamic { min: Self::FLOOR, max: Self::CEILING }
    }
}

impl FromStr for HedgingThreshold {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        if text.eq_ignore_ascii_case("dynamic") {
            return Ok(Self::default());
        }
        let milliseconds = text.parse().map_err(|_| {
            InvalidValue("expected dynamic, or a number of milliseconds such as 250")
        })?;
        Ok(Self::Static(Duration::from_millis(milliseconds)))
    }
}

/// A value outside its range; the sentence says what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidValue(&'static str);

impl fmt::Display for InvalidValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl Error for InvalidValue {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ambiguous_write_retry_is_named_in_any_case() {
        assert_eq!("Conditional".parse(), Ok(AmbiguousWriteRetry::Conditional));
        assert_eq!("NEVER".parse(), Ok(AmbiguousWriteRetry::Never));
        let refused = "sometimes".parse::<AmbiguousWriteRetry>().unwrap_err();
        assert!(refused.to_string().contains("idempotent, conditional or never"));
    }

    #[test]
    fn a_dynamic_threshold_stays_within_its_bounds() {
        let dynamic = HedgingThreshold::default();
        assert_eq!(dynamic.resolve(None), HedgingThreshold::CEILING);
        assert_eq!(dynamic.resolve(Some(Duration::from_millis(1))), HedgingThreshold::FLOOR);
        assert_eq!(dynamic.resolve(Some(Duration::from_millis(300))), Duration::from_millis(300));
        assert_eq!(dynamic.resolve(Some(Duration::from_secs(60))), HedgingThreshold::CEILING);
    }

    #[test]
    fn bounds_narrow_the_range_and_never_widen_it() {
        let wide = HedgingThreshold::Dynamic { min: Duration::ZERO, max: Duration::from_secs(60) };
        assert_eq!(wide.resolve(Some(Duration::ZERO)), HedgingThreshold::FLOOR);
        assert_eq!(wide.resolve(Some(Duration::MAX)), HedgingThreshold::CEILING);
        let crossed =
            HedgingThreshold::Dynamic { min: Duration::from_secs(2), max: Duration::from_secs(1) };
        assert_eq!(crossed.resolve(None), Duration::from_secs(2));
    }

    #[test]
    fn a_number_is_a_static_threshold_and_dynamic_is_the_default() {
        let threshold: HedgingThreshold = "250".parse().unwrap();
        assert_eq!(threshold, HedgingThreshold::Static(Duration::from_millis(250)));
        assert_eq!("Dynamic".parse(), Ok(HedgingThreshold::default()));
        assert!("soon".parse::<HedgingThreshold>().is_err());
    }

    #[test]
    fn ratios_and_factors_refuse_what_is_outside_their_range() {
        for text in ["-0.1", "1.1", "NaN", "half"] {
            assert!(text.parse::<Ratio>().is_err(), "{text}");
        }
        for text in ["0.9", "inf", "NaN", "double"] {
            assert!(text.parse::<Factor>().is_err(), "{text}");
        }
        assert_eq!("0.5".parse(), Ok(Ratio::constant(0.5)));
        assert_eq!("2".parse(), Ok(Factor::constant(2.0)));
    }
}
