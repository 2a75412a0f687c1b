//! Tree to code: names to slots, parameters to constants, functions to table entries.
//!
//! Everything that can be wrong with a query whatever the data is found here, so that evaluation
//! can only fail by passing a limit, or by a scalar subquery that gives several rows. Clauses and scopes are here, expressions in `expressions.rs`.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::analysis::{has_aggregate, member_names};
use super::code::{
    AggregateCode, Block, Code, CollectionCode, DOCUMENT, Grouping, ProjectionCode, RowWindow,
    SourceCode, StepCode,
};
use crate::error::CompileError;
use crate::tree::{Collection, Count, Expr, OrderBy, Projection, Query, Source, Step};

/// Values for the parameters of a query, by name, the `@` included.
pub type Parameters = HashMap<String, Value>;

pub(super) type Compiled<T> = Result<T, CompileError>;

/// The sort keys of a query and their directions.
type Order = Vec<(Code, crate::tree::Direction)>;

/// The result of compiling a query.
pub(crate) struct Outcome {
    pub(crate) block: Block,
    pub(crate) slots: usize,
    pub(crate) reads_documents: bool,
}

/// How a parameter without a value, or a user-defined function, is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// It is an error: the query is about to run.
    Required,
    /// It is taken as undefined: only the query's shape is asked for.
    Assumed,
}

/// Compiles a query whose first source is the container, or the rows of another query.
pub(crate) fn compile(
    query: &Query,
    parameters: &Parameters,
    names: Names,
    over_rows: bool,
) -> Compiled<Outcome> {
    let mut compiler = Compiler::new(parameters, names);
    compiler.rows_are_documents = over_rows;
    let block = compiler.block(query)?;
    Ok(compiler.outcome(block))
}

/// The number of rows a `TOP`, `OFFSET` or `LIMIT` asks for.
pub(crate) fn count(count: &Count, clause: &'static str, parameters: &Parameters) -> Compiled<u64> {
    let value = match count {
        Count::Number(number) => return Ok(*number),
        Count::Parameter(name) => parameter(name, parameters)?,
    };
    let whole = value.as_u64().or_else(|| {
        let double = value.as_f64()?;
        (double >= 0.0 && double.fract() == 0.0 && double < 9e15).then_some(double as u64)
    });
    whole.ok_or(CompileError::BadCount(clause))
}

pub(super) fn parameter<'p>(name: &str, parameters: &'p Parameters) -> Compiled<&'p Value> {
    parameters.get(name).ok_or_else(|| CompileError::MissingParameter(name.to_owned()))
}

/// A query being compiled.
pub(super) struct Compiler<'q> {
    pub(super) parameters: &'q Parameters,
    pub(super) names: Names,
    /// Aliases in sight, innermost last.
    aliases: Vec<(&'q str, usize)>,
    slots: usize,
    reads_documents: bool,
    rows_are_documents: bool,
    /// The query whose select list is being compiled, if it groups.
    pub(super) grouped: Option<Grouped<'q>>,
    /// Aliases that stand for rows where only groups are left.
    pub(super) hidden: Vec<Range<usize>>,
    /// Why an aggregate may not stand here, unless `grouped` collects it.
    pub(super) clause: &'static str,
}

/// A select list that may speak only of groups.
pub(super) struct Grouped<'q> {
    pub(super) keys: &'q [Expr],
    pub(super) aggregates: Vec<AggregateCode>,
}

impl<'q> Compiler<'q> {
    fn new(parameters: &'q Parameters, names: Names) -> Self {
        Self {
            parameters,
            names,
            aliases: Vec::new(),
            slots: DOCUMENT + 1,
            reads_documents: false,
            rows_are_documents: false,
            grouped: None,
            hidden: Vec::new(),
            clause: "a select list",
        }
    }

    fn outcome(self, block: Block) -> Outcome {
        Outcome { block, slots: self.slots, reads_documents: self.reads_documents }
    }

