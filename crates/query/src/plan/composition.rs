//! Expressions over aggregates, such as `SUM(c.price) / COUNT(1)`, across partitions.
//!
//! Partial results of such an expression cannot be merged, but those of the aggregates in it can. So the query is
//! taken apart: one that gives each group with its keys and its bare aggregates, which partitions can be asked,
//! and one over those groups, which gives the result. Groups are in memory by then, so that `DISTINCT`, the order
//! and the window are left to the second.

use crate::eval::member_names;
use crate::tree::{
    Collection, Direction, Expr, From, OrderBy, OrderKey, Projection, Query, Select, SelectItem,
    Source,
};

use super::rewrite::aggregate_of;

/// The name of the groups in the second query.
const GROUPS: &str = "g";

/// A query taken apart.
#[derive(Clone, Debug, PartialEq)]
pub struct Composition {
    /// Gives the groups, each an object of its keys and its bare aggregates: to be planned and merged.
    pub groups: Query,
    /// Gives the result, over all merged groups.
    pub result: Query,
}

/// Takes a query with aggregates apart; none if it has none, or has them where this cannot be done.
pub fn compose(query: &Query) -> Option<Composition> {
    let mut columns = Columns { keys: &query.group_by, aggregates: Vec::new() };
    let projection = match &query.select.projection {
        Projection::All => return None,
        Projection::Value(expression) => Projection::Value(columns.replace(expression)?),
        Projection::List(items) => {
            let names = member_names(items).into_iter();
            let replaced = items.iter().zip(names).map(|(item, name)| {
                let expression = columns.replace(&item.expression)?;
                Some(SelectItem { expression, alias: Some(name) })
            });
            Projection::List(replaced.collect::<Option<_>>()?)
        }
    };
    let order_by = match &query.order_by {
        None => None,
        Some(OrderBy::Rank(_)) => return None,
        // One row is sorted whatever it is sorted by.
        Some(OrderBy::Keys(_)) if query.group_by.is_empty() => None,
        Some(OrderBy::Keys(keys)) => Some(OrderBy::Keys(columns.replace_order(keys)?)),
    };
    if query.group_by.is_empty() && columns.aggregates.is_empty() {
        return None;
    }
    let select = Select { projection, ..query.select.clone() };
    let collection = Collection::Path { root: GROUPS.to_owned(), steps: Vec::new() };
    let source = Source::Collection { collection, alias: None };
    let from = Some(From { source, joins: Vec::new() });
    let (filter, group_by, window) = (None, Vec::new(), query.window.clone());
    let result = Query { select, from, filter, group_by, order_by, window };
    Some(Composition { groups: columns.groups(query), result })
}

/// The parts of a group, under generated names.
struct Columns<'q> {
    keys: &'q [Expr],
    aggregates: Vec<Expr>,
}

