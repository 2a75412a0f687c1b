//! How a query is divided: planned here, by the gateway where this planner declines.

use std::fmt;
use std::sync::Arc;

use sidereal_driver::CosmosDriver;
use sidereal_driver::CosmosResponse;
use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKeyDefinition, PartitionedQueryExecutionInfo, QueryInfo,
    QueryParameter, QueryRange, ResourceLink,
};
use sidereal_query::plan::compose;
use sidereal_query::tree::OrderBy;
use sidereal_query::{
    CompileError, Features, Parameters, PlanError, Program, QueryError, SyntaxError,
    SyntaxErrorKind, parse,
};

use super::request::plan_request;
use crate::error::OperationFailure;
use crate::long_call::Call;
use crate::{Error, ErrorKind, Result};

/// Who planned a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanSource {
    /// Nobody had to: it is about one partition key, and sent as it is.
    PartitionKey,
    /// This client, without a request.
    Client,
    /// The service's gateway, for what this client does not plan.
    Gateway,
    /// The caller, by [`Query::with_pass_through`](super::Query::with_pass_through): it is sent as it is.
    Caller,
}

/// How a query is divided over partition ranges: see [`Query::explain`](super::Query::explain).
#[derive(Clone, Debug)]
pub struct QueryPlan {
    pub(super) source: PlanSource,
    pub(super) text: String,
    pub(super) ranges: usize,
    pub(super) is_resumable: bool,
}

impl QueryPlan {
    /// Who planned it.
    #[must_use]
    pub fn source(&self) -> PlanSource {
        self.source
    }

    /// The query that is sent to each partition range.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How many partition ranges are asked, as they are now.
    #[must_use]
    pub fn partition_ranges(&self) -> usize {
        self.ranges
    }

    /// Whether its pages have continuation tokens.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.is_resumable
    }
}

impl fmt::Display for QueryPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = match self.source {
            PlanSource::PartitionKey => "sent as it is to one partition key",
            PlanSource::Client => "planned by the client",
            PlanSource::Gateway => "planned by the gateway",
            PlanSource::Caller => "sent as it is",
        };
        let resumable = if self.is_resumable { "" } else { "not " };
        write!(formatter, "{by}, {} partition ranges, {resumable}resumable: ", self.ranges)?;
        formatter.write_str(&self.text)
    }
}

/// A plan to be carried out.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) source: PlanSource,
    pub(super) info: QueryInfo,
    pub(super) ranges: Vec<QueryRange>,
    /// The query that is sent to each range.
    pub(super) text: String,
    /// The query over the merged groups, if the result is computed from them.
    pub(super) over_groups: Option<Program>,
    /// The gateway's response, where it was asked.
    pub(super) response: Option<CosmosResponse>,
}

impl Planned {
    fn new(source: PlanSource, text: &str, plan: PartitionedQueryExecutionInfo) -> Result<Self> {
        let PartitionedQueryExecutionInfo { query_info, query_ranges, .. } = plan;
        let info = query_info.ok_or_else(|| wrong_plan("it does not say how to merge"))?;
        let text = if info.rewritten_query.is_empty() { text } else { &info.rewritten_query };
        let text = text.to_owned();
        Ok(Self { source, info, ranges: query_ranges, text, over_groups: None, response: None })
    }
}

/// A query's text, as far as it was read.
#[derive(Debug)]
pub(super) struct ParsedQuery {
    text: String,
    parameters: Vec<QueryParameter>,
    reading: Reading,
}

/// How far a text was read.
#[derive(Debug)]
enum Reading {
    Understood {
        tree: Box<sidereal_query::Query>,
        values: Parameters,
    },
    /// It is not the SQL that this client knows, for this reason: the service may know more.
    Unknown(Error),
    /// The caller wants it to be sent as it is.
    PassedThrough,
}

impl ParsedQuery {
    /// Reads a query's text. A name that means nothing is an error before anything is sent; a text that this client
    /// does not know is left to the service.
    pub(super) fn new(text: &str, parameters: Vec<QueryParameter>) -> Result<Self> {
        let reading = match parse(text) {
            Ok(tree) => {
                let pairs = parameters.iter().map(|it| (it.name.clone(), it.value.clone()));
                let values: Parameters = pairs.collect();
                let compiled = Program::new(&tree, &values).map_err(|it| declined(&it.into()));
                if let Err(Declined::Wrong(error)) = compiled {
                    return Err(error);
                }
                Reading::Understood { tree: Box::new(tree), values }
            }
            Err(error) if error.kind == SyntaxErrorKind::TooLarge => {
                return Err(syntax_error(text, &error));
            }
            Err(error) => Reading::Unknown(syntax_error(text, &error)),
        };
        Ok(Self { text: text.to_owned(), parameters, reading })
    }

