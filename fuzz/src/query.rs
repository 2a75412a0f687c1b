//! Laws of the query language under arbitrary bytes.

use serde_json::{Value, json};
use sidereal_query::{Condition, Context, Limits, Parameters, Program};

/// What parses prints as text that parses to the same tree; what does not points into the text.
pub fn parse(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match sidereal_query::parse(text) {
        Ok(query) => {
            let printed = query.to_string();
            assert_eq!(
                sidereal_query::parse(&printed).as_ref(),
                Ok(&query),
                "printed as {printed}"
            );
        }
        Err(error) => {
            assert!(error.start <= error.end && error.end <= text.len());
            assert!(text.is_char_boundary(error.start) && text.is_char_boundary(error.end));
            assert!(error.to_service_error().to_json().starts_with(r#"{"errors":["#));
        }
    }
    let _ = Condition::parse(text); // Any answer will do, as long as there is one.
}

/// A query over documents ends with rows or with a limit, and gives the same rows again.
///
/// The input is the text of a query and, after a zero byte, that of a document.
pub fn evaluate(data: &[u8]) {
    let Some(at) = data.iter().position(|byte| *byte == 0) else { return };
    let Ok(text) = std::str::from_utf8(&data[..at]) else { return };
    let Ok(document) = serde_json::from_slice::<Value>(&data[at + 1..]) else { return };
    let Ok(query) = sidereal_query::parse(text) else { return };
    let parameters = Parameters::from([
        ("@n".to_owned(), json!(2)),
        ("@s".to_owned(), json!("x")),
        ("@d".to_owned(), document.clone()),
    ]);
    let Ok(program) = Program::new(&query, &parameters) else { return };
    let other = json!({"id": "1", "v": 1, "tags": ["x", "y", 3], "kids": [{"g": 5}, {"g": null}]});
    let documents = [document, other];
    let run = || program.run(&documents, &context());
    let rows = run();
    assert_eq!(rows, run(), "one context, one result");
}

/// Tight limits, so that a costly query ends as quickly as a cheap one.
fn context() -> Context {
    let limits = Limits {
        max_value_size: 64 * 1024,
        max_steps_per_row: 50_000,
        max_steps: 50_000,
        max_buffered_bytes: 10_000_000,
        max_buffered_rows: 10_000,
    };
    Context::new(17_092_100_961_234_567, 42).with_limits(limits)
}
