//! Expressions over aggregates: the groups are merged, then a second query is run over them, in memory.

use serde_json::Value;
use sidereal_query::{Context, Program};

use super::merging::Merging;
use super::page::PageFacts;
use crate::{Error, ErrorKind, Result};

/// Groups that are read from the merge at once.
const GROUPS_AT_ONCE: usize = 1_000;

/// The state of such a query.
#[derive(Debug)]
pub(super) struct Composed {
    /// Gives the groups; it bounds how many there are.
    merging: Box<Merging>,
    program: Program,
    /// The result, once it is known.
    result: Option<std::vec::IntoIter<Value>>,
}

impl Composed {
    pub(super) fn new(merging: Box<Merging>, program: Program) -> Self {
        Self { merging, program, result: None }
    }

    /// The next rows, as many as fit on a page; none after the last.
    pub(super) async fn next_rows(
        &mut self,
        page_rows: usize,
        facts: &mut PageFacts,
    ) -> Result<Option<Vec<Value>>> {
        if self.result.is_none() {
            let groups = self.groups(facts).await?;
            let rows = self.program.run(&groups, &context()).map_err(|error| {
                Error::caused_by(ErrorKind::LimitExceeded, "the groups cannot be evaluated", error)
            })?;
            self.result = Some(rows.into_iter());
        }
        let rows: Vec<Value> = self.result.iter_mut().flatten().take(page_rows).collect();
        Ok((!rows.is_empty()).then_some(rows))
    }

    async fn groups(&mut self, facts: &mut PageFacts) -> Result<Vec<Value>> {
        let mut groups = Vec::new();
        while let Some(more) = self.merging.next_rows(GROUPS_AT_ONCE, false, facts).await? {
            groups.extend(more);
        }
        Ok(groups)
    }
}

/// The time and the seed that expressions are evaluated with.
fn context() -> Context {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX));
    // The query language counts time in ticks of 100 nanoseconds, as .NET does.
    Context::new(i64::try_from(millis).unwrap_or(i64::MAX).saturating_mul(10_000), millis)
}