    /// A query that is sent as it is, whatever its text.
    pub(super) fn passed_through(text: &str, parameters: Vec<QueryParameter>) -> Self {
        Self { text: text.to_owned(), parameters, reading: Reading::PassedThrough }
    }

    /// Says where the text is not the SQL that this client knows, if the service refused it too.
    pub(super) fn explain(&self, error: Error) -> Error {
        match &self.reading {
            Reading::Unknown(why) if error.kind() == ErrorKind::InvalidRequest => {
                let said = error.service_message();
                let said = said.map(|said| format!("; the service says: {said}"));
                let failure = OperationFailure {
                    status: error.status(),
                    may_have_been_applied: false,
                    diagnostics: error.diagnostics().cloned().map(Arc::new),
                };
                let sentence = format!("{why}{}", said.unwrap_or_default());
                Error::of_operation(ErrorKind::InvalidRequest, sentence, failure, Some(&error))
            }
            Reading::Unknown(_) | Reading::Understood { .. } | Reading::PassedThrough => error,
        }
    }

    /// Whether each row of the result is an item as it is stored.
    pub(super) fn selects_items(&self) -> bool {
        match &self.reading {
            Reading::Understood { tree, .. } => tree.selects_documents(),
            Reading::Unknown(_) | Reading::PassedThrough => false,
        }
    }

    pub(super) fn parameters(&self) -> &[QueryParameter] {
        &self.parameters
    }

    /// The plan of a query that is sent as it is.
    fn as_it_is(&self, source: PlanSource) -> Planned {
        Planned {
            source,
            info: QueryInfo::default(),
            ranges: vec![QueryRange::from(EffectivePartitionKeyRange::FULL)],
            text: self.text.clone(),
            over_groups: None,
            response: None,
        }
    }

    /// The plan within one partition key: pages are passed on as they come, unless they are partial results.
    ///
    /// A query that has to be merged and that neither this client nor the gateway plans is sent as it is. Its result is
    /// right where the service answers it in one page.
    pub(super) async fn plan_within_key(
        &self,
        definition: &PartitionKeyDefinition,
        driver: &CosmosDriver,
        container: &ResourceLink,
        call: &Call,
    ) -> Result<Planned> {
        match &self.reading {
            Reading::Understood { tree, .. } if tree.has_to_be_merged() => {
                match self.plan(definition, driver, container, call).await {
                    Err(error) if error.kind() == ErrorKind::InvalidRequest => {
                        Ok(self.as_it_is(PlanSource::PartitionKey))
                    }
                    planned => planned,
                }
            }
            Reading::Understood { .. } | Reading::Unknown(_) => {
                Ok(self.as_it_is(PlanSource::PartitionKey))
            }
            Reading::PassedThrough => Ok(self.as_it_is(PlanSource::Caller)),
        }
    }

    /// The plan over partition ranges.
    pub(super) async fn plan(
        &self,
        definition: &PartitionKeyDefinition,
        driver: &CosmosDriver,
        container: &ResourceLink,
        call: &Call,
    ) -> Result<Planned> {
        let (tree, values) = match &self.reading {
            Reading::Understood { tree, values } => (tree, values),
            Reading::Unknown(_) => {
                let planned = self.ask_gateway(driver, container, call).await;
                return planned.map_err(|error| self.explain(error));
            }
            Reading::PassedThrough => return Ok(self.as_it_is(PlanSource::Caller)),
        };
        if let Some(OrderBy::Rank(_)) = tree.order_by {
            return Err(Error::invalid(
                "ORDER BY RANK, a hybrid search, is not supported by this client across partitions: ask by one score \
                 at a time, such as ORDER BY VectorDistance(…)",
            ));
        }
        let plan = sidereal_query::plan(tree, values, definition, Features::ALL);
        match plan.map_err(|it| declined(&it)) {
            Ok(plan) => Planned::new(PlanSource::Client, &self.text, plan),
            Err(Declined::Wrong(error)) => Err(error),
            Err(Declined::Unknown) => match plan_groups(tree, values, definition) {
                Some(plan) => plan,
                None => self.ask_gateway(driver, container, call).await,
            },
        }
    }

    async fn ask_gateway(
        &self,
        driver: &CosmosDriver,
        container: &ResourceLink,
        call: &Call,
    ) -> Result<Planned> {
        let request = plan_request(container, &self.text, &self.parameters)?;
        let response = driver.execute_operation(&request, &call.options()).await?;
        let plan: PartitionedQueryExecutionInfo = serde_json::from_slice(response.body())
            .map_err(|error| wrong_plan(&format!("it cannot be read: {error}")))?;
        if plan.hybrid_search_query_info.is_some() {
            return Err(Error::invalid("hybrid searches are not supported by this client"));
        }
        if plan.query_ranges.is_empty() {
            return Err(wrong_plan("it names no ranges"));
        }
        let planned = Planned::new(PlanSource::Gateway, &self.text, plan)?;
        Ok(Planned { response: Some(response), ..planned })
    }
}

