//! A run that is stopped and resumed gives what one run gives, wherever it is stopped.

use serde_json::{Value, json};

use super::{Flow, Parameters, Program, Taken};
use crate::context::{Context, Signal};
use crate::error::EvalError;
use crate::limits::Limits;
use crate::parser::parse;

/// Queries whose rows stream, over several documents with arrays.
const STREAMING: &[&str] = &[
    "SELECT * FROM c",
    "SELECT VALUE c.missing FROM c",
    "SELECT c.id, a, b FROM c JOIN a IN c.a JOIN b IN c.b WHERE a != b",
    "SELECT VALUE a FROM a IN c.a",
    "SELECT VALUE [x, y] FROM c JOIN x IN (SELECT VALUE t * 2 FROM t IN c.a) JOIN y IN c.b",
    "SELECT VALUE {s: s, b: b} FROM (SELECT c.b, a FROM c JOIN a IN c.a) s JOIN b IN s.b",
    "SELECT VALUE a FROM c JOIN a IN c.a OFFSET 3 LIMIT 9",
    "SELECT TOP 7 VALUE b FROM c JOIN a IN c.none JOIN b IN c.b",
];

fn documents() -> Vec<Value> {
    let document = |id: usize| {
        let numbers = |n: usize| (0..n).collect::<Vec<_>>();
        json!({ "id": id, "a": numbers(id), "b": numbers(4 - id), "none": [[]] })
    };
    (0..5).map(document).collect()
}

fn program(text: &str) -> Program {
    Program::new(&parse(text).unwrap(), &Parameters::new()).unwrap()
}

/// Reads everything in as many runs as it takes, each ended by its `page` or its limits.
fn in_pieces(program: &Program, limits: Limits, page: impl Fn(usize) -> Taken) -> Vec<Value> {
    let documents = documents();
    let mut rows = Vec::new();
    let (mut at, mut position, mut progress) = (0, Vec::new(), None);
    for _ in 0..10_000 {
        let context = Context::new(0, 0).with_limits(limits);
        let mut run = program.start(&context);
        if let Some(progress) = progress {
            run = run.resumed_at(progress);
        }
        let mut given = 0;
        loop {
            let Some(document) = documents.get(at) else { return rows };
            let flow = run.read(document, &position, &mut |row| {
                let taken = page(given);
                if taken != Taken::Refused {
                    rows.push(row.into_value());
                    given += 1;
                }
                taken
            });
            match flow.unwrap() {
                Flow::Enough => return rows,
                Flow::More => (at, position) = (at + 1, Vec::new()),
                Flow::Paused => {
                    position = run.position().to_vec();
                    break;
                }
            }
            if run.is_exhausted() {
                break;
            }
        }
        progress = Some(run.progress());
    }
    panic!("no progress");
}

#[test]
fn stopping_after_any_number_of_rows_and_resuming_changes_nothing() {
    for text in STREAMING {
        let program = program(text);
        let whole = program.run(&documents(), &Context::new(0, 0)).unwrap();
        for size in 1..6 {
            let last = |given| if given + 1 >= size { Taken::Last } else { Taken::More };
            assert_eq!(in_pieces(&program, Limits::DEFAULT, last), whole, "{text}, {size}");
            let refused = |given| if given >= size { Taken::Refused } else { Taken::More };
            assert_eq!(in_pieces(&program, Limits::DEFAULT, refused), whole, "{text}, {size}");
        }
    }
}

#[test]
fn a_run_whose_steps_are_spent_pauses_and_makes_progress_each_time() {
    for text in STREAMING {
        let program = program(text);
        let whole = program.run(&documents(), &Context::new(0, 0)).unwrap();
        for max_steps in [1, 2, 3, 10, 50] {
            let limits = Limits { max_steps, ..Limits::DEFAULT };
            assert_eq!(in_pieces(&program, limits, |_| Taken::More), whole, "{text}, {max_steps}");
        }
    }
}

