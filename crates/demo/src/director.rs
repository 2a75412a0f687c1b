//! Does to the account what the schedule says, and knows what is wrong with each region meanwhile.

use std::time::Duration;

use sidereal_emulator::{Emulator, FaultCondition, FaultEffect, FaultRule, WriteRegionChange};
use sidereal_protocol::{PartitionKeyRangeId, RegionName, ResourceType};

use crate::error::DemoError;
use crate::schedule::Action;
use crate::stage::{CONTAINERS, DATABASE};

/// How far the regions are from the application, in milliseconds there and back: the first is its own.
const DISTANCES_MS: [u64; 4] = [1, 8, 16, 24];

/// The condition of a region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Healthy,
    PartitionSick(String),
    Slow(Duration),
    Down,
}

/// Who does to the account what the schedule says.
pub(crate) struct Director {
    /// In the order of the regions.
    pub(crate) conditions: Vec<Condition>,
    regions: Vec<RegionName>,
}

impl Director {
    /// Gives every region its distance.
    pub(crate) fn new(emulator: &Emulator, regions: &[RegionName]) -> Result<Self, DemoError> {
        let conditions = vec![Condition::Healthy; regions.len()];
        let director = Self { conditions, regions: regions.to_vec() };
        director.set_rules(emulator)?;
        Ok(director)
    }

    /// Carries out a step of the schedule.
    pub(crate) async fn act(
        &mut self,
        emulator: &Emulator,
        action: &Action,
    ) -> Result<(), DemoError> {
        match action {
            Action::FailPartition { region, range, writes_to } => {
                // First the writes move, so that there is always a region that takes them.
                move_writes(emulator, range, Some(writes_to))?;
                self.set(region, Condition::PartitionSick(range.clone()));
            }
            Action::HealPartition { region, range } => {
                self.set(region, Condition::Healthy);
                self.set_rules(emulator)?;
                move_writes(emulator, range, None)?;
            }
            Action::SlowRegion { region, by } => self.set(region, Condition::Slow(*by)),
            Action::RestoreRegion { region } => self.set(region, Condition::Healthy),
            Action::TakeOffline { region } => {
                emulator.take_offline(region)?;
                self.set(region, Condition::Down);
            }
            Action::BringOnline { region } => {
                emulator.bring_online(region).await?;
                self.set(region, Condition::Healthy);
            }
            Action::HandOver { to, announcement, overlap } => {
                let (announcement, overlap) = (*announcement, *overlap);
                let change = WriteRegionChange::Graceful { announcement, overlap };
                emulator.account().change_write_region(to, change)?;
            }
        }
        self.set_rules(emulator)
    }

    fn set(&mut self, region: &RegionName, condition: Condition) {
        if let Some(at) = self.regions.iter().position(|known| known == region) {
            self.conditions[at] = condition;
        }
    }

    /// Replaces the account's fault rules by those that follow from the conditions.
    fn set_rules(&self, emulator: &Emulator) -> Result<(), DemoError> {
        let account = emulator.account();
        account.clear_faults();
        let states = self.regions.iter().zip(&self.conditions).enumerate();
        // The first rule that applies counts: a sick partition before the distance of its region.
        let sick = states.clone().filter_map(|(_, (region, condition))| match condition {
            Condition::PartitionSick(range) => Some(sick_partition(region, range)),
            Condition::Healthy | Condition::Slow(_) | Condition::Down => None,
        });
        let distances = states.map(|(number, (region, condition))| {
            let more = match condition {
                Condition::Slow(by) => *by,
                Condition::Healthy | Condition::PartitionSick(_) | Condition::Down => {
                    Duration::ZERO
                }
            };
            Ok(distance(region, Duration::from_millis(distance_ms(number)) + more))
        });
        for rule in sick.chain(distances) {
            account.add_fault(rule?)?;
        }
        Ok(())
    }
}

/// The distance of the region with this number.
pub(crate) fn distance_ms(number: usize) -> u64 {
    DISTANCES_MS[number.min(DISTANCES_MS.len() - 1)]
}

/// A partition that answers 503 in a region, whatever it is asked; in every container.
fn sick_partition(region: &RegionName, range: &str) -> Result<FaultRule, DemoError> {
    let range: PartitionKeyRangeId = range
        .parse()
        .map_err(|_| DemoError::Driver(format!("{range} names no partition range")))?;
    let condition = FaultCondition { range: Some(range), ..documents_in(region) };
    let effect = FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None };
    Ok(FaultRule { condition, ..FaultRule::new(effect) })
}

/// Answers of a region that take their time.
fn distance(region: &RegionName, wait: Duration) -> FaultRule {
    let effect = FaultEffect::DelayBefore { wait };
    FaultRule { condition: documents_in(region), ..FaultRule::new(effect) }
}

fn documents_in(region: &RegionName) -> FaultCondition {
    FaultCondition {
        region: Some(region.clone()),
        resource: Some(ResourceType::Document),
        ..FaultCondition::default()
    }
}

/// Moves the writes of a partition of every container, or back to where the account writes.
fn move_writes(emulator: &Emulator, range: &str, to: Option<&RegionName>) -> Result<(), DemoError> {
    for container in CONTAINERS {
        emulator.account().move_partition(DATABASE, container, range, to)?;
    }
    Ok(())
}