/// The plan of a query with expressions over aggregates.
fn plan_groups(
    tree: &sidereal_query::Query,
    values: &Parameters,
    definition: &PartitionKeyDefinition,
) -> Option<Result<Planned>> {
    let composed = compose(tree)?;
    let program = Program::new(&composed.result, values).ok()?;
    let plan = sidereal_query::plan(&composed.groups, values, definition, Features::ALL);
    let text = composed.groups.to_string();
    let planned = Planned::new(PlanSource::Client, &text, plan.ok()?);
    Some(planned.map(|planned| Planned { over_groups: Some(program), ..planned }))
}

/// Why there is no plan of this client's.
enum Declined {
    /// The query is wrong for every planner.
    Wrong(Error),
    /// It has something that this planner does not know, or cannot divide.
    Unknown,
}

fn declined(error: &PlanError) -> Declined {
    match error {
        PlanError::Query(QueryError::Compile(
            CompileError::UnknownFunction(_)
            | CompileError::UnavailableFunction(_)
            | CompileError::UserDefinedFunction(_)
            | CompileError::Unsupported(_)
            | CompileError::BadRegex(_),
        ))
        | PlanError::UnsupportedFeatures(_)
        | PlanError::NotPartitionable(_) => Declined::Unknown,
        PlanError::Query(QueryError::Compile(CompileError::MissingParameter(name))) => {
            Declined::Wrong(Error::invalid(format!(
                "the query mentions {name}, and no value was given: add .with_parameter(\"{name}\", …)"
            )))
        }
        _ => Declined::Wrong(Error::invalid(format!("the query means nothing: {error}"))),
    }
}

/// How much of the text is shown on either side of an error.
const EXCERPT_CHARS: usize = 30;

/// Shows where the text is wrong.
fn syntax_error(text: &str, error: &SyntaxError) -> Error {
    let start = error.start.min(text.len());
    // The offsets are those of characters, but nothing here is worth a panic.
    let (before, after) =
        (text.get(..start).unwrap_or(text), text.get(start..).unwrap_or_default());
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let shown: String = before.chars().rev().take(EXCERPT_CHARS).collect();
    let shown: String = shown.chars().rev().collect();
    let rest: String = after.chars().take(EXCERPT_CHARS).collect();
    Error::invalid(format!(
        "the query is not valid SQL at line {line}, column {column}: expected {}, here: {shown}»{rest}",
        error.expected
    ))
}

fn wrong_plan(why: &str) -> Error {
    Error::new(
        ErrorKind::InvalidResponse,
        format!("the service answered with a query plan that cannot be carried out: {why}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Error {
        let error = ParsedQuery::new(text, Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error}");
        error
    }

    #[test]
    fn a_text_that_the_service_refuses_too_is_shown_where_it_is_wrong() {
        let refused = |text| {
            let parsed = ParsedQuery::new(text, Vec::new()).unwrap();
            parsed.explain(Error::invalid("refused")).to_string()
        };
        let error = refused("SELECT *\nFORM c WHERE c.é = 1");
        assert!(error.contains("line 2, column 1"), "{error}");
        assert!(error.contains("»FORM c"), "{error}");
        assert!(refused("SELECT 'é").contains("line 1"));
        assert!(refused("").contains("line 1"));
        assert_eq!(refused("SELECT 1"), "refused");
    }

    #[test]
    fn what_means_nothing_is_refused_and_a_missing_parameter_is_named() {
        let error = refused("SELECT * FROM c WHERE c.x = @x").to_string();
        assert!(error.contains(".with_parameter(\"@x\""), "{error}");
        refused("SELECT x.id FROM c");
        refused("SELECT c.a, COUNT(1) FROM c GROUP BY c.b");
    }

    #[test]
    fn what_this_planner_does_not_know_is_left_to_the_service() {
        for text in [
            "SELECT udf.tax(c.price) FROM c",
            "SELECT TOP 3 c.id FROM c ORDER BY VectorDistance(c.v, [1])",
            "SELECT VALUE NewFunction(c.x) FROM c",
            "SELECT * FROM c ORDER BY RANK RRF(c.a, c.b)",
            "SELECT * FROM c QUALIFY c.x = 1",
        ] {
            assert!(ParsedQuery::new(text, Vec::new()).is_ok(), "{text}");
        }
    }
}