    pub(super) fn block(&mut self, query: &'q Query) -> Compiled<Block> {
        let around = self.grouped.take();
        let clause = self.clause;
        let outer = self.aliases.len();
        let block = self.clauses(query, outer);
        self.aliases.truncate(outer);
        self.clause = clause;
        self.grouped = around;
        block
    }

    fn clauses(&mut self, query: &'q Query, outer: usize) -> Compiled<Block> {
        let sources = self.sources(query, outer)?;
        self.clause = "a WHERE clause";
        let filter = query.filter.as_ref().map(|filter| self.code(filter)).transpose()?;
        self.clause = "a GROUP BY clause";
        let keys = query.group_by.iter().map(|key| self.code(key)).collect::<Compiled<Vec<_>>>()?;
        let mut order = Vec::new();
        if query.group_by.is_empty() {
            self.clause = "an ORDER BY clause";
            order = self.order(query)?;
        }
        let (projection, grouping, group_order) = self.select(query, &sources, keys, outer)?;
        if grouping.is_some() {
            // An aggregate without GROUP BY is one row, which is sorted whatever it is sorted by.
            order = group_order;
        }
        let distinct = query.select.distinct;
        let window = self.window(query)?;
        Ok(Block { sources, filter, grouping, projection, distinct, order, window })
    }

    fn sources(&mut self, query: &'q Query, outer: usize) -> Compiled<Vec<SourceCode>> {
        let Some(from) = &query.from else { return Ok(Vec::new()) };
        let mut sources = Vec::new();
        for source in std::iter::once(&from.source).chain(&from.joins) {
            self.clause = "a FROM clause";
            let (collection, alias, elements) = match source {
                Source::Collection { collection, alias } => (collection, alias.as_deref(), false),
                Source::Elements { alias, collection } => (collection, Some(alias.as_str()), true),
            };
            let alias = alias.or_else(|| natural_alias(collection));
            if let Some(alias) = alias
                && self.aliases[outer..].iter().any(|(known, _)| *known == alias)
            {
                return Err(CompileError::DuplicateAlias(alias.to_owned()));
            }
            let collection = self.collection(collection)?;
            // The document itself needs no second slot.
            let slot = match &collection {
                CollectionCode::Value(Code::Path(slot, steps)) if steps.is_empty() && !elements => {
                    *slot
                }
                _ => self.new_slot(),
            };
            if let Some(alias) = alias {
                self.aliases.push((alias, slot));
            }
            sources.push(SourceCode { slot, collection, elements });
        }
        Ok(sources)
    }

    fn new_slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    fn collection(&mut self, collection: &'q Collection) -> Compiled<CollectionCode> {
        match collection {
            Collection::Subquery(_) if std::mem::take(&mut self.rows_are_documents) => {
                self.reads_documents = true;
                Ok(CollectionCode::Value(Code::Path(DOCUMENT, Box::default())))
            }
            Collection::Subquery(query) => {
                self.block(query).map(Box::new).map(CollectionCode::Block)
            }
            Collection::Path { root, steps } => {
                let slot = match self.slot(root)? {
                    Some(slot) => slot,
                    // Only the outermost FROM names the container, by any name it likes.
                    None if self.aliases.is_empty() => {
                        self.reads_documents = true;
                        DOCUMENT
                    }
                    None => return Err(CompileError::UnknownIdentifier(root.clone())),
                };
                let steps = steps.iter().map(|step| match step {
                    Step::Name(name) => StepCode::Name(name.as_str().into()),
                    Step::Index(index) => StepCode::Index(*index as usize),
                });
                Ok(CollectionCode::Value(Code::Path(slot, steps.collect())))
            }
        }
    }

