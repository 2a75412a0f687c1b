//! The fuzz target as an ordinary test: its corpus, and a bounded run of mutations of it.

#[path = "../../../../fuzz/src/replay.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate")]
mod replay;
#[path = "../../../../fuzz/src/emulator.rs"]
#[allow(unreachable_pub, reason = "shared with the fuzz crate")]
mod targets;

use std::path::Path;

const RANDOM_INPUTS: usize = 10_000;

/// Fixed, so that a failure repeats.
const SEED: u64 = 0x51DE_2EA1;

#[test]
fn the_account_survives_any_requests() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/emulator_handle");
    replay::run("emulator_handle", targets::handle, &corpus, RANDOM_INPUTS, SEED);
}
