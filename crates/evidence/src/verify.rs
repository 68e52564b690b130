//! Verification of the store: of one decision ([`case`]), and of the whole log ([`walk`]).
//!
//! The faults that a verification finds, and those that it cannot find, stand in [`walk`]. Beside them, altered or missing settings, states
//! and texts of robots.txt are found: entries name each by its digest. Notes of people on decisions are entries, with
//! which the notes that searches show are compared ([`acknowledged`]). The present states of origins and the history of
//! fetches are no evidence of a decision, and are not in the log.

pub mod acknowledged;
pub mod all;
pub mod case;
mod exemptions;
pub mod fault;
pub mod keys;
pub mod named_keys;
pub mod review;
pub mod walk;
