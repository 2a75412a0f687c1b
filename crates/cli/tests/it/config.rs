//! `sidereal config` as a process.

use serde_json::{Value, json};

use crate::account::{command, refuses, says};

fn rows(command: &mut std::process::Command) -> Vec<Value> {
    says(command).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_setting_is_listed_with_value_source_variable_and_meaning() {
    let all = rows(&mut command(&["config"]));
    assert!(all.len() > 60, "{}", all.len());
    for row in &all {
        assert!(!row["meaning"].as_str().unwrap().is_empty(), "{row}");
        assert!(["default", "unset"].contains(&row["from"].as_str().unwrap()), "{row}");
    }
    let table = says(&mut command(&["config", "--output", "table"]));
    assert!(table.starts_with("SETTING") && table.lines().count() == all.len() + 1);
}

#[test]
fn a_setting_is_found_by_its_name_or_its_variable() {
    let variable = "AZURE_COSMOS_MAX_FAILOVER_RETRY_COUNT";
    for name in ["max_failover", "MAX_FAILOVER_RETRY", variable] {
        let found = rows(command(&["config", name]).env(variable, "7"));
        let row = &found[0];
        assert_eq!(
            (found.len(), &row["value"], &row["from"]),
            (1, &json!("7"), &json!("environment"))
        );
        assert_eq!(row["variables"], json!([variable]));
    }
    let set =
        rows(command(&["config", "--set"]).env(variable, "7").env("COSMOSDB_KEY", "c2VjcmV0"));
    let names: Vec<&str> = set.iter().map(|row| row["setting"].as_str().unwrap()).collect();
    assert_eq!(names, ["command.key", "availability.max_failover_retry_count"]);
    assert!(!format!("{set:?}").contains("c2VjcmV0"));
    assert!(refuses(3, &mut command(&["config", "nonsense"])).contains("sidereal config"));
}

#[test]
fn variables_that_cannot_be_used_are_named_together() {
    let mut command = command(&["config"]);
    command.env("AZURE_COSMOS_MAX_FAILOVER_RETRY_COUNT", "many");
    command.env("AZURE_COSMOS_TRACING_ENABLED", "perhaps");
    let said = refuses(7, &mut command);
    assert!(said.contains("\"many\"") && said.contains("true or false"), "{said}");
}