    pub(super) fn slot(&self, name: &str) -> Compiled<Option<usize>> {
        let Some(at) = self.aliases.iter().rposition(|(alias, _)| *alias == name) else {
            return Ok(None);
        };
        if self.hidden.iter().any(|hidden| hidden.contains(&at)) {
            return Err(CompileError::NotGrouped(name.to_owned()));
        }
        Ok(Some(self.aliases[at].1))
    }

    fn order(&mut self, query: &'q Query) -> Compiled<Order> {
        match &query.order_by {
            None => Ok(Vec::new()),
            Some(OrderBy::Rank(expression)) => {
                // Ranking functions are found, and refused, by name.
                self.code(expression)?;
                Err(CompileError::Unsupported("'ORDER BY RANK' needs a scoring function."))
            }
            Some(OrderBy::Keys(keys)) => {
                keys.iter().map(|key| Ok((self.code(&key.expression)?, key.direction))).collect()
            }
        }
    }

    fn select(
        &mut self,
        query: &'q Query,
        sources: &[SourceCode],
        keys: Vec<Code>,
        outer: usize,
    ) -> Compiled<(ProjectionCode, Option<Grouping>, Order)> {
        let projection = &query.select.projection;
        let grouped = !query.group_by.is_empty() || has_aggregate(projection);
        if grouped {
            self.grouped = Some(Grouped { keys: &query.group_by, aggregates: Vec::new() });
            self.hidden.push(outer..self.aliases.len());
        }
        self.clause = "this position";
        let projection = self.projection(projection, query, sources);
        // Groups are sorted by their keys and aggregates: what a select list may name, too.
        let order = match query.group_by.is_empty() {
            true => Ok(Vec::new()),
            false => self.order(query),
        };
        if grouped {
            self.hidden.pop();
        }
        let grouping = self.grouped.take();
        let grouping = grouping.map(|g| Grouping { keys, aggregates: g.aggregates });
        Ok((projection?, grouping, order?))
    }

    fn projection(
        &mut self,
        projection: &'q Projection,
        query: &Query,
        sources: &[SourceCode],
    ) -> Compiled<ProjectionCode> {
        Ok(match projection {
            Projection::All => ProjectionCode::Value(star(query, sources)?),
            Projection::Value(expression) => ProjectionCode::Value(self.code(expression)?),
            Projection::List(items) => {
                let names = member_names(items).into_iter().map(String::into_boxed_str);
                let values = items.iter().map(|item| self.code(&item.expression));
                let members = names.zip(values).map(|(name, value)| Ok((name, value?)));
                ProjectionCode::Object(members.collect::<Compiled<_>>()?)
            }
        })
    }

    fn window(&self, query: &Query) -> Compiled<RowWindow> {
        let mut window = RowWindow::default();
        if let Some(top) = &query.select.top {
            window.take = Some(count(top, "TOP", self.parameters)?);
        }
        if let Some(rows) = &query.window {
            if window.take.is_some() {
                let message = "'TOP' and 'OFFSET LIMIT' cannot be used in the same query.";
                return Err(CompileError::Unsupported(message));
            }
            window.skip = count(&rows.offset, "OFFSET", self.parameters)?;
            window.take = Some(count(&rows.limit, "LIMIT", self.parameters)?);
        }
        Ok(window)
    }
}

fn star(query: &Query, sources: &[SourceCode]) -> Compiled<Code> {
    match sources {
        _ if !query.group_by.is_empty() => Err(CompileError::NotGrouped("*".to_owned())),
        [] => Err(CompileError::StarWithoutFrom),
        [source] => Ok(Code::Path(source.slot, Box::default())),
        [..] => Err(CompileError::AmbiguousStar),
    }
}

/// The alias a source has when the text gives none: the last name of its path.
fn natural_alias(collection: &Collection) -> Option<&str> {
    match collection {
        Collection::Subquery(_) => None,
        Collection::Path { root, steps } => match steps.last() {
            None => Some(root),
            Some(Step::Name(name)) => Some(name),
            Some(Step::Index(_)) => None,
        },
    }
}
