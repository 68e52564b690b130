//! What the targets feed and no pure crate has, under the names that the checks use.

/// The answers of witnesses.
#[path = "."]
#[allow(dead_code, reason = "offers use the rest")]
pub mod witness {
    #[path = "../crates/evidence/src/witness/protocol.rs"]
    pub mod protocol;
}
