//! Properties of a query that a server needs before it runs it.

use crate::eval::has_aggregate;
use crate::tree::{Collection, Direction, Expr, From, OrderBy, Projection, Query, Source};

/// One key of an `ORDER BY`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderPath {
    /// The names along the way from the document to the key; none if the key is computed, which
    /// no index can serve.
    pub path: Option<Vec<String>>,
    /// The direction.
    pub direction: Direction,
}

impl Query {
    /// The paths that `ORDER BY` sorts by: what an index policy must cover.
    ///
    /// None for a query that aggregates or groups: its rows are made before they are sorted.
    pub fn order_by_paths(&self) -> Vec<OrderPath> {
        if !self.group_by.is_empty() || has_aggregate(&self.select.projection) {
            return Vec::new();
        }
        let Some(OrderBy::Keys(keys)) = &self.order_by else { return Vec::new() };
        let root = self.document_alias();
        let path = |expression| root.and_then(|root| path_below(expression, root));
        keys.iter()
            .map(|key| OrderPath {
                path: path(&key.expression)
                    .map(|names| names.into_iter().map(str::to_owned).collect()),
                direction: key.direction,
            })
            .collect()
    }

    /// Whether a gateway can serve the query over several partitions by itself, row by row.
    ///
    /// Everything that has to be merged from the partitions' results needs a client with a
    /// query plan; the service answers it with 400/1004.
    pub fn is_servable_across_partitions(&self) -> bool {
        let streams = !self.select.distinct
            && self.select.top.is_none()
            && self.group_by.is_empty()
            && self.order_by.is_none()
            && self.window.is_none()
            && !has_aggregate(&self.select.projection);
        streams && inner_query(self).is_none_or(Self::is_servable_across_partitions)
    }

    /// Whether rows are combined from several documents: aggregates, groups and distinct rows, here or in `FROM (…)`.
    ///
    /// A page of such a query holds the rows of its own documents only, also within one partition key, so the client has to
    /// merge pages. The pages of every other query are one after the other the result.
    pub fn has_to_be_merged(&self) -> bool {
        self.combines_rows() || inner_query(self).is_some_and(Self::has_to_be_merged)
    }

    fn combines_rows(&self) -> bool {
        self.select.distinct || !self.group_by.is_empty() || has_aggregate(&self.select.projection)
    }

    /// Whether the rows of a page are combined from the documents that the page has read: aggregates, groups and
    /// distinct rows, without a sort or a window over them.
    ///
    /// Pages of such a query are partial results, also within one partition key, and the client merges them.
    pub fn has_partial_results(&self) -> bool {
        self.combines_rows()
            && self.select.top.is_none()
            && self.order_by.is_none()
            && self.window.is_none()
            && inner_query(self).is_none_or(Self::is_servable_across_partitions)
    }

    /// Whether each row is a document as it is stored, and each document gives at most one: `SELECT *`, `SELECT VALUE c`.
    pub fn selects_documents(&self) -> bool {
        let joins = self.from.as_ref().is_some_and(|from| !from.joins.is_empty());
        let is_document = match (&self.select.projection, self.document_alias()) {
            (Projection::All, Some(_)) => true,
            (Projection::Value(Expr::Identifier(name)), Some(alias)) => name == alias,
            _ => false,
        };
        is_document && !joins && !self.combines_rows()
    }

    /// The name that stands for the whole document.
    pub(crate) fn document_alias(&self) -> Option<&str> {
        match &self.from.as_ref()?.source {
            Source::Collection { collection: Collection::Path { root, steps }, alias }
                if steps.is_empty() =>
            {
                Some(alias.as_ref().unwrap_or(root))
            }
            _ => None,
        }
    }
}

/// The query in `FROM (…)`.
pub(crate) fn inner_query(query: &Query) -> Option<&Query> {
    let From { source, .. } = query.from.as_ref()?;
    match source {
        Source::Collection { collection: Collection::Subquery(inner), .. }
        | Source::Elements { collection: Collection::Subquery(inner), .. } => Some(inner),
        _ => None,
    }
}

/// The names from `root` down to what `expression` reads, if that is all it does.
pub(crate) fn path_below<'e>(expression: &'e Expr, root: &str) -> Option<Vec<&'e str>> {
    match expression {
        Expr::Identifier(name) => (name == root).then(Vec::new),
        Expr::Property(base, name) => {
            let mut names = path_below(base, root)?;
            names.push(name);
            Some(names)
        }
        _ => None,
    }
}
