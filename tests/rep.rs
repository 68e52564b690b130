//! The protocol core against published examples, and against a slow implementation of the same
//! rules.

// Test code: a failed unwrap is a failed test.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

#[path = "rep/naive.rs"]
mod naive;
#[path = "rep/properties.rs"]
mod properties;
#[path = "rep/vectors.rs"]
mod vectors;
