//! The official Rust SDK for Azure Cosmos DB, unmodified, against the emulator.
//!
//!     cargo run --manifest-path peers/Cargo.toml [PART OF A SCENARIO'S NAME]
//!
//! Every scenario runs once for each way to connect: in cleartext (HTTP/1.1) and over TLS (HTTP/2), with the SDK's
//! defaults, with binary encoding turned on and with it turned off. The table has a row per scenario; a scenario
//! whose feature the SDK lacks says what it lacks, and fails when that is no longer true. The exit code is that of
//! the scenarios: zero if none failed.

mod harness;
mod scenarios;
mod twenty_tasks;

use std::process::ExitCode;

use harness::{Connection, Emulators, Outcome, Peer, Scenario};

#[tokio::main]
async fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let emulators = match Emulators::start().await {
        Ok(emulators) => emulators,
        Err(error) => {
            eprintln!("no emulator: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut failed = 0;
    let chosen: Vec<Scenario> =
        scenarios::all().into_iter().filter(|scenario| scenario.name.contains(&wanted)).collect();
    print_row("area", "scenario", Connection::ALL.iter().map(|connection| connection.name()));
    let mut notes = Vec::new();
    for scenario in &chosen {
        let mut cells = Vec::new();
        for connection in Connection::ALL {
            let outcome = harness::run(scenario, Peer::new(&emulators, connection)).await;
            cells.push(outcome.word());
            match outcome {
                Outcome::Passed => {}
                Outcome::SdkLacks(what) => notes.push(format!("the SDK lacks {what}")),
                Outcome::EmulatorLacks(what) => notes.push(format!("the emulator lacks {what}")),
                Outcome::Failed(why) => {
                    failed += 1;
                    eprintln!("{} ({}): {why}", scenario.name, connection.name());
                }
            }
        }
        print_row(scenario.area, scenario.name, cells.into_iter());
    }
    notes.dedup();
    for note in &notes {
        println!("{note}");
    }
    println!(
        "{} scenarios, {} ways to connect, {failed} failed",
        chosen.len(),
        Connection::ALL.len()
    );
    if failed > 0 || chosen.is_empty() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print_row<'a>(area: &str, name: &str, cells: impl Iterator<Item = &'a str>) {
    let cells: Vec<String> = cells.map(|cell| format!("{cell:<11}")).collect();
    println!("{area:<12} {name:<66} {}", cells.join(" ").trim_end());
}
