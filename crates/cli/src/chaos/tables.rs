//! Answers of the admin API as tables and sentences for people.

use serde_json::Value;
use sidereal_protocol::RegionName;

use crate::table::{self, cell as text};

fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.to_vec()).collect();
    table::render(&heads, &rows, table::terminal_width())
}

pub(super) fn regions(answer: &Value) -> String {
    let rows: Vec<[String; 5]> = list(answer, "regions").iter().map(region).collect();
    table(["REGION", "PORT", "STATE", "WRITES", "REPLICATION"], &rows)
}

fn region(state: &Value) -> [String; 5] {
    let is = |name: &str| state[name].as_bool().unwrap_or_default();
    let condition = match (is("removed"), is("online")) {
        (true, _) => "removed",
        (false, true) => "online",
        (false, false) => "offline",
    };
    let delay = format!("{} ms behind", state["replication_delay_ms"]);
    [
        text(&state["name"]),
        text(&state["port"]),
        condition.to_owned(),
        if is("accepts_writes") { "yes" } else { "no" }.to_owned(),
        if is("replication_paused") { "paused".to_owned() } else { delay },
    ]
}

pub(super) fn lost_writes(region: &RegionName, answer: &Value) -> String {
    let lost = list(answer, "lost_writes");
    if lost.is_empty() {
        return format!("Writes go to {region}; none was lost.\n");
    }
    let row = |write: &Value| {
        let items: Vec<String> = list(write, "items").iter().map(text).collect();
        let container = format!("{}/{}", text(&write["database"]), text(&write["container"]));
        [container, text(&write["range"]), text(&write["lsn"]), items.join(" ")]
    };
    let rows: Vec<[String; 4]> = lost.iter().map(row).collect();
    let table = table(["CONTAINER", "RANGE", "LSN", "ITEMS"], &rows);
    format!("Writes go to {region}; these were lost:\n\n{table}")
}

pub(super) fn ranges(answer: &Value) -> String {
    let ids: Vec<String> = list(answer, "ranges").iter().map(text).collect();
    format!("In its place: partition range {}.\n", ids.join(" and "))
}

pub(super) fn faults(answer: &Value) -> String {
    let row = |report: &Value| {
        let rule = &report["rule"];
        let pair = |(name, value): (&String, &Value)| format!("{name}={}", text(value));
        let pairs = |value: &Value| -> Vec<String> {
            value.as_object().map(|fields| fields.iter().map(pair).collect()).unwrap_or_default()
        };
        let mut effect = pairs(&rule["effect"]);
        effect.iter_mut().for_each(|pair| *pair = pair.trim_start_matches("kind=").to_owned());
        let condition = pairs(&rule["condition"]).join(" ");
        [
            text(&rule["name"]),
            text(&report["matches"]),
            text(&report["hits"]),
            effect.join(" "),
            if condition.is_empty() { "every request".to_owned() } else { condition },
        ]
    };
    let rows: Vec<[String; 5]> = list(answer, "faults").iter().map(row).collect();
    if rows.is_empty() {
        return "There are no fault rules.\n".to_owned();
    }
    table(["NAME", "MATCHES", "HITS", "EFFECT", "CONDITION"], &rows)
}

pub(super) fn counters(answer: &Value) -> String {
    let row = |row: &Value| {
        let status = match row["sub_status"].as_u64() {
            Some(0) | None => text(&row["status"]),
            Some(sub_status) => format!("{}/{sub_status}", row["status"]),
        };
        [
            text(&row["region"]),
            text(&row["container"]),
            text(&row["range"]),
            text(&row["resource"]),
            text(&row["operation"]),
            status,
            text(&row["requests"]),
            format!("{:.2}", row["charge"].as_f64().unwrap_or_default()),
            text(&row["request_bytes"]),
            text(&row["response_bytes"]),
        ]
    };
    let rows: Vec<[String; 10]> = list(answer, "counters").iter().map(row).collect();
    if rows.is_empty() {
        return "Nothing was asked of the account yet.\n".to_owned();
    }
    let heads = [
        "REGION",
        "CONTAINER",
        "RANGE",
        "RESOURCE",
        "OPERATION",
        "STATUS",
        "REQUESTS",
        "CHARGE",
        "BYTES IN",
        "BYTES OUT",
    ];
    table(heads, &rows)
}

fn list<'a>(answer: &'a Value, name: &str) -> &'a [Value] {
    answer[name].as_array().map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_rule_is_told_by_its_effect_and_its_condition() {
        let report = json!({ "faults": [{
            "rule": {
                "name": "mine",
                "condition": { "region": "West US" },
                "effect": { "kind": "answer", "status": 503 },
            },
            "matches": 2,
            "hits": 1,
        }] });
        let said = faults(&report);
        assert!(said.contains("answer status=503") && said.contains("region=West US"), "{said}");
        assert_eq!(faults(&json!({ "faults": [] })), "There are no fault rules.\n");
    }

    #[test]
    fn lost_writes_are_listed_and_none_is_said() {
        let region = RegionName::from("East US");
        assert!(lost_writes(&region, &json!({ "lost_writes": [] })).contains("none was lost"));
        let lost =
            json!({ "database": "db", "container": "c", "range": "0", "lsn": 4, "items": ["1"] });
        let said = lost_writes(&region, &json!({ "lost_writes": [lost] }));
        assert!(said.contains("these were lost") && said.contains("db/c"), "{said}");
    }
}
