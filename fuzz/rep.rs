//! The protocol core by itself, under the name by which the checks know it: fuzzing it builds neither TLS nor a
//! database.

#[path = "../src/rep/mod.rs"]
pub mod rep;
