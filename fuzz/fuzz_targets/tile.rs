//! Any octets as a path, a tile or a bundle: nothing panics, and each that is read is written the same.
#![no_main]

#[path = "../../tests/evidence/tlog/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::tile(data));
