//! The row pipeline: grouping, projection, sorting, `DISTINCT` and the row window.
//!
//! One query's rows go through here whether they come from one document (a sub-query) or from many
//! (the query itself). The difference is only how long a value may borrow, which `keep` settles:
//! sub-queries keep values as they are, the outermost query makes them its own.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::code::{Block, Grouping, ProjectionCode, RowWindow};
use super::machine::{Evaluated, Flow, GroupRow, Machine};
use crate::aggregate::{self, Accumulator};
use crate::error::EvalError;
use crate::order::{compare_views, write_identity};
use crate::tree::Direction;
use crate::value::Datum;

/// The row pipeline of one query: rows in, results out.
#[derive(Debug)]
pub(crate) struct RowPipeline<'d> {
    groups: HashMap<Vec<u8>, usize>,
    group_list: Vec<Group>,
    rows: Vec<Row<'d>>,
    seen: HashSet<Vec<u8>>,
    window: RowWindow,
    documents: u64,
}

#[derive(Debug)]
struct Group {
    keys: Vec<Datum<'static>>,
    accumulators: Vec<Accumulator>,
}

#[derive(Debug)]
struct Row<'d> {
    keys: Vec<Datum<'d>>,
    document: u64,
    value: Datum<'d>,
}

impl<'d> RowPipeline<'d> {
    pub(crate) fn new(block: &Block) -> Self {
        Self {
            groups: HashMap::new(),
            group_list: Vec::new(),
            rows: Vec::new(),
            seen: HashSet::new(),
            window: block.window,
            documents: 0,
        }
    }

    /// What is left of the row window.
    pub(crate) fn window(&self) -> RowWindow {
        self.window
    }

    /// Continues a window where an earlier run left it.
    pub(crate) fn set_window(&mut self, window: RowWindow) {
        self.window = window;
    }

    /// Says that the rows that follow belong to another document.
    pub(crate) fn next_document(&mut self) {
        self.documents += 1;
    }

    /// How many rows are ready, if the query streams.
    pub(crate) fn ready(&self) -> usize {
        self.rows.len()
    }

    /// Takes the rows that are ready, if the query streams.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Datum<'d>> {
        self.rows.drain(..).map(|row| row.value)
    }

    /// Takes in the row that is in the machine's frame.
    pub(crate) fn row<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &'a Block,
        keep: fn(Datum<'a>) -> Datum<'d>,
    ) -> Evaluated<Flow> {
        if let Some(grouping) = &block.grouping {
            self.group(machine, grouping)?;
            return Ok(Flow::More);
        }
        let Some(value) = project(machine, &block.projection)? else { return Ok(Flow::More) };
        if block.order.is_empty() {
            return self.pass(machine, block, keep(value));
        }
        let keys = block.order.iter().map(|(code, _)| machine.eval(code).map(keep));
        let keys = keys.collect::<Evaluated<_>>()?;
        self.hold(machine, Row { keys, document: self.documents, value: keep(value) })?;
        self.forget_losers(block);
        Ok(Flow::More)
    }

    /// Top-N: drops sorted rows beyond the window, once they outnumber those inside.
    fn forget_losers(&mut self, block: &Block) {
        /// Sorting pays off only for more rows than this.
        const SLACK: usize = 1024;
        let Some(take) = self.window.take.filter(|_| !block.distinct) else { return };
        let wanted = usize::try_from(self.window.skip.saturating_add(take)).unwrap_or(usize::MAX);
        if self.rows.len() / 2 >= wanted.max(SLACK) {
            self.rows.sort_by(|left, right| compare_rows(&block.order, left, right));
            self.rows.truncate(wanted);
        }
    }

    /// Gives the rows of blocking operators (sorting, grouping), which need every document first.
    pub(crate) fn finish<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &'a Block,
        keep: fn(Datum<'a>) -> Datum<'d>,
    ) -> Evaluated<Vec<Datum<'d>>> {
        if let Some(grouping) = &block.grouping {
            self.finish_groups(machine, block, grouping, keep)?;
        } else if !block.order.is_empty() {
            let mut rows = std::mem::take(&mut self.rows);
            rows.sort_by(|left, right| compare_rows(&block.order, left, right));
            for row in rows {
                if self.pass(machine, block, row.value)? == Flow::Enough {
                    break;
                }
            }
        }
        Ok(self.drain().collect())
    }

    fn group<'a>(&mut self, machine: &mut Machine<'a>, grouping: &'a Grouping) -> Evaluated<()> {
        let keys = grouping.keys.iter().map(|key| machine.eval(key));
        let keys = keys.collect::<Evaluated<Vec<_>>>()?;
        let mut identity = Vec::new();
        keys.iter().for_each(|key| write_identity(key.view(), &mut identity));
        let at = match self.groups.get(&identity) {
            Some(at) => *at,
            None => {
                check_rows(machine, self.group_list.len())?;
                let keys = keys.into_iter().map(Datum::into_owned).collect();
                self.group_list.push(Group { keys, accumulators: start(grouping) });
                self.groups.insert(identity, self.group_list.len() - 1);
                self.group_list.len() - 1
            }
        };
        let accumulators = &mut self.group_list[at].accumulators;
        for (accumulator, aggregate) in accumulators.iter_mut().zip(&grouping.aggregates) {
            accumulator.add(machine.eval(&aggregate.argument)?);
            machine.meter.fits("an aggregate", accumulator.size())?;
        }
        Ok(())
    }

    fn finish_groups<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &'a Block,
        grouping: &'a Grouping,
        keep: fn(Datum<'a>) -> Datum<'d>,
    ) -> Evaluated<()> {
        let mut groups = std::mem::take(&mut self.group_list);
        if groups.is_empty() && grouping.keys.is_empty() {
            // Aggregates over no rows still have a result.
            groups.push(Group { keys: Vec::new(), accumulators: start(grouping) });
        }
        if !block.order.is_empty() {
            // Ties go by the group's keys, which are unique: the order does not depend on which
            // partition's documents came first.
            groups.sort_by(|left, right| compare_keys(&left.keys, &right.keys));
        }
        let mut rows = Vec::new();
        for (ordinal, group) in groups.into_iter().enumerate() {
            let results = group.accumulators.into_iter().map(Accumulator::finish).collect();
            let group = GroupRow { keys: group.keys, results };
            let row = machine.with_group(group, |m| {
                let Some(value) = project(m, &block.projection)? else { return Ok(None) };
                let keys = block.order.iter().map(|(code, _)| m.eval(code).map(keep));
                let keys = keys.collect::<Evaluated<_>>()?;
                Ok(Some(Row { keys, document: ordinal as u64, value: keep(value) }))
            })?;
            let Some(row) = row else { continue };
            if !block.order.is_empty() {
                rows.push(row);
            } else if self.pass(machine, block, row.value)? == Flow::Enough {
                return Ok(());
            }
        }
        rows.sort_by(|left, right| compare_groups(&block.order, left, right));
        for row in rows {
            if self.pass(machine, block, row.value)? == Flow::Enough {
                break;
            }
        }
        Ok(())
    }

    /// Lets a row through `DISTINCT` and the window.
    fn pass(&mut self, machine: &Machine<'_>, block: &Block, value: Datum<'d>) -> Evaluated<Flow> {
        if self.window.take == Some(0) {
            return Ok(Flow::Enough);
        }
        if block.distinct {
            let mut identity = Vec::new();
            write_identity(value.view(), &mut identity);
            if !self.seen.insert(identity) {
                return Ok(Flow::More);
            }
            check_rows(machine, self.seen.len())?;
        }
        if self.window.skip > 0 {
            self.window.skip -= 1;
            return Ok(Flow::More);
        }
        self.hold(machine, Row { keys: Vec::new(), document: 0, value })?;
        let Some(take) = &mut self.window.take else { return Ok(Flow::More) };
        *take -= 1;
        Ok(if *take == 0 { Flow::Enough } else { Flow::More })
    }

    fn hold(&mut self, machine: &Machine<'_>, row: Row<'d>) -> Evaluated<()> {
        check_rows(machine, self.rows.len())?;
        self.rows.push(row);
        Ok(())
    }
}

