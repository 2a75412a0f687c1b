//! What an account can be asked about its regions.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidereal_protocol::RegionName;

use crate::account::Account;
use crate::millis;

/// A region as it is now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionState {
    /// Its name.
    pub name: RegionName,
    /// The port of its own endpoint; none where the account has a single endpoint.
    pub port: Option<u16>,
    /// Whether its endpoint can be connected to.
    pub online: bool,
    /// Whether it was taken out of the account.
    pub removed: bool,
    /// Whether it accepts writes of the account.
    pub accepts_writes: bool,
    /// How far behind its replicas are.
    #[serde(rename = "replication_delay_ms", with = "millis")]
    pub replication_delay: Duration,
    /// Whether writes arrive there at all.
    pub replication_paused: bool,
}

impl Account {
    /// Every region that the account has or had, in the order in which they were named.
    #[must_use]
    pub fn region_states(&self) -> Vec<RegionState> {
        let topology = self.regions().current();
        let now = self.options().clock.now();
        let state = |(index, region): (usize, &crate::regions::Region)| RegionState {
            name: region.name.clone(),
            port: region.port,
            online: region.online,
            removed: region.removed,
            accepts_writes: !region.removed
                && (topology.multi_write || topology.writer(now) == index),
            replication_delay: region.replication.delay,
            replication_paused: region.replication.paused,
        };
        topology.regions.iter().enumerate().map(state).collect()
    }
}
