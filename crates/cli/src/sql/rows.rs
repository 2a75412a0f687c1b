//! The rows of a page as a table.

use serde_json::Value;

use crate::system_properties::is_system_property;
use crate::table;

/// The column of rows that are no objects, as `SELECT VALUE` gives them.
const VALUE_COLUMN: &str = "VALUE";

/// A table of rows: a column for each property, in the order in which they first appear.
pub(super) fn render(rows: &[Value], with_system: bool, width: Option<usize>) -> String {
    let columns = columns(rows, with_system);
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row, &columns)).collect();
    // A property's name comes from an item, as its values do.
    let heads: Vec<String> = columns.iter().map(|name| table::printable(name)).collect();
    table::render(&heads, &cells, width)
}

fn columns(rows: &[Value], with_system: bool) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    let mut known = std::collections::HashSet::new();
    for row in rows {
        let Some(properties) = row.as_object() else { continue };
        for name in properties.keys().filter(|name| with_system || !is_system_property(name)) {
            if known.insert(name.as_str()) {
                columns.push(name);
            }
        }
    }
    if rows.iter().any(|row| !row.is_object()) || columns.is_empty() {
        columns.push(VALUE_COLUMN);
    }
    columns
}

fn cells(row: &Value, columns: &[&str]) -> Vec<String> {
    let Some(properties) = row.as_object() else {
        let mut cells = vec![String::new(); columns.len() - 1];
        cells.push(table::cell(row));
        return cells;
    };
    // A property that is not there is left blank; one that is null is a dash.
    let cell = |name: &&str| properties.get(*name).map(table::cell).unwrap_or_default();
    columns.iter().map(cell).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_property_of_any_row_is_a_column() {
        let rows = [json!({"id": "1", "n": 5}), json!({"id": "2", "tags": ["a"], "none": null})];
        let expected = "id  n  tags   none\n 1  5\n 2     [\"a\"]  -\n";
        assert_eq!(render(&rows, false, None), expected);
    }

    #[test]
    fn properties_of_the_system_are_shown_on_demand() {
        let rows = [json!({"id": "1", "_ts": 7})];
        assert_eq!(render(&rows, false, None), "id\n 1\n");
        assert_eq!(render(&rows, true, None), "id  _ts\n 1    7\n");
    }

    #[test]
    fn values_that_are_no_objects_have_a_column_of_their_own() {
        assert_eq!(render(&[json!(3), json!("x")], false, None), "VALUE\n3\nx\n");
        assert_eq!(render(&[json!({})], false, None), "VALUE\n\n");
    }
}
