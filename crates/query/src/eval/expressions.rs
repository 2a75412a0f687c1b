//! Expressions to code: the half of the compiler that knows no clauses.

use std::collections::HashSet;

use serde_json::Value;
use sidereal_protocol::AggregateType;

use super::code::{AggregateCode, Code, Matcher, StepCode};
use super::compile::{Compiled, Compiler, Names, parameter};
use super::pattern;
use crate::aggregate;
use crate::error::CompileError;
use crate::functions::{self, Function};
use crate::order::identity;
use crate::tree::{Expr, Literal};
use crate::value::round_numbers;

impl<'q> Compiler<'q> {
    pub(super) fn code(&mut self, expression: &'q Expr) -> Compiled<Code> {
        if let Some(grouped) = &self.grouped
            && let Some(key) = grouped.keys.iter().position(|key| key == expression)
        {
            return Ok(Code::GroupKey(key));
        }
        Ok(match expression {
            Expr::Literal(literal) => constant(literal),
            Expr::Parameter(name) => match parameter(name, self.parameters) {
                Ok(value) => {
                    let mut value = value.clone();
                    round_numbers(&mut value);
                    Code::Constant(value)
                }
                Err(_) if self.names == Names::Assumed => Code::Undefined,
                Err(missing) => return Err(missing),
            },
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
                let value = self.boxed(value)?;
                let list = self.all(list)?;
                match constant_set(&list) {
                    Some(set) => Code::InSet(*negated, value, set),
                    None => Code::In(*negated, value, list),
                }
            }
            Expr::Like { negated, operands, escape } => {
                let matcher = self.like(&operands[1], escape.as_deref())?;
                Code::Like(*negated, self.boxed(&operands[0])?, matcher)
            }
            Expr::Call { name, arguments } => self.call(name, arguments)?,
            Expr::UserCall { arguments, .. } if self.names == Names::Assumed => {
                // The arguments must still mean something.
                self.all(arguments)?;
                Code::Undefined
            }
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
            return Err(CompileError::MisplacedAggregate(self.clause));
        };
        let [argument] = arguments else {
            return Err(Function::wrong_count(name, "1 argument", arguments.len()));
        };
        let clause = std::mem::replace(&mut self.clause, "the argument of another aggregate");
        let hidden = self.hidden.pop();
        let argument = self.code(argument)?;
        self.hidden.extend(hidden);
        self.clause = clause;
        grouped.aggregates.push(AggregateCode { kind, argument });
        let index = grouped.aggregates.len() - 1;
        self.grouped = Some(grouped);
        Ok(Code::Aggregate(index))
    }
}

/// The identities of a list of constants, where it is long enough for hashing to be worth it. Undefined is equal
/// to nothing and left out.
fn constant_set(list: &[Code]) -> Option<HashSet<Vec<u8>>> {
    /// Shorter lists are compared one by one.
    const SHORT: usize = 8;
    let identity_of = |code: &Code| match code {
        Code::Constant(value) => Some(Some(identity(Some(value)))),
        Code::Undefined => Some(None),
        _ => None,
    };
    if list.len() <= SHORT {
        return None;
    }
    let identities = list.iter().map(identity_of).collect::<Option<Vec<_>>>()?;
    Some(identities.into_iter().flatten().collect())
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
        Literal::Number(number) => Value::Number((**number).clone()),
        Literal::String(text) => Value::String(text.to_string()),
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
