//! The protocol core alone, under the name that the checks use: fuzzing it builds neither TLS nor a database.

// A module around it, so that the core finds its files in the directory of its name.
#[path = "../src"]
mod src {
    pub mod rep;
}

pub use src::rep;