/// Such a join used to build its million rows before the first was given.
#[test]
fn rows_come_one_at_a_time() {
    let document = json!({ "a": (0..1000).collect::<Vec<_>>() });
    let program = program("SELECT VALUE c FROM c JOIN a IN c.a JOIN b IN c.a");
    let context = Context::new(0, 0);
    let mut run = program.start(&context);
    let flow = run.read(&document, &[0, 500, 700], &mut |row| {
        assert!(row.is_document());
        Taken::Last
    });
    assert_eq!(flow, Ok(Flow::Paused));
    assert_eq!(run.position(), [0, 500, 701]);
    assert!(run.steps() < 100, "{}", run.steps());
}

#[test]
fn a_query_that_cannot_stream_fails_where_its_steps_are_spent() {
    let limits = Limits { max_steps: 100, ..Limits::DEFAULT };
    let context = Context::new(0, 0).with_limits(limits);
    let document = json!({ "a": (0..1000).collect::<Vec<_>>() });
    for text in [
        "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a",
        "SELECT DISTINCT VALUE a FROM c JOIN a IN c.a",
        "SELECT VALUE a FROM c JOIN a IN c.a ORDER BY c.x",
        "SELECT VALUE a FROM (SELECT VALUE [1,2,3,4,5,6,7]) s JOIN a IN s JOIN b IN s JOIN d IN s",
    ] {
        let refused = program(text).run([&document], &context).unwrap_err();
        assert_eq!(refused, EvalError::RunTooLong(100), "{text}");
    }
}

#[test]
fn one_row_may_not_take_more_than_its_own_steps() {
    let limits = Limits { max_steps_per_row: 1000, ..Limits::DEFAULT };
    let context = Context::new(0, 0).with_limits(limits);
    let document = json!({ "a": (0..1000).collect::<Vec<_>>() });
    let text = "SELECT VALUE ARRAY(SELECT VALUE 1 FROM a IN c.a JOIN b IN c.a) FROM c";
    let refused = program(text).run([&document], &context).unwrap_err();
    assert_eq!(refused, EvalError::TooManySteps(1000));
}

#[test]
fn what_is_held_is_bounded_in_bytes() {
    let limits = Limits { max_buffered_bytes: 10_000, ..Limits::DEFAULT };
    let context = Context::new(0, 0).with_limits(limits);
    let documents: Vec<Value> = (0..100)
        .map(|i| json!({ "i": i, "text": format!("{i:0>500}"), "list": vec![i; 200] }))
        .collect();
    for text in [
        "SELECT * FROM c ORDER BY c.i",
        "SELECT DISTINCT c.text FROM c",
        "SELECT c.text FROM c GROUP BY c.text",
        "SELECT c.i, MAX(c.text) AS t FROM c GROUP BY c.i",
        "SELECT VALUE ARRAY(SELECT VALUE {a: a, b: b} FROM a IN c.list JOIN b IN c.list) FROM c",
    ] {
        let refused = program(text).run(&documents, &context).unwrap_err();
        assert_eq!(refused, EvalError::TooManyBytes(10_000), "{text}");
    }
}

#[test]
fn a_watch_pauses_and_cancels() {
    let document = json!({ "a": (0..1000).collect::<Vec<_>>() });
    let program = program("SELECT VALUE 1 FROM c JOIN a IN c.a JOIN b IN c.a WHERE false");
    let pausing = Context::new(0, 0).watched_by(|| Signal::Pause);
    let mut run = program.start(&pausing);
    assert_eq!(run.read(&document, &[], &mut |_| Taken::More), Ok(Flow::Paused));
    assert_eq!(run.position(), [0, 0, 1]);
    let cancelling = Context::new(0, 0).watched_by(|| Signal::Cancel);
    let mut run = program.start(&cancelling);
    assert_eq!(run.read(&document, &[], &mut |_| Taken::More), Err(EvalError::Cancelled));
}
