//! Views of a run while it lasts and at its end.

mod frame;
mod live;
pub(crate) mod phase_rows;
mod plain;
mod summary;
mod table;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use sidereal_protocol::RegionName;

use crate::director::Condition;
use crate::error::DemoError;
use crate::observe::Timeline;
use crate::print::print;
use crate::schedule::{Action, Schedule};

pub(crate) use summary::summary;

/// The state of a run that a view draws.
pub(crate) struct Picture<'a> {
    pub(crate) at: Duration,
    pub(crate) schedule: &'a Schedule,
    pub(crate) timeline: &'a Timeline,
    /// The condition of each region.
    pub(crate) conditions: &'a [Condition],
    pub(crate) started: u32,
}

/// The settings of a run, printed before it begins.
pub(crate) struct Opening<'a> {
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) rate: u32,
    pub(crate) regions: &'a [RegionName],
    pub(crate) schedule: &'a Schedule,
}

/// Where a run is shown.
pub(crate) enum View {
    /// On a terminal.
    Live(live::Live),
    /// In a pipe or a file, or on a terminal that cannot do more.
    Plain(plain::Plain),
}

impl View {
    /// The view that suits standard output.
    pub(crate) fn of_standard_output() -> Self {
        // A terminal that calls itself dumb cannot move its cursor.
        let is_dumb = std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb");
        match io::stdout().is_terminal() && !is_dumb {
            true => live::Live::on_terminal().map_or_else(Self::plain, Self::Live),
            false => Self::plain(),
        }
    }

    fn plain() -> Self {
        Self::Plain(plain::Plain::default())
    }

    /// Says what the run is about.
    pub(crate) fn begin(&mut self, opening: &Opening<'_>) -> Result<(), DemoError> {
        print(&summary::opening(opening))
    }

    /// Says what happens to the account.
    pub(crate) fn act(&mut self, at: Duration, action: &Action) -> Result<(), DemoError> {
        match self {
            Self::Live(live) => live.act(at, action),
            Self::Plain(plain) => plain.act(at, action),
        }
    }

    /// Shows where the run is.
    pub(crate) fn draw(&mut self, picture: &Picture<'_>) -> Result<(), DemoError> {
        match self {
            Self::Live(live) => live.draw(picture),
            Self::Plain(plain) => plain.draw(picture),
        }
    }

    /// Leaves what happened, and makes room for the summary.
    pub(crate) fn end(&mut self) -> Result<(), DemoError> {
        match self {
            Self::Live(live) => live.end(),
            Self::Plain(_) => Ok(()),
        }
    }
}
