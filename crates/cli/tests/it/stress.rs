//! `sidereal stress`, for as short as it runs.

use crate::account::{Account, command, refuses, says};

/// One run of a second: the harness counts in seconds.
const SHORT: [&str; 7] =
    ["stress", "--duration", "1s", "--concurrency", "2/2", "--activity-delay", "1ms"];

#[test]
fn a_run_within_the_process_is_told_with_its_cost() {
    let line = [&SHORT[..], &["--workload", "parallel", "--tasks", "2"]].concat();
    let said = says(&mut command(&line));
    let told: serde_json::Value = serde_json::from_str(said.trim()).unwrap();
    assert_eq!(told["successRate"], 100.0);
    assert!(told["completed"].as_u64().unwrap() > 0, "{told}");
    assert!(told["requestsPerOrchestration"].as_f64().unwrap() > 5.0, "{told}");
}

#[test]
fn a_run_on_an_account_that_is_named_leaves_nothing_behind() {
    let account = Account::start(&[]);
    let endpoint = account.emulator.fact("http_endpoint").to_owned();
    let account_line = ["--endpoint", &endpoint, "--output", "table", "--max-concurrent", "3"];
    let line = [&SHORT[..], &account_line, &["--workload", "large-payloads"]].concat();
    let said = account.says(&line);
    assert!(said.starts_with("RUN") && said.contains("large payloads"), "{said}");
    assert!(account.tells(&["db", "list"]).is_empty(), "its database was deleted");
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    for (line, expected) in [
        (&["stress", "--concurrency", "2"][..], "2/2"),
        (&["stress", "--tasks", "0"], "1.."),
        (&["stress", "--duration", "long"], "20ms"),
        (&["stress", "--emulator", "--round-trip", "10ms"], "within the process"),
    ] {
        let said = refuses(2, &mut command(line));
        assert!(said.contains(expected), "{said}");
    }
}
