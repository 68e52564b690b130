//! Any octets as a tdmrep.json: one entry decides, and bounds hold.
#![no_main]

#[path = "../../tests/rep/usage_checks.rs"]
#[allow(dead_code, reason = "each target makes one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::tdmrep(data));
