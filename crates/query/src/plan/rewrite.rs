//! Query rewriting: what each partition is asked, so that its results can be merged.
//!
//! Sorted rows carry their sort keys, aggregates are partial, groups carry their keys, and windows are
//! widened to whatever the others might not have. The shapes are those the published SDKs read.

use sidereal_protocol::AggregateType;

use crate::aggregate;
use crate::error::PlanError;
use crate::eval::{member_names, mentions_aggregate};
use crate::tree::{
    Collection, Count, Expr, From, OrderKey, Projection, Query, Select, SelectItem, Source, Window,
};

/// Rewrites a sorted query: each row becomes its RID, its sort values and what it was.
///
/// The filter gets a placeholder for a client's resume condition, and `SELECT VALUE` drops undefined
/// rows here, for a row without payload would be no row to a client.
pub(super) fn sorted(query: &Query, keys: &[OrderKey]) -> Result<Query, PlanError> {
    let (from, document) = from_with_document(query)?;
    let items = keys.iter().map(|key| item(key.expression.clone())).collect();
    let (payload, must_exist) = match &query.select.projection {
        Projection::All => (source_alias(query)?, false),
        Projection::Value(expression) => (expression.clone(), true),
        Projection::List(items) => (object_of(items), false),
    };
    let filter = query.filter.clone().into_iter();
    let exists = must_exist.then(|| Expr::call("IS_DEFINED", vec![payload.clone()]));
    let filter = filter.chain([Expr::ResumeFilter]).chain(exists).collect();
    let projection = Projection::List(vec![
        named(document.property("_rid"), None),
        named(Expr::Array(items), Some("orderByItems")),
        named(payload, Some("payload")),
    ]);
    Ok(Query {
        select: Select { distinct: false, top: query.select.top.clone(), projection },
        from: Some(from),
        filter: Some(all_of(filter)),
        group_by: Vec::new(),
        order_by: query.order_by.clone(),
        window: query.window.clone(),
    })
}

/// Rewrites a query with aggregates or groups. Windows and `DISTINCT` are for afterwards.
pub(super) fn grouped(query: &Query) -> Result<Query, PlanError> {
    let payload = match &query.select.projection {
        Projection::All => return Err(composed()),
        Projection::Value(expression) => match partial(expression)? {
            Some(partial) => Expr::Array(vec![partial]),
            None => expression.clone(),
        },
        Projection::List(items) => {
            let names = member_names(items).into_iter();
            let values = items.iter().map(|item| {
                Ok(partial(&item.expression)?.unwrap_or_else(|| item.expression.clone()))
            });
            let values = values.collect::<Result<Vec<_>, PlanError>>()?;
            Expr::Object(names.zip(values).collect())
        }
    };
    let bare = query.group_by.is_empty();
    let projection = match &query.select.projection {
        Projection::Value(_) if bare => Projection::Value(payload),
        _ if bare => Projection::List(vec![named(payload, Some("payload"))]),
        _ => {
            let keys = query.group_by.iter().cloned().map(item).collect();
            let keys = named(Expr::Array(keys), Some("groupByItems"));
            Projection::List(vec![keys, named(payload, Some("payload"))])
        }
    };
    let select = Select { distinct: false, top: None, projection };
    Ok(Query {
        select,
        from: query.from.clone(),
        filter: query.filter.clone(),
        group_by: query.group_by.clone(),
        order_by: None,
        window: None,
    })
}

/// Rewrites a query that sorts its groups: a group becomes a sorted row whose payload is the row of a
/// grouped query.
///
/// SDKs merge sorted rows first and group their payloads after it, in order of appearance. So groups
/// that are sorted by their keys come out sorted there too; a sort by an aggregate needs a merge that
/// sorts whole groups, because a partial aggregate says nothing of the order.
pub(super) fn sorted_groups(query: &Query, keys: &[OrderKey]) -> Result<Query, PlanError> {
    let mut rewritten = grouped(query)?;
    let Projection::List(items) = rewritten.select.projection else { return Err(composed()) };
    let payload = object_of(&items);
    let sort_values = keys.iter().map(|key| match partial(&key.expression)? {
        Some(partial) => Ok(item(partial)),
        None => Ok(item(key.expression.clone())),
    });
    let sort_values = sort_values.collect::<Result<Vec<_>, PlanError>>()?;
    rewritten.select.projection = Projection::List(vec![
        named(Expr::Array(sort_values), Some("orderByItems")),
        named(payload, Some("payload")),
    ]);
    rewritten.order_by = query.order_by.clone();
    Ok(rewritten)
}

