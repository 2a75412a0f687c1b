//! What can be done to an account from outside its data: regions, replication, write regions.
//!
//! Everything here is a method and takes effect at once. Closing and opening a region's port is the
//! emulator's, which owns the sockets.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidereal_protocol::RegionName;

use crate::account::Account;
use crate::regions::{ANNOUNCEMENT, OVERLAP};
use crate::store::Container;

/// How writes move to another region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteRegionChange {
    /// Nothing is lost: the new region is announced while the old one still accepts, then the old one
    /// refuses (403/3) while it is still listed. The durations are the two parts.
    Graceful {
        /// How long the old region still accepts writes.
        announcement: Duration,
        /// How long it is still listed after that.
        overlap: Duration,
    },
    /// At once: what has not arrived in the new region is cut off.
    Forced,
}

impl WriteRegionChange {
    /// A graceful change that takes as long as it does on the service.
    pub const GRACEFUL: Self = Self::Graceful { announcement: ANNOUNCEMENT, overlap: OVERLAP };
}

/// An acknowledged write that a forced change of the write region cut off.
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

/// Something was named that the account does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName(String);

impl UnknownName {
    pub(crate) fn new(sentence: String) -> Self {
        Self(sentence)
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for UnknownName {}

impl Account {
    /// The account's regions, the one that accepts writes first.
    #[must_use]
    pub fn region_names(&self) -> Vec<RegionName> {
        let topology = self.regions().current();
        topology
            .readable()
            .into_iter()
            .map(|region| topology.regions[region].name.clone())
            .collect()
    }

    /// Lets a region's replicas follow so much later; what is on its way already is affected too.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn set_replication_delay(
        &self,
        region: &RegionName,
        delay: Duration,
    ) -> Result<(), UnknownName> {
        let region = self.known_region(region)?;
        self.catch_up(region);
        self.regions().change(|topology| topology.regions[region].replication.delay = delay);
        Ok(())
    }

    /// Stops or resumes the arrival of writes in a region.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn pause_replication(&self, region: &RegionName, paused: bool) -> Result<(), UnknownName> {
        let region = self.known_region(region)?;
        self.catch_up(region);
        self.regions().change(|topology| topology.regions[region].replication.paused = paused);
        Ok(())
    }

    /// Moves writes to another region; answers with the acknowledged writes that this lost.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn change_write_region(
        &self,
        to: &RegionName,
        change: WriteRegionChange,
    ) -> Result<Vec<LostWrite>, UnknownName> {
        let region = self.known_region(to)?;
        let now = self.options().clock.now();
        match change {
            WriteRegionChange::Graceful { announcement, overlap } => {
                self.regions()
                    .change(|topology| topology.hand_over(region, now, announcement, overlap));
                Ok(Vec::new())
            }
            WriteRegionChange::Forced => {
                self.catch_up(region);
                self.regions().change(|topology| topology.seize(region));
                Ok(self.cut_off_after(region))
            }
        }
    }

    /// Takes a region out of the account: its endpoint answers 403/1008 from now on.
    ///
    /// # Errors
    ///
    /// The account has no such region, or it is the one that accepts writes.
    pub fn remove_region(&self, region: &RegionName) -> Result<(), UnknownName> {
        let index = self.known_region(region)?;
        if self.regions().current().writer(self.options().clock.now()) == index {
            let message =
                format!("{region} accepts writes: change the write region before removing it");
            return Err(UnknownName(message));
        }
        self.regions().change(|topology| topology.regions[index].removed = true);
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
    ) -> Result<(), UnknownName> {
        let home = to.map(|region| self.known_region(region)).transpose()?;
        let found = self.known_container(database, container)?;
        let partitions = found.partitions();
        let partition = partitions.iter().find(|partition| partition.id.as_str() == range);
        let partition = partition.ok_or_else(|| {
            UnknownName(format!("{database}/{container} has no partition range {range}"))
        })?;
        let writer = self.regions().current().writer(self.options().clock.now());
        partition.write().move_home(home, writer);
        Ok(())
    }

    /// Cuts a partition range in two and gives the ids of its halves. Requests that name the old range get
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
    ) -> Result<[String; 2], UnknownName> {
        let complete_at = self.options().clock.now().after(takes);
        let found = self.known_container(database, container)?;
        let definition = found.definition();
        let halves =
            found.change_layout(|layout| layout.split(range, &definition.key, complete_at));
        Ok(halves.map_err(UnknownName)?.map(|id| id.to_string()))
    }

    /// Makes one partition range of two neighbours and gives its id.
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
    ) -> Result<String, UnknownName> {
        let complete_at = self.options().clock.now().after(takes);
        let found = self.known_container(database, container)?;
        let whole = found.change_layout(|layout| layout.merge(left, right, complete_at));
        Ok(whole.map_err(UnknownName)?.to_string())
    }

    /// Opens or closes a region's door, as far as [`Account::handle_in`] is concerned; its log still arrives.
    /// With sockets, `Emulator::take_offline` closes the port besides.
    ///
    /// # Errors
    ///
    /// The account has no such region.
    pub fn set_online(&self, region: &RegionName, online: bool) -> Result<(), UnknownName> {
        let region = self.known_region(region)?;
        self.regions().change(|topology| topology.regions[region].online = online);
        Ok(())
    }

    /// Tells clients on which port a region answers.
    pub(crate) fn set_port(&self, region: &RegionName, port: u16) -> Result<(), UnknownName> {
        let region = self.known_region(region)?;
        self.regions().change(|topology| topology.regions[region].port = Some(port));
        Ok(())
    }

    fn known_region(&self, region: &RegionName) -> Result<usize, UnknownName> {
        let topology = self.regions().current();
        topology.index_of(region).ok_or_else(|| {
            let names: Vec<&str> =
                topology.regions.iter().map(|known| known.name.as_str()).collect();
            UnknownName(format!("the account has no region {region}; it has {}", names.join(", ")))
        })
    }

    fn known_container(
        &self,
        database: &str,
        container: &str,
    ) -> Result<Arc<Container>, UnknownName> {
        let found = self.catalog().database(database).and_then(|found| found.container(container));
        found.ok_or_else(|| UnknownName(format!("there is no container {database}/{container}")))
    }

    /// Lets a region have what has arrived there by now.
    fn catch_up(&self, region: usize) {
        let replication = self.regions().current().regions[region].replication;
        let now = self.options().clock.now();
        for database in self.catalog().databases() {
            for container in database.containers() {
                for partition in container.partitions().iter() {
                    partition.write().catch_up(region, replication, now);
                }
            }
        }
    }

    fn cut_off_after(&self, region: usize) -> Vec<LostWrite> {
        let mut lost = Vec::new();
        for database in self.catalog().databases() {
            for container in database.containers() {
                for partition in container.partitions().iter() {
                    let cut = partition.write().cut_off_after(region);
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