fn check_rows(machine: &Machine<'_>, rows: usize) -> Evaluated<()> {
    let limit = machine.meter.context().limits().max_buffered_rows;
    if rows >= limit {
        return Err(EvalError::TooManyRows(limit));
    }
    Ok(())
}

fn start(grouping: &Grouping) -> Vec<Accumulator> {
    grouping.aggregates.iter().map(|code| aggregate::start(code.kind)).collect()
}

/// The row as the select list wants it; none if it is an undefined `VALUE`.
fn project<'a>(
    machine: &mut Machine<'a>,
    projection: &'a ProjectionCode,
) -> Evaluated<Option<Datum<'a>>> {
    Ok(match projection {
        ProjectionCode::Object(members) => Some(machine.object(members)?),
        ProjectionCode::Value(code) => Some(machine.eval(code)?).filter(|v| !v.is_undefined()),
    })
}

/// By the values of two lists of keys, one after the other, ascending.
fn compare_keys(left: &[Datum<'_>], right: &[Datum<'_>]) -> Ordering {
    let pairs = left.iter().zip(right).map(|(l, r)| compare_views(l.view(), r.view()));
    pairs.into_iter().find(|ordering| ordering.is_ne()).unwrap_or(Ordering::Equal)
}

/// By the sort keys alone: groups come in the order of their keys, and the sort is stable.
fn compare_groups(
    order: &[(super::code::Code, Direction)],
    left: &Row<'_>,
    right: &Row<'_>,
) -> Ordering {
    compare_sort_keys(order, left, right).unwrap_or(Ordering::Equal)
}

/// By the sort keys, then by document in the direction of the first key: rows come in RID order,
/// and that is how the service breaks ties. Rows of one document stay as they came.
fn compare_rows(
    order: &[(super::code::Code, Direction)],
    left: &Row<'_>,
    right: &Row<'_>,
) -> Ordering {
    let by_document =
        |(_, first): &(_, Direction)| direct(*first, left.document.cmp(&right.document));
    compare_sort_keys(order, left, right)
        .or_else(|| order.first().map(by_document))
        .unwrap_or(Ordering::Equal)
}

/// The first sort key that differs; `None` if all are equal.
fn compare_sort_keys(
    order: &[(super::code::Code, Direction)],
    left: &Row<'_>,
    right: &Row<'_>,
) -> Option<Ordering> {
    let keys = order.iter().zip(left.keys.iter().zip(&right.keys));
    keys.map(|((_, direction), (l, r))| direct(*direction, compare_views(l.view(), r.view())))
        .find(|ordering| ordering.is_ne())
}

/// An ordering seen in a direction.
fn direct(direction: Direction, ordering: Ordering) -> Ordering {
    match direction {
        Direction::Ascending => ordering,
        Direction::Descending => ordering.reverse(),
    }
}