/// The aggregate an expression is, if it is nothing else.
pub(super) fn aggregate_of(expression: &Expr) -> Option<(AggregateType, &Expr)> {
    match expression {
        Expr::Call { name, arguments } => {
            aggregate::by_name(name).and_then(|kind| Some((kind, arguments.first()?)))
        }
        _ => None,
    }
}

/// The partial result that a partition reports of an aggregate; `None` if the expression has no aggregate.
fn partial(expression: &Expr) -> Result<Option<Expr>, PlanError> {
    let Some((kind, argument)) = aggregate_of(expression) else {
        return if mentions_aggregate(expression) { Err(composed()) } else { Ok(None) };
    };
    let of = |name| Expr::call(name, vec![argument.clone()]);
    let members = |list: Vec<(&str, Expr)>| {
        Expr::Object(list.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    };
    // A minimum comes twice: bare, and with the count that tells "no values" from "no order".
    let extreme = |name| {
        let detail = members(vec![(name, expression.clone()), ("count", of("COUNT"))]);
        members(vec![("item", expression.clone()), ("item2", detail)])
    };
    Ok(Some(match kind {
        AggregateType::Average => item(members(vec![("sum", of("SUM")), ("count", of("COUNT"))])),
        AggregateType::Min => extreme("min"),
        AggregateType::Max => extreme("max"),
        AggregateType::Count
        | AggregateType::CountIf
        | AggregateType::MakeList
        | AggregateType::MakeSet
        | AggregateType::Sum => item(expression.clone()),
    }))
}

/// The row window each partition applies so that the first `rows` of all are among theirs.
pub(super) fn first_rows(query: &mut Query, offset: u64, limit: u64) {
    let limit = Count::Number(offset.saturating_add(limit));
    query.window = Some(Window { offset: Count::Number(0), limit });
}

fn composed() -> PlanError {
    PlanError::NotPartitionable(
        "Compositions of aggregates and other expressions are unsupported in a query that spans \
         partitions.",
    )
}

/// The `FROM` clause with the document under a name, and that name.
fn from_with_document(query: &Query) -> Result<(From, Expr), PlanError> {
    let unsorted = PlanError::NotPartitionable(
        "'ORDER BY' over a sub-query in 'FROM' is unsupported in a query that spans partitions.",
    );
    let Some(from) = &query.from else { return Err(unsorted) };
    if let Some(alias) = query.document_alias() {
        return Ok((from.clone(), Expr::Identifier(alias.to_owned())));
    }
    // The source reaches into the document: give the document a name and join the source to it.
    const DOCUMENT: &str = "sourceDocument";
    let mut source = from.source.clone();
    let (Source::Collection { collection, .. } | Source::Elements { collection, .. }) = &mut source;
    let Collection::Path { root, .. } = collection else { return Err(unsorted) };
    *root = DOCUMENT.to_owned();
    let collection = Collection::Path { root: DOCUMENT.to_owned(), steps: Vec::new() };
    let joins = std::iter::once(source).chain(from.joins.iter().cloned()).collect();
    let from = From { source: Source::Collection { collection, alias: None }, joins };
    Ok((from, Expr::Identifier(DOCUMENT.to_owned())))
}

/// The expression that `*` stands for.
fn source_alias(query: &Query) -> Result<Expr, PlanError> {
    let source = query.from.as_ref().map(|from| &from.source);
    let alias = match source {
        Some(Source::Collection { alias: Some(alias), .. } | Source::Elements { alias, .. }) => {
            Some(alias.as_str())
        }
        Some(Source::Collection { collection: Collection::Path { root, steps }, alias: None }) => {
            match steps.last() {
                None => Some(root.as_str()),
                Some(crate::tree::Step::Name(name)) => Some(name.as_str()),
                Some(crate::tree::Step::Index(_)) => None,
            }
        }
        _ => None,
    };
    let alias = alias.map(|alias| Expr::Identifier(alias.to_owned()));
    alias.ok_or(PlanError::NotPartitionable("'SELECT *' needs an alias for what it selects."))
}

fn object_of(items: &[SelectItem]) -> Expr {
    let values = items.iter().map(|item| item.expression.clone());
    Expr::Object(member_names(items).into_iter().zip(values).collect())
}

/// `{"item": expression}`
fn item(expression: Expr) -> Expr {
    Expr::Object(vec![("item".to_owned(), expression)])
}

fn named(expression: Expr, alias: Option<&str>) -> SelectItem {
    SelectItem { expression, alias: alias.map(str::to_owned) }
}

fn all_of(mut terms: Vec<Expr>) -> Expr {
    match terms.len() {
        1 => terms.remove(0),
        _ => Expr::And(terms),
    }
}
