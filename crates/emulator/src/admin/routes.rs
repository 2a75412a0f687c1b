//! The routes of the admin API: which path does what.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use sidereal_protocol::RegionName;

use super::requests::{
    Merge, Move, Replication, Split, WriteRegion, container_names, parse, parse_fault,
};
use super::{ADMIN_PATH_PREFIX, Admin, AdminError};
use crate::control::ControlError;
use crate::faults::InvalidFault;
use crate::region_listeners::RegionError;

/// The list of routes, for requests to any other path.
const ROUTES: &str = "\
GET regions, POST regions/{name}/offline, POST regions/{name}/online, POST regions/{name}/remove, \
POST regions/{name}/replication, POST write-region, POST partitions/move, POST partitions/split, \
POST partitions/merge, GET faults, POST faults, DELETE faults, DELETE faults/{name}, GET counters, \
DELETE counters";

/// The body of a successful response, or why there is none.
type RouteResult = Result<Value, AdminError>;

impl Admin {
    /// Does what the path names.
    pub(super) fn route(&self, request: &Request<Bytes>) -> RouteResult {
        let path = request.uri().path().strip_prefix(ADMIN_PATH_PREFIX).unwrap_or_default();
        let parts: Vec<Cow<'_, str>> = path
            .trim_end_matches('/')
            .split('/')
            // Decoded after the split: an encoded slash stays within its segment.
            .map(|part| percent_decode_str(part).decode_utf8_lossy())
            .collect();
        let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
        let body = request.body();
        match (request.method(), parts.as_slice()) {
            (&Method::GET, ["regions"]) => Ok(self.regions()),
            (&Method::POST, ["regions", name, "offline"]) => self.take_offline(name),
            (&Method::POST, ["regions", name, "online"]) => self.bring_online(name),
            (&Method::POST, ["regions", name, "remove"]) => self.remove(name),
            (&Method::POST, ["regions", name, "replication"]) => self.replication(name, body),
            (&Method::POST, ["write-region"]) => self.change_write_region(body),
            (&Method::POST, ["partitions", "move"]) => self.move_partition(body),
            (&Method::POST, ["partitions", "split"]) => self.split(body),
            (&Method::POST, ["partitions", "merge"]) => self.merge(body),
            (&Method::GET, ["faults"]) => Ok(json!({ "faults": self.account.faults() })),
            (&Method::POST, ["faults"]) => self.add_fault(body),
            (&Method::DELETE, ["faults"]) => Ok(json!({ "removed": self.account.clear_faults() })),
            (&Method::DELETE, ["faults", name]) => self.remove_fault(name),
            (&Method::GET, ["counters"]) => Ok(json!({ "counters": self.account.counters() })),
            (&Method::DELETE, ["counters"]) => {
                self.account.reset_counters();
                Ok(json!({}))
            }
            (method, _) => Err(AdminError::not_found(format!(
                "There is no {method} {ADMIN_PATH_PREFIX}{path}; there are: {ROUTES}."
            ))),
        }
    }

    fn regions(&self) -> Value {
        json!({ "regions": self.account.region_states() })
    }

    fn take_offline(&self, name: &str) -> RouteResult {
        self.listeners.take_offline(&RegionName::from(name))?;
        Ok(self.regions())
    }

    fn bring_online(&self, name: &str) -> RouteResult {
        self.listeners.bring_online(&RegionName::from(name))?;
        Ok(self.regions())
    }

    fn remove(&self, name: &str) -> RouteResult {
        self.account.remove_region(&RegionName::from(name))?;
        Ok(self.regions())
    }

    fn replication(&self, name: &str, body: &[u8]) -> RouteResult {
        let Replication { paused, delay } = parse(body)?;
        let region = RegionName::from(name);
        if let Some(paused) = paused {
            self.account.pause_replication(&region, paused)?;
        }
        if let Some(delay) = delay {
            self.account.set_replication_delay(&region, delay)?;
        }
        Ok(self.regions())
    }

    fn change_write_region(&self, body: &[u8]) -> RouteResult {
        let wanted: WriteRegion = parse(body)?;
        let lost = self.account.change_write_region(&wanted.region, wanted.change()?)?;
        Ok(json!({ "lost_writes": lost }))
    }

    fn move_partition(&self, body: &[u8]) -> RouteResult {
        let Move { container, range, region } = parse(body)?;
        let (database, container) = container_names(&container)?;
        self.account.move_partition(database, container, &range, region.as_ref())?;
        Ok(json!({}))
    }

    fn split(&self, body: &[u8]) -> RouteResult {
        let Split { container, range, takes } = parse(body)?;
        let (database, container) = container_names(&container)?;
        let takes = takes.unwrap_or(Duration::ZERO);
        let children = self.account.split_range(database, container, &range, takes)?;
        Ok(json!({ "ranges": children }))
    }

    fn merge(&self, body: &[u8]) -> RouteResult {
        let Merge { container, left, right, takes } = parse(body)?;
        let (database, container) = container_names(&container)?;
        let takes = takes.unwrap_or(Duration::ZERO);
        let merged = self.account.merge_ranges(database, container, &left, &right, takes)?;
        Ok(json!({ "ranges": [merged] }))
    }

    fn add_fault(&self, body: &[u8]) -> RouteResult {
        let rule = parse_fault(body, self.account.options().clock.now())?;
        Ok(json!({ "name": self.account.add_fault(rule)? }))
    }

    fn remove_fault(&self, name: &str) -> RouteResult {
        match self.account.remove_fault(name) {
            true => Ok(json!({ "removed": 1 })),
            false => Err(AdminError::not_found(format!("There is no fault rule {name}."))),
        }
    }
}

/// Sentences of the account begin in lower case, as errors in Rust do.
impl From<ControlError> for AdminError {
    fn from(error: ControlError) -> Self {
        Self::bad_request(format!("This cannot be done: {error}."))
    }
}

impl From<InvalidFault> for AdminError {
    fn from(error: InvalidFault) -> Self {
        Self::bad_request(format!("The fault rule cannot be taken: {error}."))
    }
}

impl From<RegionError> for AdminError {
    fn from(error: RegionError) -> Self {
        match error {
            RegionError::Control(error) => error.into(),
            RegionError::Port { .. } => {
                Self::new(StatusCode::CONFLICT, "Conflict", format!("{error}."))
            }
        }
    }
}
