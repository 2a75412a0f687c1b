//! The fuzz targets as ordinary tests: their corpus, and a bounded run of mutations of it.

#[path = "../../../../fuzz/src/replay.rs"]
mod replay;
#[path = "../../../../fuzz/src/protocol.rs"]
mod targets;

use std::path::Path;

const RANDOM_INPUTS: usize = 20_000;

/// Fixed, so that a failure repeats.
const SEED: u64 = 0x51DE_2EA1;

macro_rules! replay {
    ($($test:ident: $target:ident;)+) => {$(
        #[test]
        fn $test() {
            let name = concat!("protocol_", stringify!($target));
            let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
            replay::run(name, targets::$target, &corpus, RANDOM_INPUTS, SEED);
        }
    )+};
}

replay! {
    session_tokens_survive_any_bytes: session_token;
    links_survive_any_bytes: link;
    connection_strings_survive_any_bytes: connection_string;
    partition_keys_survive_any_bytes: partition_key;
    effective_partition_keys_survive_any_bytes: effective_partition_key;
    partition_key_definitions_survive_any_bytes: partition_key_definition;
    rids_survive_any_bytes: rid;
    dates_survive_any_bytes: date;
    authorization_headers_survive_any_bytes: authorization;
    query_requests_survive_any_bytes: query_request;
    patches_survive_any_bytes: patch;
    batches_survive_any_bytes: batch;
    binary_json_survives_any_bytes: binary_json;
}
