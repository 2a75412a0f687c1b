//! Evaluating code against one document.
//!
//! A machine lives as long as its document: values borrow from the document, from the constants of
//! the program and from nothing else. Three-valued logic is spelled `Option<bool>`, undefined being
//! `None`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::code::{Block, Code, DOCUMENT, Matcher, StepCode};
use super::flow::{Evaluated, Taken};
use super::loops::Loops;
use super::operators;
use super::pattern::{self, Pattern};
use super::row_pipeline::RowPipeline;
use crate::error::EvalError;
use crate::functions::Function;
use crate::meter::Meter;
use crate::order::{equal, relation, write_identity};
use crate::tree::BinaryOp;
use crate::value::{Datum, Members, View};

/// The charge of a match that may backtrack, in steps: the engine does not tell how many it took, and
/// a join can ask for many matches of one document.
const BACKTRACKING_COST: u64 = 2_000;

/// An evaluation against one document.
pub(crate) struct Machine<'a> {
    pub(crate) meter: Meter<'a>,
    /// The loops of the outermost query; none where nobody resumes.
    pub(super) loops: Option<Loops>,
    pub(super) frame: Vec<Datum<'a>>,
    group: Option<GroupRow>,
}

/// A group as a select list sees it.
#[derive(Debug)]
pub(crate) struct GroupRow {
    pub(crate) keys: Vec<Datum<'static>>,
    pub(crate) results: Vec<Datum<'static>>,
}

impl<'a> Machine<'a> {
    /// A machine with a frame of `slots` values, the first of them the document.
    pub(crate) fn new(meter: Meter<'a>, slots: usize, document: Datum<'a>) -> Self {
        let mut frame = Vec::with_capacity(slots);
        frame.push(document);
        frame.resize(slots.max(DOCUMENT + 1), Datum::Undefined);
        Self { meter, loops: None, frame, group: None }
    }

