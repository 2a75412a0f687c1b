//! The stages after merging: `DISTINCT`, then the row window.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sidereal_protocol::{DistinctType, QueryInfo};

use super::MergeError;
use crate::order::{compare, identity};

/// The state of `DISTINCT`.
#[derive(Debug)]
pub(super) enum Distinct {
    Off,
    /// Equal rows come together, so the last one is all there is to know.
    Ordered(Option<Value>),
    Unordered(HashSet<Vec<u8>>),
}

impl Distinct {
    pub(super) fn of(kind: DistinctType) -> Self {
        match kind {
            DistinctType::None => Self::Off,
            DistinctType::Ordered => Self::Ordered(None),
            DistinctType::Unordered => Self::Unordered(HashSet::new()),
        }
    }

    /// Whether the row is new. At most so many are held.
    pub(super) fn is_new(&mut self, row: &Value, max_rows: usize) -> Result<bool, MergeError> {
        match self {
            Self::Off => Ok(true),
            Self::Ordered(last) => {
                let new = last.as_ref().is_none_or(|last| compare(Some(last), Some(row)).is_ne());
                if new {
                    *last = Some(row.clone());
                }
                Ok(new)
            }
            Self::Unordered(seen) => {
                let is_new = seen.insert(identity(Some(row)));
                if seen.len() > max_rows { Err(MergeError::TooManyRows) } else { Ok(is_new) }
            }
        }
    }
}

/// The rest of `TOP` and `OFFSET … LIMIT …`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WindowLeft {
    /// Rows still to leave out.
    pub skip: u64,
    /// Rows still to give, if there is a limit.
    pub take: Option<u64>,
}

impl WindowLeft {
    pub(super) fn of(info: &QueryInfo) -> Self {
        Self { skip: info.offset.unwrap_or(0), take: info.top.or(info.limit) }
    }

    pub(super) fn is_closed(self) -> bool {
        self.take == Some(0)
    }

    /// Whether the next row is given.
    pub(super) fn admits(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.take {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }
}
