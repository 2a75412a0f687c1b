#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sidereal_fuzz::protocol::binary_json(data));