    /// Runs a sub-query, stopping after `most` rows if that is all that is asked.
    pub(super) fn rows_of(
        &mut self,
        block: &'a Block,
        most: Option<usize>,
    ) -> Evaluated<Vec<Datum<'a>>> {
        let mut pipeline = RowPipeline::new(block);
        let group = self.group.take();
        // Positions are those of the outermost query.
        let loops = self.loops.take();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        let most = most.filter(|_| block.streams());
        let mut hold = |meter: &Meter<'_>, row: Datum<'a>| {
            bytes += row.held_size();
            rows.push(row);
            meter.holds(rows.len(), bytes)?;
            let enough = most.is_some_and(|most| rows.len() >= most);
            Ok(if enough { Taken::Last } else { Taken::More })
        };
        self.each_row(block, &mut |machine| {
            pipeline.row(machine, block, std::convert::identity, &mut hold)
        })?;
        pipeline.finish(self, block, std::convert::identity, &mut hold)?;
        self.group = group;
        self.loops = loops;
        Ok(rows)
    }

    /// Evaluates with `group` in view.
    pub(crate) fn with_group<T>(
        &mut self,
        group: GroupRow,
        run: impl FnOnce(&mut Self) -> Evaluated<T>,
    ) -> Evaluated<T> {
        let around = self.group.replace(group);
        let result = run(self);
        self.group = around;
        result
    }

    pub(crate) fn is_true(&mut self, code: &'a Code) -> Evaluated<bool> {
        Ok(self.truth(code)? == Some(true))
    }

    /// Evaluates a condition without making a value of it.
    fn truth(&mut self, code: &'a Code) -> Evaluated<Option<bool>> {
        match code {
            Code::And(terms) => self.all(terms),
            Code::Or(terms) => self.any(terms),
            Code::Binary(op, left, right) if operators::is_comparison(*op) => {
                self.comparison(*op, left, right)
            }
            code => Ok(self.eval(code)?.as_bool()),
        }
    }

    pub(crate) fn eval(&mut self, code: &'a Code) -> Evaluated<Datum<'a>> {
        self.meter.step()?;
        Ok(match code {
            Code::Undefined => Datum::Undefined,
            Code::Constant(value) => Datum::of(value),
            Code::Path(slot, steps) => self.path(*slot, steps),
            Code::Property(base, name) => self.eval(base)?.into_property(name),
            Code::Index(base, index) => self.index(base, index)?,
            Code::Unary(op, inner) => operators::unary(*op, &self.eval(inner)?),
            Code::Binary(op, left, right) => self.binary(*op, left, right)?,
            Code::And(terms) => Datum::bool(self.all(terms)?),
            Code::Or(terms) => Datum::bool(self.any(terms)?),
            Code::Conditional(operands) => {
                let [condition, yes, no] = &**operands;
                let chosen = if self.is_true(condition)? { yes } else { no };
                self.eval(chosen)?
            }
            Code::Between(negated, operands) => {
                let inside = self.between(operands)?;
                Datum::bool(inside.map(|inside| inside != *negated))
            }
            Code::In(negated, value, list) => {
                let found = self.is_in(value, list)?;
                Datum::bool(found.map(|found| found != *negated))
            }
            Code::InSet(negated, value, set) => {
                let found = self.is_in_set(value, set)?;
                Datum::bool(found.map(|found| found != *negated))
            }
            Code::Like(negated, text, matcher) => {
                let like = self.matches(text, matcher)?;
                Datum::bool(like.map(|like| like != *negated))
            }
            Code::RegexMatch(text, matcher) => Datum::bool(self.matches(text, matcher)?),
            Code::Call(function, arguments) => self.call(function, arguments)?,
            Code::Array(items) => self.array(items)?,
            Code::Object(members) => self.object(members)?,
            Code::Exists(block) => Datum::Bool(!self.rows_of(block, Some(1))?.is_empty()),
            Code::ArrayOf(block) => {
                let rows = self.rows_of(block, None)?;
                self.collect(rows)?
            }
            Code::Subquery(block) => {
                // The second row is enough to know that there are several.
                let mut rows = self.rows_of(block, Some(2))?;
                if rows.len() > 1 {
                    return Err(EvalError::ScalarSubqueryRows);
                }
                rows.pop().unwrap_or_default()
            }
            Code::GroupKey(key) => {
                self.group.as_ref().map_or(Datum::Undefined, |g| g.keys[*key].clone())
            }
            Code::Aggregate(at) => {
                self.group.as_ref().map_or(Datum::Undefined, |g| g.results[*at].clone())
            }
        })
    }

    fn path(&self, slot: usize, steps: &[StepCode]) -> Datum<'a> {
        let root = &self.frame[slot];
        let Some((first, rest)) = steps.split_first() else { return root.clone() };
        match (root, first) {
            (Datum::Object(Members::Borrowed(members)), StepCode::Name(name)) => {
                descend(members.get(&**name), rest).map_or(Datum::Undefined, Datum::of)
            }
            (Datum::Array(Cow::Borrowed(items)), StepCode::Index(index)) => {
                descend(items.get(*index), rest).map_or(Datum::Undefined, Datum::of)
            }
            (Datum::Object(members), StepCode::Name(name)) => descend(members.get(&**name), rest)
                .map_or(Datum::Undefined, |leaf| Datum::owned(leaf.clone())),
            (Datum::Array(items), StepCode::Index(index)) => descend(items.get(*index), rest)
                .map_or(Datum::Undefined, |leaf| Datum::owned(leaf.clone())),
            _ => Datum::Undefined,
        }
    }

    fn index(&mut self, base: &'a Code, index: &'a Code) -> Evaluated<Datum<'a>> {
        let base = self.eval(base)?;
        Ok(match self.eval(index)? {
            Datum::String(name) => base.into_property(&name),
            Datum::Number(number) => match number.as_f64() {
                Some(at) if at >= 0.0 && at.fract() == 0.0 => base.into_element(at as usize),
                _ => Datum::Undefined,
            },
            _ => Datum::Undefined,
        })
    }

    fn binary(&mut self, op: BinaryOp, left: &'a Code, right: &'a Code) -> Evaluated<Datum<'a>> {
        if operators::is_comparison(op) {
            return self.comparison(op, left, right).map(Datum::bool);
        }
        let left = self.eval(left)?;
        if op == BinaryOp::Coalesce {
            return if left.is_undefined() { self.eval(right) } else { Ok(left) };
        }
        let right = self.eval(right)?;
        match (op, &left, &right) {
            (BinaryOp::Concat, Datum::String(left), Datum::String(right)) => {
                self.meter.build("||", left.len() + right.len())?;
                Ok(Datum::text(format!("{left}{right}")))
            }
            _ => Ok(operators::arithmetic(op, left.as_f64(), right.as_f64())),
        }
    }

    fn comparison(
        &mut self,
        op: BinaryOp,
        left: &'a Code,
        right: &'a Code,
    ) -> Evaluated<Option<bool>> {
        let left = self.eval(left)?;
        let right = self.eval(right)?;
        self.touch_compared(&left, &right)?;
        Ok(operators::compare(op, left.view(), right.view()))
    }

    /// Counts the reading a comparison takes: only equal types are looked into.
    fn touch_compared(&mut self, left: &Datum<'a>, right: &Datum<'a>) -> Evaluated<()> {
        match (left, right) {
            (Datum::String(left), Datum::String(_)) => self.meter.touch(left.len()),
            (Datum::Array(_), Datum::Array(_)) | (Datum::Object(_), Datum::Object(_)) => {
                self.meter.touch(left.size())
            }
            _ => Ok(()),
        }
    }

    /// Kleene `AND`: false wins over undefined, undefined over true.
    fn all(&mut self, terms: &'a [Code]) -> Evaluated<Option<bool>> {
        let mut result = Some(true);
        for term in terms {
            match self.truth(term)? {
                Some(false) => return Ok(Some(false)),
                None => result = None,
                Some(true) => {}
            }
        }
        Ok(result)
    }

    /// Kleene `OR`: true wins over undefined, undefined over false.
    fn any(&mut self, terms: &'a [Code]) -> Evaluated<Option<bool>> {
        let mut result = Some(false);
        for term in terms {
            match self.truth(term)? {
                Some(true) => return Ok(Some(true)),
                None => result = None,
                Some(false) => {}
            }
        }
        Ok(result)
    }

    fn between(&mut self, operands: &'a [Code; 3]) -> Evaluated<Option<bool>> {
        let value = self.eval(&operands[0])?;
        let low = self.eval(&operands[1])?;
        let high = self.eval(&operands[2])?;
        let above = relation(value.view(), low.view()).map(Ordering::is_ge);
        let below = relation(value.view(), high.view()).map(Ordering::is_le);
        Ok(match (above, below) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        })
    }

    /// Values of other types are simply not the one looked for.
    fn is_in(&mut self, value: &'a Code, list: &'a [Code]) -> Evaluated<Option<bool>> {
        let value = self.eval(value)?;
        if value.is_undefined() {
            return Ok(None);
        }
        for candidate in list {
            let candidate = self.eval(candidate)?;
            self.touch_compared(&value, &candidate)?;
            if equal(value.view(), candidate.view()) == Some(true) {
                return Ok(Some(true));
            }
        }
        Ok(Some(false))
    }

    fn is_in_set(&mut self, value: &'a Code, set: &HashSet<Vec<u8>>) -> Evaluated<Option<bool>> {
        let value = self.eval(value)?;
        if value.is_undefined() {
            return Ok(None);
        }
        self.meter.touch(value.size())?;
        let mut identity = Vec::with_capacity(32);
        write_identity(value.view(), &mut identity);
        Ok(Some(set.contains(&identity)))
    }

    fn matches(&mut self, text: &'a Code, matcher: &'a Matcher) -> Evaluated<Option<bool>> {
        let text = self.eval(text)?;
        let Some(text) = text.as_str() else { return Ok(None) };
        self.meter.touch(text.len())?;
        if let Matcher::Constant(Pattern::Backtracking(_)) | Matcher::Regex { .. } = matcher {
            self.meter.spend(BACKTRACKING_COST)?;
        }
        /// Compiling costs about this many bytes of text for each byte of pattern.
        const COMPILE_COST: usize = 2048;
        let compiled = match matcher {
            Matcher::Constant(compiled) => return compiled.is_match(text).map(Some),
            Matcher::Never => None,
            Matcher::Like { pattern, escape } => {
                let pattern = self.eval(pattern)?;
                let Some(pattern) = pattern.as_str() else { return Ok(None) };
                self.meter.touch(COMPILE_COST * (pattern.len() + 1))?;
                pattern::like(pattern, *escape)
            }
            Matcher::Regex { pattern, flags } => {
                let pattern = self.eval(pattern)?;
                let flags = match flags {
                    Some(flags) => self.eval(flags)?,
                    None => Datum::String(Cow::Borrowed("")),
                };
                let (Some(pattern), Some(flags)) = (pattern.as_str(), flags.as_str()) else {
                    return Ok(None);
                };
                self.meter.touch(COMPILE_COST * (pattern.len() + 1))?;
                pattern::regex(pattern, flags)
            }
        };
        compiled.map(|compiled| compiled.is_match(text)).transpose()
    }

    fn call(&mut self, function: &'static Function, codes: &'a [Code]) -> Evaluated<Datum<'a>> {
        /// Calls with so few arguments need no allocation.
        const INLINE: usize = 3;
        if codes.len() <= INLINE {
            let mut arguments: [Datum<'a>; INLINE] = Default::default();
            for (argument, code) in arguments.iter_mut().zip(codes) {
                *argument = self.eval(code)?;
            }
            return self.apply(function, &mut arguments[..codes.len()]);
        }
        let arguments = codes.iter().map(|code| self.eval(code)).collect::<Evaluated<Vec<_>>>();
        self.apply(function, &mut arguments?)
    }

    fn apply(
        &mut self,
        function: &'static Function,
        arguments: &mut [Datum<'a>],
    ) -> Evaluated<Datum<'a>> {
        let read = arguments.iter().map(|argument| shallow_size(argument.view())).sum();
        self.meter.touch(read)?;
        function.apply(&mut self.meter, arguments)
    }

    fn array(&mut self, items: &'a [Code]) -> Evaluated<Datum<'a>> {
        let items = items.iter().map(|item| self.eval(item)).collect::<Evaluated<Vec<_>>>()?;
        self.collect(items)
    }

    /// Makes an array of the values that are defined.
    fn collect(&mut self, items: Vec<Datum<'a>>) -> Evaluated<Datum<'a>> {
        self.meter.build("an array", items.iter().map(Datum::size).sum())?;
        let items = items.into_iter().filter_map(Datum::into_value).collect();
        Ok(Datum::Array(Cow::Owned(items)))
    }

    /// Makes an object of the members that are defined.
    pub(crate) fn object(&mut self, members: &'a [(Box<str>, Code)]) -> Evaluated<Datum<'a>> {
        let mut object = Map::with_capacity(members.len());
        let mut size = 0;
        for (name, code) in members {
            let value = self.eval(code)?;
            let added = name.len() + value.size();
            size += added;
            self.meter.fits("an object", size)?;
            self.meter.touch(added)?;
            if let Some(value) = value.into_value() {
                object.insert(name.to_string(), value);
            }
        }
        Ok(Datum::Object(Members::Owned(Box::new(object))))
    }
}

fn descend<'v>(from: Option<&'v Value>, steps: &[StepCode]) -> Option<&'v Value> {
    steps.iter().try_fold(from?, |value, step| match step {
        StepCode::Name(name) => value.as_object()?.get(&**name),
        StepCode::Index(index) => value.as_array()?.get(*index),
    })
}

/// How much there is to read, one level down.
fn shallow_size(value: View<'_>) -> usize {
    /// A guess at the size of an element.
    const ELEMENT: usize = 32;
    match value {
        View::String(text) => text.len(),
        View::Array(items) => items.len() * ELEMENT,
        View::Object(members) => members.len() * ELEMENT,
        _ => 0,
    }
}
