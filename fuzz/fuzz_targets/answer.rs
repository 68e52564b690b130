//! Any octets as what a witness answers: nothing panics, and only its signature is believed.
#![no_main]

#[path = "../../tests/evidence/tlog/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::answer(data));
