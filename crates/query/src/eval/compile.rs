//! Tree to code: names to slots, parameters to constants, functions to table entries.
//!
//! Everything that can be wrong with a query whatever the data is found here, so that evaluation
//! can only fail by passing a limit.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;
use sidereal_protocol::AggregateType;

use super::code::{
    AggregateCode, Block, Code, CollectionCode, DOCUMENT, Grouping, Matcher, ProjectionCode,
    RowWindow, SourceCode, StepCode,
};
use super::pattern;
use crate::aggregate;
use crate::error::CompileError;
use crate::functions::{self, Function};
use crate::tree::{
    Collection, Count, Expr, Literal, OrderBy, Projection, Query, SelectItem, Source, Step,
};

/// Values for the parameters of a query, by name, the `@` included.
pub type Parameters = HashMap<String, Value>;

type Compiled<T> = Result<T, CompileError>;

/// What compiling a query gives.
pub(crate) struct Outcome {
    pub(crate) block: Block,
    pub(crate) slots: usize,
    pub(crate) reads_documents: bool,
}

/// Compiles a query whose `FROM` reads the container.
pub(crate) fn compile(query: &Query, parameters: &Parameters) -> Compiled<Outcome> {
    let mut compiler = Compiler::new(parameters);
    let block = compiler.block(query)?;
    Ok(compiler.outcome(block))
}

/// Compiles a query whose first source is the rows of another query.
pub(crate) fn compile_over_rows(query: &Query, parameters: &Parameters) -> Compiled<Outcome> {
    let mut compiler = Compiler::new(parameters);
    compiler.rows_are_documents = true;
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

fn parameter<'p>(name: &str, parameters: &'p Parameters) -> Compiled<&'p Value> {
    parameters.get(name).ok_or_else(|| CompileError::MissingParameter(name.to_owned()))
}

/// The names that expressions of a query give the members of its rows.
pub(crate) fn member_names(items: &[SelectItem]) -> Vec<String> {
    let mut unnamed = 0;
    let name = |item: &SelectItem| {
        let given = item.alias.as_deref().or_else(|| item.expression.natural_name());
        if let Some(name) = given {
            return name.to_owned();
        }
        unnamed += 1;
        format!("${unnamed}")
    };
    items.iter().map(name).collect()
}

struct Compiler<'q> {
    parameters: &'q Parameters,
    /// Aliases in sight, innermost last.
    aliases: Vec<(&'q str, usize)>,
    slots: usize,
    reads_documents: bool,
    rows_are_documents: bool,
    /// The query whose select list is being compiled, if it groups.
    grouped: Option<Grouped<'q>>,
    /// Aliases that stand for rows where only groups are left.
    hidden: Vec<Range<usize>>,
    /// Why an aggregate may not stand here, unless `grouped` collects it.
    place: &'static str,
}

/// A select list that may speak only of groups.
struct Grouped<'q> {
    keys: &'q [Expr],
    aggregates: Vec<AggregateCode>,
}

impl<'q> Compiler<'q> {
    fn new(parameters: &'q Parameters) -> Self {
        Self {
            parameters,
            aliases: Vec::new(),
            slots: DOCUMENT + 1,
            reads_documents: false,
            rows_are_documents: false,
            grouped: None,
            hidden: Vec::new(),
            place: "a select list",
        }
    }

    fn outcome(self, block: Block) -> Outcome {
        Outcome { block, slots: self.slots, reads_documents: self.reads_documents }
    }

    fn block(&mut self, query: &'q Query) -> Compiled<Block> {
        let around = self.grouped.take();
        let place = self.place;
        let outer = self.aliases.len();
        let block = self.clauses(query, outer);
        self.aliases.truncate(outer);
        self.place = place;
        self.grouped = around;
        block
    }

