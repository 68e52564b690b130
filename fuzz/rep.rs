//! The protocol core alone, under the name that the checks use: fuzzing it builds neither TLS nor a database.

#[path = "../src/rep/mod.rs"]
pub mod rep;
