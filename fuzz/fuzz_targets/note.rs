//! Any octets as a note, a key or a checkpoint: nothing panics, and each text that is read is written the same.
#![no_main]

#[path = "../../tests/evidence/tlog/checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::note(data));
