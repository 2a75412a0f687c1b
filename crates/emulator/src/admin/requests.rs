//! The bodies that the admin API takes.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sidereal_protocol::RegionName;

use super::AdminError;
use crate::clock::Timestamp;
use crate::control::WriteRegionChange;
use crate::faults::FaultRule;
use crate::millis;
use crate::topology::{ANNOUNCEMENT, OVERLAP};

/// Replication to a region; what is absent stays as it is.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replication {
    pub(super) paused: Option<bool>,
    #[serde(default, rename = "delay_ms", with = "millis::optional")]
    pub(super) delay: Option<Duration>,
}

/// The account's new write region, and the kind of failover.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteRegion {
    pub(super) region: RegionName,
    #[serde(default)]
    forced: bool,
    #[serde(default, rename = "announcement_ms", with = "millis::optional")]
    announcement: Option<Duration>,
    #[serde(default, rename = "overlap_ms", with = "millis::optional")]
    overlap: Option<Duration>,
}

impl WriteRegion {
    pub(super) fn change(&self) -> Result<WriteRegionChange, AdminError> {
        if !self.forced {
            return Ok(WriteRegionChange::Graceful {
                announcement: self.announcement.unwrap_or(ANNOUNCEMENT),
                overlap: self.overlap.unwrap_or(OVERLAP),
            });
        }
        if self.announcement.is_some() || self.overlap.is_some() {
            let message =
                "A forced change takes effect at once: leave out announcement_ms and overlap_ms.";
            return Err(AdminError::bad_request(message));
        }
        Ok(WriteRegionChange::Forced)
    }
}

/// The write region of one partition range; without one, the account's own again.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Move {
    pub(super) container: String,
    pub(super) range: String,
    pub(super) region: Option<RegionName>,
}

/// A partition range that is to become two.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Split {
    pub(super) container: String,
    pub(super) range: String,
    #[serde(default, rename = "takes_ms", with = "millis::optional")]
    pub(super) takes: Option<Duration>,
}

/// Two neighbouring partition ranges that are to become one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Merge {
    pub(super) container: String,
    pub(super) left: String,
    pub(super) right: String,
    #[serde(default, rename = "takes_ms", with = "millis::optional")]
    pub(super) takes: Option<Duration>,
}

/// A body as the request it should be.
pub(super) fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, AdminError> {
    serde_json::from_slice(body).map_err(|error| refused(&error))
}

/// A fault rule. Its start and end may also be given from now on: `after_ms` and `for_ms`.
pub(super) fn parse_fault(body: &[u8], now: Timestamp) -> Result<FaultRule, AdminError> {
    let mut fields: Map<String, Value> = parse(body)?;
    let mut relative = |name: &str| match fields.remove(name) {
        None => Ok(None),
        Some(value) => {
            value.as_u64().map(|millis| Some(Duration::from_millis(millis))).ok_or_else(|| {
                AdminError::bad_request(format!("{name} must be a number of milliseconds."))
            })
        }
    };
    let (after, lasts) = (relative("after_ms")?, relative("for_ms")?);
    let mut rule: FaultRule =
        serde_json::from_value(Value::Object(fields)).map_err(|error| refused(&error))?;
    rule.start = after.map(|after| now.after(after)).or(rule.start);
    rule.end = lasts.map(|lasts| rule.start.unwrap_or(now).after(lasts)).or(rule.end);
    Ok(rule)
}

/// Database and container of `database/container`.
pub(super) fn container_names(text: &str) -> Result<(&str, &str), AdminError> {
    let names = text.split_once('/').filter(|(database, container)| {
        !database.is_empty() && !container.is_empty() && !container.contains('/')
    });
    names.ok_or_else(|| {
        AdminError::bad_request(format!("\"{text}\" is not a container: write database/container."))
    })
}

fn refused(error: &serde_json::Error) -> AdminError {
    AdminError::bad_request(format!("The body is not what this path takes: {error}."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000);

    fn fault(body: &Value) -> Result<FaultRule, AdminError> {
        parse_fault(body.to_string().as_bytes(), NOW)
    }

    #[test]
    fn a_fault_may_start_and_end_from_now_on() {
        let of = |fields: Value| {
            let mut body = json!({ "effect": { "kind": "hang" } });
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let rule = fault(&body).unwrap();
            (rule.start.map(Timestamp::millis), rule.end.map(Timestamp::millis))
        };
        assert_eq!(of(json!({})), (None, None));
        assert_eq!(of(json!({ "after_ms": 10, "for_ms": 5 })), (Some(1_010), Some(1_015)));
        assert_eq!(of(json!({ "for_ms": 5 })), (None, Some(1_005)));
        assert_eq!(of(json!({ "start": 7, "end": 9 })), (Some(7), Some(9)));
        assert!(fault(&json!({ "effect": { "kind": "hang" }, "for_ms": "long" })).is_err());
    }

    #[test]
    fn a_forced_change_has_no_durations() {
        let change = |body: Value| parse::<WriteRegion>(body.to_string().as_bytes())?.change();
        assert_eq!(change(json!({ "region": "East US" })).unwrap(), WriteRegionChange::GRACEFUL);
        assert_eq!(
            change(json!({ "region": "East US", "forced": true })).unwrap(),
            WriteRegionChange::Forced
        );
        assert!(change(json!({ "region": "East US", "forced": true, "overlap_ms": 1 })).is_err());
    }

    #[test]
    fn a_container_is_named_with_its_database() {
        assert_eq!(container_names("db/c").unwrap(), ("db", "c"));
        for wrong in ["db", "/c", "db/", "a/b/c"] {
            assert!(container_names(wrong).is_err(), "{wrong}");
        }
    }
}
