//! Numbers and tables as text.

use std::time::Duration;

use sidereal_protocol::RegionName;

/// A table with a line under its heads. The first column is to the left, the others to the right.
pub(super) fn table(heads: &[String], rows: &[Vec<String>]) -> String {
    let length = |text: &String| text.chars().count();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(length);
        cells.chain([length(&heads[column])]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[String]| {
        let padded = cells.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
            if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        let padded: Vec<String> = padded.collect();
        format!("  {}\n", padded.join("  ").trim_end())
    };
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let rows = rows.iter().map(|row| line(row));
    [line(heads), line(&rule)].into_iter().chain(rows).collect()
}

/// A latency in milliseconds, with as many digits as it deserves.
pub(crate) fn milliseconds(latency: Option<Duration>) -> String {
    match latency.map(|latency| latency.as_secs_f64() * 1e3) {
        None => "–".to_owned(),
        Some(ms) if ms < 9.95 => format!("{ms:.1}"),
        Some(ms) => format!("{ms:.0}"),
    }
}

/// A number with its thousands apart.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let grouped = digits.bytes().enumerate().map(|(at, digit)| {
        let is_start = at > 0 && (digits.len() - at).is_multiple_of(3);
        let separator = if is_start { "," } else { "" };
        format!("{separator}{}", char::from(digit))
    });
    grouped.collect()
}

/// The share of each in per cent.
pub(crate) fn percentages(requests: &[u64]) -> Vec<f64> {
    let all: u64 = requests.iter().sum();
    requests.iter().map(|part| 100.0 * *part as f64 / all.max(1) as f64).collect()
}

/// Where requests went, in words: the regions that got some, by name.
pub(super) fn shares(regions: &[RegionName], requests: &[u64]) -> String {
    let parts = regions.iter().zip(percentages(requests)).filter(|(_, share)| *share >= 0.5);
    parts.map(|(region, share)| format!("{region} {share:.0} %")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let heads = ["phase", "failed"].map(str::to_owned);
        let rows =
            [["baseline", "0"], ["x", "1,000,000"]].map(|row| row.map(str::to_owned).to_vec());
        let drawn = table(&heads, &rows);
        let lines: Vec<&str> = drawn.lines().collect();
        assert_eq!(lines[0], "  phase        failed");
        assert_eq!(lines[1], "  ────────  ─────────");
        assert_eq!(lines[3], "  x         1,000,000");
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(milliseconds(Some(Duration::from_micros(1_240))), "1.2");
        assert_eq!(milliseconds(Some(Duration::from_micros(9_960))), "10");
        assert_eq!(milliseconds(None), "–");
        assert_eq!([0, 999, 1_000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn shares_name_the_regions_that_got_something() {
        let regions = ["West US", "East US"].map(RegionName::from);
        assert_eq!(shares(&regions, &[300, 100]), "West US 75 %, East US 25 %");
        assert_eq!(shares(&regions, &[0, 7]), "East US 100 %");
        assert_eq!(shares(&regions, &[0, 0]), "");
    }
}