    fn clauses(&mut self, query: &'q Query, outer: usize) -> Compiled<Block> {
        let sources = self.sources(query, outer)?;
        self.place = "a WHERE clause";
        let filter = query.filter.as_ref().map(|filter| self.code(filter)).transpose()?;
        self.place = "a GROUP BY clause";
        let keys = query.group_by.iter().map(|key| self.code(key)).collect::<Compiled<Vec<_>>>()?;
        self.place = "an ORDER BY clause";
        let order = self.order(query)?;
        let (projection, grouping) = self.select(query, &sources, keys, outer)?;
        if grouping.is_some() && !order.is_empty() {
            let message = "'ORDER BY' is not supported together with aggregates or 'GROUP BY'.";
            return Err(CompileError::Unsupported(message));
        }
        let distinct = query.select.distinct;
        let window = self.window(query)?;
        Ok(Block { sources, filter, grouping, projection, distinct, order, window })
    }

    fn sources(&mut self, query: &'q Query, outer: usize) -> Compiled<Vec<SourceCode>> {
        let Some(from) = &query.from else { return Ok(Vec::new()) };
        let mut sources = Vec::new();
        for source in std::iter::once(&from.source).chain(&from.joins) {
            self.place = "a FROM clause";
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

    fn slot(&self, name: &str) -> Compiled<Option<usize>> {
        let Some(at) = self.aliases.iter().rposition(|(alias, _)| *alias == name) else {
            return Ok(None);
        };
        if self.hidden.iter().any(|hidden| hidden.contains(&at)) {
            return Err(CompileError::NotGrouped(name.to_owned()));
        }
        Ok(Some(self.aliases[at].1))
    }

    fn order(&mut self, query: &'q Query) -> Compiled<Vec<(Code, crate::tree::Direction)>> {
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
    ) -> Compiled<(ProjectionCode, Option<Grouping>)> {
        let projection = &query.select.projection;
        let grouped = !query.group_by.is_empty() || has_aggregate(projection);
        if grouped {
            self.grouped = Some(Grouped { keys: &query.group_by, aggregates: Vec::new() });
            self.hidden.push(outer..self.aliases.len());
        }
        self.place = "this place";
        let projection = self.projection(projection, query, sources);
        if grouped {
            self.hidden.pop();
        }
        let grouping = self.grouped.take();
        let grouping = grouping.map(|g| Grouping { keys, aggregates: g.aggregates });
        Ok((projection?, grouping))
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

    fn code(&mut self, expression: &'q Expr) -> Compiled<Code> {
        if let Some(grouped) = &self.grouped
            && let Some(key) = grouped.keys.iter().position(|key| key == expression)
        {
            return Ok(Code::GroupKey(key));
        }
        Ok(match expression {
            Expr::Literal(literal) => constant(literal),
            Expr::Parameter(name) => Code::Constant(parameter(name, self.parameters)?.clone()),
            Expr::Identifier(name) => self.identifier(name)?,
            Expr::Property(base, name) => {
                match self.code(base).map_err(|e| widen(e, expression))? {
                    Code::Path(slot, steps) => {
                        extend(slot, steps, StepCode::Name(name.as_str().into()))
                    }
                    base => Code::Property(Box::new(base), name.as_str().into()),
                }
            }
            Expr::Index(base, index) => {
                let base = self.code(base).map_err(|e| widen(e, expression))?;
                self.index(base, index)?
            }
            Expr::Unary(op, inner) => Code::Unary(*op, self.boxed(inner)?),
            Expr::Binary(op, left, right) => {
                Code::Binary(*op, self.boxed(left)?, self.boxed(right)?)
            }
            Expr::And(terms) => Code::And(self.all(terms)?),
            Expr::Or(terms) => Code::Or(self.all(terms)?),
            Expr::Conditional(operands) => Code::Conditional(self.three(operands)?),
            Expr::Between { negated, operands } => Code::Between(*negated, self.three(operands)?),
            Expr::In { negated, value, list } => {
                Code::In(*negated, self.boxed(value)?, self.all(list)?)
            }
            Expr::Like { negated, operands, escape } => {
                let matcher = self.like(&operands[1], escape.as_deref())?;
                Code::Like(*negated, self.boxed(&operands[0])?, matcher)
            }
            Expr::Call { name, arguments } => self.call(name, arguments)?,
            Expr::UserCall { name, .. } => {
                return Err(CompileError::UserDefinedFunction(name.clone()));
            }
            Expr::Array(items) => Code::Array(self.all(items)?),
            Expr::Object(members) => {
                let members = members.iter();
                let members = members.map(|(name, e)| Ok((name.as_str().into(), self.code(e)?)));
                Code::Object(members.collect::<Compiled<_>>()?)
            }
            Expr::Exists(query) => Code::Exists(Box::new(self.block(query)?)),
            Expr::ArrayOf(query) => Code::ArrayOf(Box::new(self.block(query)?)),
            Expr::Subquery(query) => Code::Subquery(Box::new(self.block(query)?)),
            Expr::ResumeFilter => Code::Constant(Value::Bool(true)),
        })
    }

    fn boxed(&mut self, expression: &'q Expr) -> Compiled<Box<Code>> {
        self.code(expression).map(Box::new)
    }

    fn all(&mut self, expressions: &'q [Expr]) -> Compiled<Box<[Code]>> {
        expressions.iter().map(|expression| self.code(expression)).collect()
    }

    fn three(&mut self, [a, b, c]: &'q [Expr; 3]) -> Compiled<Box<[Code; 3]>> {
        Ok(Box::new([self.code(a)?, self.code(b)?, self.code(c)?]))
    }

    fn identifier(&self, name: &str) -> Compiled<Code> {
        let slot = self.slot(name)?;
        let slot = slot.ok_or_else(|| CompileError::UnknownIdentifier(name.to_owned()))?;
        Ok(Code::Path(slot, Box::default()))
    }

    fn index(&mut self, base: Code, index: &'q Expr) -> Compiled<Code> {
        let index = self.code(index)?;
        Ok(match (base, &index) {
            (Code::Path(slot, steps), Code::Constant(Value::String(name))) => {
                extend(slot, steps, StepCode::Name(name.as_str().into()))
            }
            (Code::Path(slot, steps), Code::Constant(Value::Number(n))) if n.is_u64() => {
                let at = n.as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
                extend(slot, steps, StepCode::Index(at))
            }
            (base, _) => Code::Index(Box::new(base), Box::new(index)),
        })
    }

    fn like(&mut self, pattern: &'q Expr, escape: Option<&str>) -> Compiled<Matcher> {
        let escape = match escape.map(|text| (text.chars().next(), text.chars().nth(1))) {
            None => None,
            Some((Some(escape), None)) => Some(escape),
            Some(_) => return Err(CompileError::BadEscape),
        };
        Ok(match self.code(pattern)? {
            Code::Constant(Value::String(text)) => {
                let compiled = pattern::like(&text, escape);
                Matcher::Constant(compiled.ok_or(CompileError::BadRegex(text))?)
            }
            Code::Constant(_) | Code::Undefined => Matcher::Never,
            code => Matcher::Like { pattern: Box::new(code), escape },
        })
    }

    fn regex(&mut self, arguments: &'q [Expr]) -> Compiled<Code> {
        let text = self.boxed(&arguments[0])?;
        let pattern = self.code(&arguments[1])?;
        let flags = arguments.get(2).map(|flags| self.code(flags)).transpose()?;
        let matcher = match (&pattern, &flags) {
            (Code::Constant(Value::String(source)), None) => regex_constant(source, "")?,
            (Code::Constant(Value::String(source)), Some(Code::Constant(Value::String(flags)))) => {
                regex_constant(source, flags)?
            }
            (Code::Constant(Value::String(_)), Some(Code::Constant(_) | Code::Undefined))
            | (Code::Undefined, _) => Matcher::Never,
            (Code::Constant(Value::String(_)), Some(_)) => matcher(pattern, flags),
            (Code::Constant(_), _) => Matcher::Never,
            _ => matcher(pattern, flags),
        };
        Ok(Code::RegexMatch(text, matcher))
    }

    fn call(&mut self, name: &'q str, arguments: &'q [Expr]) -> Compiled<Code> {
        if let Some(kind) = aggregate::by_name(name) {
            return self.aggregate(name, kind, arguments);
        }
        let function = functions::find(name)?;
        function.check_arity(arguments.len())?;
        if function.is_regex_match() {
            return self.regex(arguments);
        }
        Ok(Code::Call(function, self.all(arguments)?))
    }

    fn aggregate(
        &mut self,
        name: &str,
        kind: AggregateType,
        arguments: &'q [Expr],
    ) -> Compiled<Code> {
        // The argument is evaluated per row, so it sees aliases and no other aggregate.
        let Some(mut grouped) = self.grouped.take() else {
            return Err(CompileError::MisplacedAggregate(self.place));
        };
        let [argument] = arguments else {
            return Err(Function::wrong_count(name, "1 argument", arguments.len()));
        };
        let place = std::mem::replace(&mut self.place, "the argument of another aggregate");
        let hidden = self.hidden.pop();
        let argument = self.code(argument)?;
        self.hidden.extend(hidden);
        self.place = place;
        grouped.aggregates.push(AggregateCode { kind, argument });
        let index = grouped.aggregates.len() - 1;
        self.grouped = Some(grouped);
        Ok(Code::Aggregate(index))
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

fn regex_constant(source: &str, flags: &str) -> Compiled<Matcher> {
    let compiled = pattern::regex(source, flags);
    compiled.map(Matcher::Constant).ok_or_else(|| CompileError::BadRegex(source.to_owned()))
}

fn matcher(pattern: Code, flags: Option<Code>) -> Matcher {
    Matcher::Regex { pattern: Box::new(pattern), flags: flags.map(Box::new) }
}

fn constant(literal: &Literal) -> Code {
    Code::Constant(match literal {
        Literal::Undefined => return Code::Undefined,
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Number(number) => Value::Number(number.clone()),
        Literal::String(text) => Value::String(text.clone()),
    })
}

fn extend(slot: usize, steps: Box<[StepCode]>, step: StepCode) -> Code {
    let mut steps = steps.into_vec();
    steps.push(step);
    Code::Path(slot, steps.into())
}

/// Makes an error about the root of a path speak of the whole path.
fn widen(error: CompileError, path: &Expr) -> CompileError {
    match error {
        CompileError::NotGrouped(_) => CompileError::NotGrouped(path.to_string()),
        other => other,
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

pub(crate) fn has_aggregate(projection: &Projection) -> bool {
    match projection {
        Projection::All => false,
        Projection::Value(expression) => mentions_aggregate(expression),
        Projection::List(items) => items.iter().any(|item| mentions_aggregate(&item.expression)),
    }
}

/// Whether an expression aggregates over the rows of its own query; sub-queries have their own.
pub(crate) fn mentions_aggregate(expression: &Expr) -> bool {
    match expression {
        Expr::Call { name, arguments } => {
            aggregate::by_name(name).is_some() || arguments.iter().any(mentions_aggregate)
        }
        Expr::Property(inner, _) | Expr::Unary(_, inner) => mentions_aggregate(inner),
        Expr::Index(left, right) | Expr::Binary(_, left, right) => {
            mentions_aggregate(left) || mentions_aggregate(right)
        }
        Expr::And(list) | Expr::Or(list) | Expr::Array(list) => list.iter().any(mentions_aggregate),
        Expr::UserCall { arguments, .. } => arguments.iter().any(mentions_aggregate),
        Expr::Conditional(operands) | Expr::Between { operands, .. } => {
            operands.iter().any(mentions_aggregate)
        }
        Expr::In { value, list, .. } => {
            mentions_aggregate(value) || list.iter().any(mentions_aggregate)
        }
        Expr::Like { operands, .. } => operands.iter().any(mentions_aggregate),
        Expr::Object(members) => members.iter().any(|(_, value)| mentions_aggregate(value)),
        Expr::Literal(_)
        | Expr::Parameter(_)
        | Expr::Identifier(_)
        | Expr::Exists(_)
        | Expr::ArrayOf(_)
        | Expr::Subquery(_)
        | Expr::ResumeFilter => false,
    }
}
