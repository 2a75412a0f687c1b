//! The row pipeline: grouping, projection, sorting, `DISTINCT` and the row window.
//!
//! One query's rows go through here whether they come from one document (a sub-query) or from many
//! (the query itself). The difference is only how long a value may borrow, which `keep` settles:
//! sub-queries keep values as they are, the outermost query makes them its own.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::code::{Block, Grouping, ProjectionCode, RowWindow};
use super::flow::{Evaluated, Flow, Taken};
use super::machine::{GroupRow, Machine};
use crate::aggregate::{self, Accumulator};
use crate::meter::Meter;
use crate::order::{compare_views, write_identity};
use crate::tree::Direction;
use crate::value::Datum;

/// Where the rows of a pipeline go.
pub(crate) type Out<'o, 'a> = &'o mut dyn FnMut(&Meter<'_>, Datum<'a>) -> Evaluated<Taken>;

/// The row pipeline of one query: rows in, results out. Rows that stream go out at once.
#[derive(Debug)]
pub(crate) struct RowPipeline<'d> {
    groups: HashMap<Vec<u8>, usize>,
    group_list: Vec<Group>,
    /// Rows that wait to be sorted.
    rows: Vec<Row<'d>>,
    seen: HashSet<Vec<u8>>,
    window: RowWindow,
    documents: u64,
    /// The approximate size of the rows, groups and keys that are held, in bytes.
    held_bytes: usize,
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
    held_bytes: usize,
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
            held_bytes: 0,
        }
    }

    /// The rest of the row window.
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

    /// Takes in the row that is in the machine's frame.
    pub(crate) fn row<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &'a Block,
        keep: fn(Datum<'a>) -> Datum<'d>,
        out: Out<'_, 'a>,
    ) -> Evaluated<Flow> {
        if let Some(grouping) = &block.grouping {
            self.group(machine, grouping)?;
            return Ok(Flow::More);
        }
        let Some(value) = project(machine, &block.projection)? else { return Ok(Flow::More) };
        if block.order.is_empty() {
            return self.pass(machine, block, value, out);
        }
        let keys = block.order.iter().map(|(code, _)| machine.eval(code).map(keep));
        let keys = keys.collect::<Evaluated<_>>()?;
        let row = Row { keys, document: self.documents, value: keep(value), held_bytes: 0 };
        self.hold(machine, row)?;
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
            let lost: usize = self.rows[wanted..].iter().map(|row| row.held_bytes).sum();
            self.rows.truncate(wanted);
            self.held_bytes -= lost;
        }
    }

    /// Gives the rows of blocking operators (sorting, grouping), which need every document first.
    pub(crate) fn finish<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &'a Block,
        keep: fn(Datum<'a>) -> Datum<'d>,
        out: Out<'_, 'a>,
    ) -> Evaluated<Flow>
    where
        'd: 'a,
    {
        if let Some(grouping) = &block.grouping {
            return self.finish_groups(machine, block, grouping, keep, out);
        }
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|left, right| compare_rows(&block.order, left, right));
        self.pass_all(machine, block, rows, out)
    }

    fn pass_all<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &Block,
        rows: Vec<Row<'d>>,
        out: Out<'_, 'a>,
    ) -> Evaluated<Flow>
    where
        'd: 'a,
    {
        for row in rows {
            let flow = self.pass(machine, block, row.value, out)?;
            if flow != Flow::More {
                return Ok(flow);
            }
        }
        Ok(Flow::More)
    }

    fn group<'a>(&mut self, machine: &mut Machine<'a>, grouping: &'a Grouping) -> Evaluated<()> {
        let keys = grouping.keys.iter().map(|key| machine.eval(key));
        let keys = keys.collect::<Evaluated<Vec<_>>>()?;
        let mut identity = Vec::new();
        keys.iter().for_each(|key| write_identity(key.view(), &mut identity));
        let at = match self.groups.get(&identity) {
            Some(at) => *at,
            None => {
                self.held_bytes +=
                    2 * identity.len() + GROUP_BYTES * (1 + grouping.aggregates.len());
                let keys = keys.into_iter().map(Datum::into_owned).collect();
                self.group_list.push(Group { keys, accumulators: start(grouping) });
                self.groups.insert(identity, self.group_list.len() - 1);
                self.group_list.len() - 1
            }
        };
        for (index, aggregate) in grouping.aggregates.iter().enumerate() {
            let value = machine.eval(&aggregate.argument)?;
            let accumulator = &mut self.group_list[at].accumulators[index];
            let before = accumulator.size();
            accumulator.add(value);
            machine.meter.fits("an aggregate", accumulator.size())?;
            self.held_bytes = (self.held_bytes + accumulator.size()).saturating_sub(before);
        }
        machine.meter.holds(self.group_list.len(), self.held_bytes)
    }

    fn finish_groups<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &'a Block,
        grouping: &'a Grouping,
        keep: fn(Datum<'a>) -> Datum<'d>,
        out: Out<'_, 'a>,
    ) -> Evaluated<Flow>
    where
        'd: 'a,
    {
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
                let document = ordinal as u64;
                Ok(Some(Row { keys, document, value: keep(value), held_bytes: 0 }))
            })?;
            let Some(row) = row else { continue };
            if !block.order.is_empty() {
                rows.push(row);
                continue;
            }
            let flow = self.pass(machine, block, row.value, out)?;
            if flow != Flow::More {
                return Ok(flow);
            }
        }
        rows.sort_by(|left, right| compare_groups(&block.order, left, right));
        self.pass_all(machine, block, rows, out)
    }

    /// Lets a row through `DISTINCT` and the window, and out.
    fn pass<'a>(
        &mut self,
        machine: &mut Machine<'a>,
        block: &Block,
        value: Datum<'a>,
        out: Out<'_, 'a>,
    ) -> Evaluated<Flow> {
        if self.window.take == Some(0) {
            return Ok(Flow::Enough);
        }
        if block.distinct {
            let mut identity = Vec::new();
            write_identity(value.view(), &mut identity);
            let bytes = GROUP_BYTES + identity.len();
            if !self.seen.insert(identity) {
                return Ok(Flow::More);
            }
            self.held_bytes += bytes;
            machine.meter.holds(self.seen.len(), self.held_bytes)?;
        }
        if self.window.skip > 0 {
            self.window.skip -= 1;
            return Ok(Flow::More);
        }
        let taken = out(&machine.meter, value)?;
        if taken == Taken::Refused {
            return Ok(Flow::Paused);
        }
        if let Some(take) = &mut self.window.take {
            *take -= 1;
            if *take == 0 {
                return Ok(Flow::Enough);
            }
        }
        if taken == Taken::More {
            return Ok(Flow::More);
        }
        machine.row_was_taken();
        Ok(Flow::Paused)
    }

    fn hold(&mut self, machine: &Machine<'_>, row: Row<'d>) -> Evaluated<()> {
        let keys: usize = row.keys.iter().map(Datum::held_size).sum();
        let held_bytes = keys + row.value.held_size();
        self.held_bytes += held_bytes;
        self.rows.push(Row { held_bytes, ..row });
        machine.meter.holds(self.rows.len(), self.held_bytes)
    }
}

/// The overhead of a group, an aggregate or a distinct value besides its own data: entries of two tables.
const GROUP_BYTES: usize = 96;

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
