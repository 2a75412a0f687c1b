//! The regions of the demo's account.

use std::str::FromStr;

use sidereal_protocol::RegionName;

/// Regions that are given names here, the nearest first.
const NAMES: [&str; 6] =
    ["West US", "East US", "North Europe", "Southeast Asia", "Brazil South", "Australia East"];

/// The regions of the account; at least two, no two alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regions(Vec<RegionName>);

impl Regions {
    /// Their names, the first of which accepts writes.
    pub(crate) fn names(&self) -> &[RegionName] {
        &self.0
    }
}

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
}
