//! Any octets as a proof: nothing panics, and no forged proof holds.
#![no_main]

#[path = "../../tests/evidence/tlog/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::proof(data));
