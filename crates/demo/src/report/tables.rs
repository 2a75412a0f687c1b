//! The tables of the page.

use super::escaped;
use crate::forced::ForcedChange;
use crate::observe::Timeline;
use crate::schedule::{Schedule, Windows};
use crate::stage::{self, Adjustment};
use crate::view::phase_rows;

/// A table of numbers; the first column is a heading of its row.
fn table(caption: &str, heads: &[String], rows: &[Vec<String>]) -> String {
    table_of("numbers", caption, heads, rows)
}

/// A table of texts.
fn text_table(caption: &str, heads: &[String], rows: &[Vec<String>]) -> String {
    table_of("words", caption, heads, rows)
}

fn table_of(class: &str, caption: &str, heads: &[String], rows: &[Vec<String>]) -> String {
    let head: String =
        heads.iter().map(|head| format!("<th scope=\"col\">{}</th>", escaped(head))).collect();
    let row = |cells: &Vec<String>| {
        let cell = |(column, cell): (usize, &String)| match column {
            0 => format!("<th scope=\"row\">{}</th>", escaped(cell)),
            _ => format!("<td>{}</td>", escaped(cell)),
        };
        let cells: String = cells.iter().enumerate().map(cell).collect();
        format!("<tr>{cells}</tr>")
    };
    let rows: String = rows.iter().map(row).collect();
    format!(
        "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{0}\"><table class=\"{class}\"><caption>{0}</caption>\
         <thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>",
        escaped(caption)
    )
}

fn texts<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// The application's observations in each phase.
pub(super) fn calls(timeline: &Timeline) -> String {
    let heads = texts([
        "phase",
        "operations",
        "failed",
        "read p50 (ms)",
        "read p99",
        "write p50",
        "write p99",
        "failovers",
        "hedges",
    ]);
    table(
        "What the application saw, as its client reports it",
        &heads,
        &phase_rows::calls(timeline),
    )
}

/// The service's counters in each phase.
pub(super) fn requests(timeline: &Timeline) -> String {
    let mut heads = texts(["phase", "requests", "RU", "orchestrations completed"]);
    heads.extend(timeline.regions.iter().map(ToString::to_string));
    table("What the service counted", &heads, &phase_rows::requests(timeline))
}

/// The events of the account, and when they happened.
pub(super) fn steps(schedule: &Schedule) -> String {
    let row = |step: &crate::schedule::Step| {
        vec![format!("{:.2} s", step.at.as_secs_f64()), step.action.to_string()]
    };
    let rows: Vec<Vec<String>> = schedule.steps.iter().map(row).collect();
    text_table("What happened to the account", &texts(["at", "what"]), &rows)
}

/// Which settings are not the usual ones.
pub(super) fn adjustments(windows: &Windows) -> String {
    let row = |it: &Adjustment| vec![it.what.to_owned(), it.here.clone(), it.usually.to_owned()];
    let rows: Vec<Vec<String>> = stage::adjustments(windows).iter().map(row).collect();
    let caption = "Seconds stand for minutes: settings that are not the usual ones";
    text_table(caption, &texts(["setting", "here", "usually"]), &rows)
}

/// The losses of a forced change.
pub(super) fn lost(forced: &ForcedChange) -> String {
    let row = |write: &sidereal_emulator::LostWrite| {
        vec![
            write.items.join(" "),
            format!("{}/{}", write.database, write.container),
            write.range.clone(),
            write.lsn.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = forced.lost.iter().map(row).collect();
    table(
        "Acknowledged writes that were lost",
        &texts(["item", "container", "range", "LSN"]),
        &rows,
    )
}
