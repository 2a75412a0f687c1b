//! The arguments of the demo, read into values that cannot be wrong.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use sidereal_protocol::RegionName;

/// Regions that are given names here, the nearest first.
const NAMES: [&str; 6] =
    ["West US", "East US", "North Europe", "Southeast Asia", "Brazil South", "Australia East"];

/// How long the schedule of a run may be. Shorter, phases would end before anything is noticed; longer, it would be a
/// soak test.
const DURATIONS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(4)..=Duration::from_secs(300);

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal demo
  sidereal demo --report demo.html
  sidereal demo --seed 7 --duration 60s --rate 40
  sidereal demo --regions \"West US,East US\" | tee demo.txt")]
pub(crate) struct DemoArguments {
    /// Seed of the schedule and of the orchestrations: the same seed, the same run.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// How long the schedule takes, such as 20s or 2m; what is started is then waited for.
    #[arg(long, value_name = "TIME", default_value = "18s", value_parser = duration)]
    pub(crate) duration: Duration,

    /// Regions of the account: their number, or their names separated by commas; the first accepts writes.
    #[arg(long, value_name = "N|NAMES", default_value = "3")]
    pub(crate) regions: Regions,

    /// Orchestrations started each second; with each go eight plain reads and writes.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rate: u32,

    /// Write a report: one HTML page with charts, which needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

/// The regions of the account; at least two, no two alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regions(pub(crate) Vec<RegionName>);

impl FromStr for Regions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names: Vec<&str> = match text.trim().parse::<usize>() {
            Ok(number) => NAMES.into_iter().take(number).collect(),
            Err(_) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect(),
        };
        let most = NAMES.len();
        if let Ok(number) = text.trim().parse::<usize>()
            && number > most
        {
            return Err(format!("expected a number from 2 to {most}, or names"));
        }
        let names: Vec<RegionName> = names.into_iter().map(RegionName::from).collect();
        let is_repeated = |(at, name): (usize, &RegionName)| names[..at].contains(name);
        if names.iter().enumerate().any(is_repeated) {
            return Err("a region is named twice".to_owned());
        }
        match names.len() {
            0 | 1 => {
                Err("an outage of the only region cannot be survived: expected 2 or more"
                    .to_owned())
            }
            count if count > most => Err(format!("expected {most} regions at most")),
            _ => Ok(Self(names)),
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = crate::values::duration(text)?;
    if DURATIONS.contains(&parsed) {
        return Ok(parsed);
    }
    let (least, most) = (DURATIONS.start().as_secs(), DURATIONS.end().as_secs());
    Err(format!("expected a time from {least}s to {most}s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(text: &str) -> Result<Vec<String>, String> {
        let parsed: Regions = text.parse()?;
        Ok(parsed.0.iter().map(|name| name.as_str().to_owned()).collect())
    }

    #[test]
    fn regions_are_a_number_or_names() {
        assert_eq!(regions("2").unwrap(), ["West US", "East US"]);
        assert_eq!(regions("3").unwrap().len(), 3);
        assert_eq!(regions(" UK South, Japan East ").unwrap(), ["UK South", "Japan East"]);
    }

    #[test]
    fn too_few_too_many_and_repeated_regions_are_refused() {
        for text in ["0", "1", "West US", "", ","] {
            assert!(regions(text).unwrap_err().contains("2 or more"), "{text}");
        }
        assert!(regions("7").unwrap_err().contains("from 2 to 6"));
        assert!(regions("a,b,c,d,e,f,g").unwrap_err().contains("6 regions at most"));
        assert!(regions("West US,East US,west us").unwrap_err().contains("twice"));
    }

    #[test]
    fn durations_have_bounds() {
        assert_eq!(duration("6s"), Ok(Duration::from_secs(6)));
        assert!(duration("1s").unwrap_err().contains("from 4s to 300s"));
        assert!(duration("1h").is_err());
        assert!(duration("soon").unwrap_err().contains("such as"));
    }
}
