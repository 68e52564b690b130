//! The pure rooms that read foreign octets, under the names that the checks use: fuzzing them builds neither TLS nor a
//! database.

// A module around them, so that they find their files in the directories of their names.
#[path = "../src"]
mod src {
    pub mod rep;
    pub mod tlog;
}

pub use src::{rep, tlog};
