//! The control plane of an account: regions, replication, failover of the write region, splits and merges.
//!
//! No request passes through here. Every method takes effect when it returns. Closing and opening a
//! region's listener is the emulator's, which owns the sockets.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidereal_protocol::RegionName;
use thiserror::Error;

use crate::account::Account;
use crate::millis;
use crate::store::{Container, Partition};
use crate::topology::{ANNOUNCEMENT, OVERLAP, Region};

/// How writes move to another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRegionChange {
    /// A planned failover, which loses nothing: the new region is announced while the old one still accepts
    /// writes, then the old one refuses them (403/3) while it is still listed. The durations are the two
    /// phases.
    Graceful {
        /// How long the old region still accepts writes.
        announcement: Duration,
        /// How long it is still listed after that.
        overlap: Duration,
    },
    /// A forced failover, at once: writes that have not arrived in the new region are lost.
    Forced,
}

impl WriteRegionChange {
    /// A planned failover that takes as long as it does on the service.
    pub const GRACEFUL: Self = Self::Graceful { announcement: ANNOUNCEMENT, overlap: OVERLAP };
}

/// An acknowledged write that a forced failover lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostWrite {
    /// The database's id.
    pub database: String,
    /// The container's id.
    pub container: String,
    /// The partition range's id.
    pub range: String,
    /// The write's sequence number.
    pub lsn: u64,
    /// The items it wrote or deleted.
    pub items: Vec<String>,
}

/// Why something cannot be done to an account; the text says what to change.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ControlError {
    /// The account has no such region.
    #[error("the account has no region {region}; it has {known}")]
    UnknownRegion {
        /// The region that was named.
        region: RegionName,
        /// The regions that there are, separated by commas.
        known: String,
    },
    /// The region has no listener that could be closed or opened.
    #[error(
        "{region} is the account's only region and has no port of its own: start the account with several regions"
    )]
    NoOwnPort {
        /// The region that was named.
        region: RegionName,
    },
    /// The write region cannot be removed.
    #[error("{region} accepts writes: change the write region before removing it")]
    AcceptsWrites {
        /// The region that was named.
        region: RegionName,
    },
    /// There is no such container.
    #[error("there is no container {container}; {known}")]
    UnknownContainer {
        /// The container that was named, as `database/container`.
        container: String,
        /// The alternatives, as the end of a sentence.
        known: String,
    },
    /// The container has no such partition range.
    #[error("{container} has no partition range {range}; it has {known}")]
    UnknownRange {
        /// The container, as `database/container`.
        container: String,
        /// The range that was named.
        range: String,
        /// The ranges that there are, separated by commas.
        known: String,
    },
    /// The account is kept on disk, and what was asked for is for accounts in memory.
    #[error("the account is kept on disk: start one in memory, without a data directory")]
    Stored,
    /// The partition ranges cannot be split or merged so.
    #[error("{reason}")]
    LayoutRefused {
        /// The reason.
        reason: String,
    },
}

/// A region as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionState {
    /// Its name.
    pub name: RegionName,
    /// The port of its own endpoint; none where the account has a single endpoint.
    pub port: Option<u16>,
    /// Whether its endpoint can be connected to.
    pub online: bool,
    /// Whether it was removed from the account.
    pub removed: bool,
    /// Whether it accepts writes of the account.
    pub accepts_writes: bool,
    /// How far behind its replicas are.
    #[serde(rename = "replication_delay_ms", with = "millis")]
    pub replication_delay: Duration,
    /// Whether replication to it is paused.
    pub replication_paused: bool,
}

impl Account {
    /// Every region that the account has or had, in the order in which they were named.
    #[must_use]
    pub fn region_states(&self) -> Vec<RegionState> {
        let topology = self.state().topology.current();
        let now = self.state().now();
        let state = |(index, region): (usize, &Region)| RegionState {
            name: region.name.clone(),
            port: region.port,
            online: region.online,
            removed: region.removed,
            accepts_writes: !region.removed
                && (topology.multi_write || topology.write_region(now) == index),
            replication_delay: region.replication.delay,
            replication_paused: region.replication.paused,
        };
        topology.regions.iter().enumerate().map(state).collect()
    }

    /// How many containers there are, and how many partitions they have together.
    #[must_use]
    pub fn container_and_partition_counts(&self) -> (usize, usize) {
        let catalog = &self.state().catalog;
        let containers =
            catalog.databases().iter().map(|database| database.containers().len()).sum();
        (containers, catalog.partition_count())
    }

    /// The account's regions, the one that accepts writes first.
    #[must_use]
    pub fn region_names(&self) -> Vec<RegionName> {
        let topology = self.state().topology.current();
        topology
            .readable()
            .into_iter()
            .map(|region| topology.regions[region].name.clone())
            .collect()
    }

