//! The fuzz targets as ordinary tests: their corpus, and a bounded run of mutations of it.

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/query.rs"]
mod targets;

use std::path::Path;

const RANDOM_INPUTS: usize = 30_000;

/// Fixed, so that a failure repeats.
const SEED: u64 = 0x51DE_2EA1;

fn run(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    replay::run(name, target, &corpus, RANDOM_INPUTS, SEED);
}

#[test]
fn the_parser_survives_any_bytes() {
    run("query_parse", targets::parse);
}

#[test]
fn the_evaluator_survives_any_query_and_document() {
    run("query_evaluate", targets::evaluate);
}