impl Columns<'_> {
    /// The expression over groups: keys and aggregates become members of the group.
    fn replace(&mut self, expression: &Expr) -> Option<Expr> {
        if let Some(at) = self.keys.iter().position(|key| key == expression) {
            return Some(member(&key_name(at)));
        }
        if aggregate_of(expression).is_some() {
            let known = self.aggregates.iter().position(|aggregate| aggregate == expression);
            let at = known.unwrap_or_else(|| {
                self.aggregates.push(expression.clone());
                self.aggregates.len() - 1
            });
            return Some(member(&aggregate_name(at)));
        }
        self.replace_within(expression)
    }

    fn replace_within(&mut self, expression: &Expr) -> Option<Expr> {
        Some(match expression {
            Expr::Literal(_) | Expr::Parameter(_) => expression.clone(),
            Expr::Property(base, name) => Expr::Property(self.boxed(base)?, name.clone()),
            Expr::Index(base, index) => Expr::Index(self.boxed(base)?, self.boxed(index)?),
            Expr::Unary(operator, operand) => Expr::Unary(*operator, self.boxed(operand)?),
            Expr::Binary(operator, left, right) => {
                Expr::Binary(*operator, self.boxed(left)?, self.boxed(right)?)
            }
            Expr::And(terms) => Expr::And(self.list(terms)?),
            Expr::Or(terms) => Expr::Or(self.list(terms)?),
            Expr::Conditional(operands) => Expr::Conditional(self.array(operands)?),
            Expr::Between { negated, operands } => {
                Expr::Between { negated: *negated, operands: self.array(operands)? }
            }
            Expr::In { negated, value, list } => {
                let (value, list) = (self.boxed(value)?, self.list(list)?);
                Expr::In { negated: *negated, value, list }
            }
            Expr::Like { negated, operands, escape } => Expr::Like {
                negated: *negated,
                operands: self.array(operands)?,
                escape: escape.clone(),
            },
            Expr::Call { name, arguments } => {
                Expr::Call { name: name.clone(), arguments: self.list(arguments)? }
            }
            Expr::Array(items) => Expr::Array(self.list(items)?),
            Expr::Object(members) => {
                let replaced =
                    members.iter().map(|(name, value)| Some((name.clone(), self.replace(value)?)));
                Expr::Object(replaced.collect::<Option<_>>()?)
            }
            // A name that is no key has no one value in a group, and what a sub-query reads is not looked into.
            Expr::Identifier(_)
            | Expr::UserCall { .. }
            | Expr::Exists(_)
            | Expr::ArrayOf(_)
            | Expr::Subquery(_)
            | Expr::ResumeFilter => return None,
        })
    }

    fn boxed(&mut self, expression: &Expr) -> Option<Box<Expr>> {
        self.replace(expression).map(Box::new)
    }

    fn list(&mut self, expressions: &[Expr]) -> Option<Vec<Expr>> {
        expressions.iter().map(|expression| self.replace(expression)).collect()
    }

    fn array<const N: usize>(&mut self, expressions: &[Expr; N]) -> Option<Box<[Expr; N]>> {
        let replaced: [Expr; N] = self.list(expressions)?.try_into().ok()?;
        Some(Box::new(replaced))
    }

    /// Ties go by the groups' keys, as they do within one partition.
    fn replace_order(&mut self, keys: &[OrderKey]) -> Option<Vec<OrderKey>> {
        let sorted = keys.iter().map(|key| {
            Some(OrderKey { expression: self.replace(&key.expression)?, direction: key.direction })
        });
        let mut sorted = sorted.collect::<Option<Vec<_>>>()?;
        sorted.extend((0..self.keys.len()).map(|at| OrderKey {
            expression: member(&key_name(at)),
            direction: Direction::Ascending,
        }));
        Some(sorted)
    }

    /// The query that gives the groups.
    fn groups(self, query: &Query) -> Query {
        let keys = self.keys.iter().enumerate().map(|(at, key)| (key_name(at), key.clone()));
        let aggregates = self.aggregates.into_iter().enumerate();
        let aggregates = aggregates.map(|(at, aggregate)| (aggregate_name(at), aggregate));
        let items = keys
            .chain(aggregates)
            .map(|(name, expression)| SelectItem { expression, alias: Some(name) });
        let projection = Projection::List(items.collect());
        Query {
            select: Select { distinct: false, top: None, projection },
            order_by: None,
            window: None,
            ..query.clone()
        }
    }
}

fn member(name: &str) -> Expr {
    Expr::Identifier(GROUPS.to_owned()).property(name)
}

fn key_name(at: usize) -> String {
    format!("k{at}")
}

fn aggregate_name(at: usize) -> String {
    format!("a{at}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::parse;

    fn taken_apart(text: &str) -> Option<(String, String)> {
        let composed = compose(&parse(text).unwrap())?;
        Some((composed.groups.to_string(), composed.result.to_string()))
    }

    fn same(text: &str, expected: &str) {
        assert_eq!(parse(text).unwrap(), parse(expected).unwrap());
    }

    #[test]
    fn aggregates_and_keys_become_members_of_the_group() {
        let text = "SELECT DISTINCT TOP 3 c.k, SUM(c.n) / COUNT(1) AS mean, [SUM(c.n), LOWER(c.k)] AS both FROM c \
                    WHERE c.n > @n GROUP BY c.k ORDER BY COUNT(1) DESC";
        let (groups, result) = taken_apart(text).unwrap();
        same(
            &groups,
            "SELECT c.k AS k0, SUM(c.n) AS a0, COUNT(1) AS a1 FROM c WHERE c.n > @n GROUP BY c.k",
        );
        same(
            &result,
            "SELECT DISTINCT TOP 3 g.k0 AS k, g.a0 / g.a1 AS mean, [g.a0, LOWER(g.k0)] AS both FROM g \
             ORDER BY g.a1 DESC, g.k0 ASC",
        );
    }

    #[test]
    fn what_has_no_aggregates_or_hides_what_it_reads_is_left_as_it_is() {
        for text in [
            "SELECT c.a + 1 FROM c",
            "SELECT VALUE COUNT(1) + ARRAY_LENGTH(ARRAY(SELECT VALUE t FROM t IN c.tags)) FROM c GROUP BY c.k",
        ] {
            assert_eq!(taken_apart(text), None, "{text}");
        }
    }
}