    /// Sets how far behind a region's replicas are; entries that are queued already are affected too.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn set_replication_delay(
        &self,
        region: &RegionName,
        delay: Duration,
    ) -> Result<(), ControlError> {
        let region = self.known_region(region)?;
        // What was due under the old delay is applied first: time already passed is not taken back.
        self.catch_up(region);
        self.state().change_topology(|topology| topology.regions[region].replication.delay = delay);
        self.commit();
        Ok(())
    }

    /// Pauses or resumes replication to a region.
    ///
    /// While it is paused the entries that it has to apply pile up without a bound, in memory and in the data
    /// directory: as much as is written meanwhile, also where one item is written over and over. The region
    /// applies them one by one when it is resumed, through every state that the account was in, which releases them.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn pause_replication(&self, region: &RegionName, paused: bool) -> Result<(), ControlError> {
        let region = self.known_region(region)?;
        self.catch_up(region);
        self.state()
            .change_topology(|topology| topology.regions[region].replication.paused = paused);
        self.commit();
        Ok(())
    }

    /// Moves writes to another region and returns the acknowledged writes that this lost.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn change_write_region(
        &self,
        to: &RegionName,
        change: WriteRegionChange,
    ) -> Result<Vec<LostWrite>, ControlError> {
        let region = self.known_region(to)?;
        let now = self.state().now();
        let lost = match change {
            WriteRegionChange::Graceful { announcement, overlap } => {
                self.state().change_topology(|topology| {
                    topology.hand_over(region, now, announcement, overlap);
                });
                Vec::new()
            }
            WriteRegionChange::Forced => {
                // The topology changes before the logs are truncated: no write reaches the old region in
                // between.
                self.catch_up(region);
                self.state().change_topology(|topology| topology.force_write_region(region));
                self.truncate_to(region)
            }
        };
        self.commit();
        Ok(lost)
    }

    /// Lets every region accept writes from now on, as an operator enables it on a live account. Clients that read the account
    /// before send their writes where they did.
    ///
    /// # Errors
    ///
    /// The account is kept on disk, where its regions are chosen for good.
    pub fn enable_multiple_write_regions(&self) -> Result<(), ControlError> {
        if self.state().is_stored() {
            return Err(ControlError::Stored);
        }
        for database in self.state().catalog.databases() {
            for container in database.containers() {
                for partition in container.partitions().iter() {
                    partition.write().enable_multi_write();
                }
            }
        }
        self.state().change_topology(|topology| topology.multi_write = true);
        Ok(())
    }

    /// Removes a region from the account: its endpoint answers 403/1008 from now on.
    ///
    /// # Errors
    ///
    /// The account has no such region, or it is the one that accepts writes.
    pub fn remove_region(&self, region: &RegionName) -> Result<(), ControlError> {
        let index = self.known_region(region)?;
        if self.state().topology.current().write_region(self.state().now()) == index {
            return Err(ControlError::AcceptsWrites { region: region.clone() });
        }
        self.state().change_topology(|topology| topology.regions[index].removed = true);
        self.commit();
        Ok(())
    }

    /// Moves the writes of one partition to a region, or back to where the account writes.
    ///
    /// # Errors
    ///
    /// The account has no such region, container or partition range.
    pub fn move_partition(
        &self,
        database: &str,
        container: &str,
        range: &str,
        to: Option<&RegionName>,
    ) -> Result<(), ControlError> {
        let write_region = to.map(|region| self.known_region(region)).transpose()?;
        let found = self.known_container(database, container)?;
        let partition = known_range(&found, (database, container), range)?;
        let account_region = self.state().topology.current().write_region(self.state().now());
        let mut state = partition.write();
        state.override_write_region(write_region, account_region);
        found.store_partition(&partition, &mut state);
        drop(state);
        self.commit();
        Ok(())
    }

    /// Splits a partition range in two and returns the ids of its halves. Requests that name the old range get
    /// 410/1007 for as long as the split takes and 410/1002 after; requests by key are not disturbed.
    ///
    /// # Errors
    ///
    /// There is no such container or range, or it is too narrow.
    pub fn split_range(
        &self,
        database: &str,
        container: &str,
        range: &str,
        takes: Duration,
    ) -> Result<[String; 2], ControlError> {
        let complete_at = self.state().now().after(takes);
        let found = self.known_container(database, container)?;
        known_range(&found, (database, container), range)?;
        let definition = found.definition();
        let halves =
            found.change_layout(|layout| layout.split(range, &definition.key, complete_at));
        self.commit();
        Ok(halves.map_err(layout_refused)?.map(|id| id.to_string()))
    }

    /// Merges two neighbouring partition ranges and returns the id of the result.
    ///
    /// # Errors
    ///
    /// There is no such container, or the ranges are not neighbours in that order.
    pub fn merge_ranges(
        &self,
        database: &str,
        container: &str,
        left: &str,
        right: &str,
        takes: Duration,
    ) -> Result<String, ControlError> {
        let complete_at = self.state().now().after(takes);
        let found = self.known_container(database, container)?;
        for range in [left, right] {
            known_range(&found, (database, container), range)?;
        }
        let whole = found.change_layout(|layout| layout.merge(left, right, complete_at));
        self.commit();
        Ok(whole.map_err(layout_refused)?.to_string())
    }

    /// Lets a region's endpoint accept or refuse connections; replication to it continues. With sockets,
    /// `Emulator::take_offline` closes the listener besides.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn set_online(&self, region: &RegionName, online: bool) -> Result<(), ControlError> {
        let region = self.known_region(region)?;
        // An outage is over when the account starts again, and so it is not stored.
        self.state().topology.change(|topology| topology.regions[region].online = online);
        Ok(())
    }

    /// Sets the port that a region is advertised on.
    pub(crate) fn set_port(&self, region: &RegionName, port: u16) -> Result<(), ControlError> {
        let region = self.known_region(region)?;
        self.state().topology.change(|topology| topology.regions[region].port = Some(port));
        Ok(())
    }

    /// The number of a region; one that the account does not have is told with those that it has.
    pub(crate) fn known_region(&self, region: &RegionName) -> Result<usize, ControlError> {
        let topology = self.state().topology.current();
        topology.index_of(region).ok_or_else(|| {
            let names: Vec<&str> =
                topology.regions.iter().map(|known| known.name.as_str()).collect();
            ControlError::UnknownRegion { region: region.clone(), known: names.join(", ") }
        })
    }

    fn known_container(
        &self,
        database: &str,
        container: &str,
    ) -> Result<Arc<Container>, ControlError> {
        let found =
            self.state().catalog.database(database).and_then(|found| found.container(container));
        found.ok_or_else(|| ControlError::UnknownContainer {
            container: format!("{database}/{container}"),
            known: self.known_containers(),
        })
    }

    /// The containers that there are, as the end of a sentence.
    fn known_containers(&self) -> String {
        let names = self.state().catalog.databases().into_iter().flat_map(|database| {
            let name = |container: Arc<Container>| format!("{}/{}", database.id, container.id);
            database.containers().into_iter().map(name).collect::<Vec<String>>()
        });
        match listed(names) {
            names if names.is_empty() => "none exist yet".to_owned(),
            names => format!("there are {names}"),
        }
    }

    /// Applies what is due in a region by now, in every partition.
    fn catch_up(&self, region: usize) {
        let replication = self.state().topology.current().regions[region].replication;
        let now = self.state().now();
        for database in self.state().catalog.databases() {
            for container in database.containers() {
                for partition in container.partitions().iter() {
                    let mut state = partition.write();
                    state.catch_up(region, replication, now);
                    // Under another delay it would not be due again after a restart.
                    container.store_partition(partition, &mut state);
                }
            }
        }
    }

    fn truncate_to(&self, region: usize) -> Vec<LostWrite> {
        let mut lost = Vec::new();
        for database in self.state().catalog.databases() {
            for container in database.containers() {
                for partition in container.partitions().iter() {
                    let mut state = partition.write();
                    let cut = state.truncate_to(region);
                    container.store_partition(partition, &mut state);
                    drop(state);
                    lost.extend(cut.into_iter().map(|cut| LostWrite {
                        database: database.id.to_string(),
                        container: container.id.to_string(),
                        range: partition.id.to_string(),
                        lsn: cut.lsn,
                        items: cut.ids,
                    }));
                }
            }
        }
        lost
    }
}

/// A partition range by its id; one that the container does not have is told with those that it has.
fn known_range(
    container: &Container,
    (database, name): (&str, &str),
    range: &str,
) -> Result<Arc<Partition>, ControlError> {
    let partitions = container.partitions();
    let found = partitions.iter().find(|partition| partition.id.as_str() == range);
    found.cloned().ok_or_else(|| ControlError::UnknownRange {
        container: format!("{database}/{name}"),
        range: range.to_owned(),
        known: listed(partitions.iter().map(|partition| partition.id.to_string())),
    })
}

/// Names in a sentence: the first of them, where there are more than anybody reads.
fn listed(names: impl IntoIterator<Item = String>) -> String {
    const MOST: usize = 20;
    let mut names: Vec<String> = names.into_iter().take(MOST + 1).collect();
    if names.len() > MOST {
        names[MOST] = "…".to_owned();
    }
    names.join(", ")
}

fn layout_refused(reason: String) -> ControlError {
    ControlError::LayoutRefused { reason }
}
