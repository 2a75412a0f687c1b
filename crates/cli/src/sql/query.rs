//! One query, read page by page: no more than a page is in memory.

use std::time::{Duration, Instant};

use serde_json::Value;
use sidereal::CosmosClient;
use sidereal::models::PartitionKey;
use sidereal::query::{ContinuationToken, PageStream, Query, QueryPage};

use super::rows;
use crate::account::ContainerName;
use crate::command::Format;
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::table;

/// How a query is asked and its rows are printed.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) parameters: Vec<(String, Value)>,
    pub(super) key: Option<PartitionKey>,
    pub(super) max_items: Option<u32>,
    pub(super) page_size: u32,
    pub(super) format: Format,
    pub(super) system: bool,
    pub(super) diagnostics: bool,
}

/// The outcome of a query.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) rows: usize,
    pub(super) pages: usize,
    pub(super) requests: usize,
    pub(super) charge: f64,
    pub(super) elapsed: Duration,
    pub(super) rest: Rest,
}

/// The rest of a query that was stopped.
#[derive(Debug, Default)]
pub(super) enum Rest {
    #[default]
    Nothing,
    /// It goes on from here.
    From(ContinuationToken),
    /// There is more, and a query of this kind cannot go on.
    Lost(String),
}

impl Summary {
    /// One line of what a query cost.
    pub(super) fn line(&self) -> String {
        let count =
            |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        format!(
            "{}, {}, {}, {:.2} RU, {} ms",
            count(self.rows, "row"),
            count(self.pages, "page"),
            count(self.requests, "request"),
            self.charge,
            self.elapsed.as_millis()
        )
    }
}

/// A query on its way: one that was stopped goes on from its token.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) container: ContainerName,
    pub(super) text: String,
    pub(super) continuation: Option<ContinuationToken>,
}

/// Reads a query to its end or to `max_items`, and prints each page as it comes.
pub(super) async fn execute(
    client: &CosmosClient,
    asked: &Asked,
    settings: &Settings,
) -> Result<Summary, Failure> {
    let started = Instant::now();
    let told = |error: sidereal::Error| {
        if let (true, Some(diagnostics)) = (settings.diagnostics, error.diagnostics()) {
            output::note(&diagnostics.to_json());
        }
        let failure = asked.container.explain(error);
        match failure.status() == ExitStatus::InvalidInput && asked.text.contains('@') {
            true => failure.with_hint("parameters are given with --param NAME=VALUE"),
            false => failure,
        }
    };
    let mut reader = Reader::new(client, asked, settings);
    let mut summary = Summary::default();
    while let Some(page) = reader.next().await.map_err(told)? {
        summary.rows += page.items().len();
        summary.pages += 1;
        summary.requests += page.requests();
        summary.charge += page.request_charge();
        print(&page, settings)?;
    }
    summary.elapsed = started.elapsed();
    summary.rest = reader.rest;
    Ok(summary)
}

fn print(page: &QueryPage<Value>, settings: &Settings) -> Result<(), Failure> {
    if settings.diagnostics {
        page.diagnostics().iter().for_each(|it| output::note(&it.to_json()));
    }
    let text = match settings.format {
        Format::Json => page.items().iter().map(|row| format!("{row}\n")).collect(),
        Format::Table if page.items().is_empty() => return Ok(()),
        Format::Table => rows::render(page.items(), settings.system, table::terminal_width()),
    };
    Ok(output::print(&text)?)
}

/// The pages of a query, of which the last ends at `max_items` exactly.
struct Reader {
    query: Query,
    pages: PageStream<Value>,
    page_size: u32,
    /// Rows that may still be read.
    left: Option<u32>,
    rest: Rest,
}

impl Reader {
    fn new(client: &CosmosClient, asked: &Asked, settings: &Settings) -> Self {
        let left = settings.max_items;
        let page_size = left.map_or(settings.page_size, |left| left.min(settings.page_size));
        let mut query = asked.container.client(client).query(asked.text.as_str());
        for (name, value) in &settings.parameters {
            query = query.with_parameter(name, value);
        }
        if let Some(key) = &settings.key {
            query = query.with_partition_key(key.clone());
        }
        if let Some(token) = &asked.continuation {
            query = query.with_continuation(token.clone());
        }
        query = query.with_page_size(page_size);
        let pages = query.pages();
        Self { query, pages, page_size, left, rest: Rest::Nothing }
    }

    async fn next(&mut self) -> sidereal::Result<Option<QueryPage<Value>>> {
        if self.left == Some(0) {
            return Ok(None);
        }
        let Some(page) = self.pages.next().await else { return Ok(None) };
        let page = page?;
        let Some(left) = &mut self.left else { return Ok(Some(page)) };
        // A page has no more rows than was asked for, and that is never more than are left.
        *left = left.saturating_sub(u32::try_from(page.items().len()).unwrap_or(u32::MAX));
        let left = *left;
        match page.continuation() {
            Ok(None) => self.left = Some(0),
            Ok(Some(token)) if left == 0 => self.rest = Rest::From(token),
            Ok(Some(token)) if left < self.page_size => {
                // The next page would go beyond: the query is asked again from here, for a smaller one.
                self.page_size = left;
                let query = self.query.clone().with_continuation(token);
                self.pages = query.with_page_size(left).pages();
            }
            Ok(Some(_)) => {}
            Err(error) if left == 0 => self.rest = Rest::Lost(error.to_string()),
            Err(_) => {}
        }
        Ok(Some(page))
    }
}
