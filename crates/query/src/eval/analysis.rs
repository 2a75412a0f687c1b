//! Facts about a tree before it is compiled: the names of its rows' members, and whether
//! it aggregates.

use crate::aggregate;
use crate::tree::{Expr, Projection, SelectItem};

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

/// Whether a select list aggregates.
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
