//! `sidereal item import`: chunks of lines, each a bulk, while the next is read.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use sidereal::{BulkOperation, CosmosClient};

use super::lines::{Chunk, ItemLines};
use crate::account::{ContainerName, ItemScope};
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::progress::Progress;

#[derive(Args, Debug)]
pub(super) struct ImportArguments {
    /// The container, as database/container.
    container: ContainerName,
    /// File with one item a line, as JSON; - for standard input.
    file: PathBuf,
    /// Give up after so many lines that failed.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    max_failures: usize,
    /// Batches under way at once.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = concurrency)]
    concurrency: usize,
}

fn concurrency(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=256).contains(number));
    number.ok_or_else(|| "expected a number from 1 to 256".to_owned())
}

type Lines = ItemLines<Box<dyn BufRead + Send>>;

pub(super) async fn import(
    client: &CosmosClient,
    arguments: &ImportArguments,
) -> Result<(), Failure> {
    let (text, bytes) = open(&arguments.file)?;
    let scope = arguments.container.open(client).await?;
    let progress = Progress::new("imported", bytes);
    let mut importer = Importer { arguments, scope, progress, done: Done::default() };
    let started = Instant::now();
    let unreadable = |error| Failure::file(&arguments.file, "read", error);
    let (mut lines, mut chunk) = read(ItemLines::new(text)).await.map_err(unreadable)?;
    loop {
        let is_last = chunk.is_last;
        // The next chunk is read while this one is sent; with the chunk itself that is all there is in memory.
        let (sent, next) = tokio::join!(importer.send(chunk), read_unless(is_last, lines));
        sent?;
        match next.map_err(unreadable)? {
            Some(next) => (lines, chunk) = next,
            None => break,
        }
    }
    importer.finish(started)
}

/// Reads on threads that may wait: standard input can be slow.
async fn read(mut lines: Lines) -> io::Result<(Lines, Chunk)> {
    let reading =
        tokio::task::spawn_blocking(move || lines.next_chunk().map(|chunk| (lines, chunk)));
    reading.await.map_err(io::Error::other)?
}

async fn read_unless(is_last: bool, lines: Lines) -> io::Result<Option<(Lines, Chunk)>> {
    if is_last { Ok(None) } else { read(lines).await.map(Some) }
}

/// A text to read, and its length where that is known.
fn open(path: &Path) -> Result<(Box<dyn BufRead + Send>, Option<u64>), Failure> {
    if path == Path::new("-") {
        return Ok((Box::new(BufReader::new(io::stdin())), None));
    }
    let file = File::open(path).map_err(|error| Failure::file(path, "read", error))?;
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|it| it.len());
    Ok((Box::new(BufReader::new(file)), length))
}

/// The reason of a failed operation without the operation, whose number is that within the bulk: people know the
/// line, or the place in a file.
pub(crate) fn without_operation(sentence: &str) -> &str {
    let reason = sentence.strip_prefix("operation ").and_then(|rest| rest.split_once("): "));
    reason.map_or(sentence, |(_, reason)| reason)
}

struct Importer<'a> {
    arguments: &'a ImportArguments,
    scope: ItemScope,
    progress: Progress,
    done: Done,
}

#[derive(Debug, Default)]
struct Done {
    imported: usize,
    failed: usize,
    requests: usize,
    charge: f64,
}

impl Importer<'_> {
    /// Sends the items of a chunk and names what failed.
    async fn send(&mut self, chunk: Chunk) -> Result<(), Failure> {
        for bad in &chunk.bad {
            self.fail(bad.line, &bad.why);
        }
        self.check()?;
        let (numbers, items): (Vec<usize>, Vec<_>) = chunk.items.into_iter().unzip();
        let definition = &self.scope.definition;
        let operations = items
            .into_iter()
            .map(|item| BulkOperation::upsert_item(definition.extract(&item), item));
        let told = self.progress.clone();
        let (imported, failed) = (self.done.imported, self.done.failed);
        let bulk = self.scope.container.bulk().with_max_concurrency(self.arguments.concurrency);
        let bulk =
            bulk.with_progress(move |it| told.count(imported + it.succeeded, failed + it.failed));
        let report = bulk.execute(operations).await?;
        self.done.requests += report.requests();
        self.done.charge += report.request_charge();
        self.done.imported += report.results().len() - report.failures().count();
        for failure in report.failures() {
            let line = numbers.get(failure.index()).copied().unwrap_or_default();
            if let Err(error) = failure.outcome() {
                self.fail(line, without_operation(&Failure::from(error).to_string()));
            }
        }
        self.progress.advance(chunk.bytes);
        self.progress.count(self.done.imported, self.done.failed);
        self.check()
    }

    fn fail(&mut self, line: usize, why: &str) {
        self.done.failed += 1;
        // Beyond the bound there is one sentence at the end.
        if self.done.failed <= self.arguments.max_failures {
            self.progress.note(&format!("line {line}: {why}"));
        }
    }

    fn check(&self) -> Result<(), Failure> {
        if self.done.failed <= self.arguments.max_failures {
            return Ok(());
        }
        self.progress.finish();
        let sentence = format!(
            "given up after {} lines that failed; {} items were imported",
            self.done.failed, self.done.imported
        );
        Err(Failure::new(ExitStatus::Incomplete, sentence)
            .with_hint("--max-failures says how many lines may fail"))
    }

    fn finish(self, started: Instant) -> Result<(), Failure> {
        self.progress.finish();
        let Done { imported, failed, requests, charge } = self.done;
        let seconds = started.elapsed().as_secs_f64();
        let rate = imported as f64 / seconds.max(0.001);
        output::print(&format!(
            "Imported {imported} items into {}: {charge:.2} RU, {requests} requests, {seconds:.1} s, {rate:.0} items/s.\n",
            self.arguments.container
        ))?;
        match failed {
            0 => Ok(()),
            failed => {
                let sentence = format!("{failed} of {} lines failed", imported + failed);
                Err(Failure::new(ExitStatus::Incomplete, sentence)
                    .with_hint("importing again is harmless: items that are there are replaced"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_told_without_the_number_of_its_operation() {
        assert_eq!(without_operation("operation 1 (Upsert of [\"a\"]): no"), "no");
        assert_eq!(without_operation("no connection"), "no connection");
    }
}
