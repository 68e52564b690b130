//! What crawlgate decides by and what it keeps: robots.txt and the states of origins, policy, clients and pace, the
//! configuration, the decision log and its store.
//!
//! A crate of its own, so that the compiler has two of about the same size: it reads `crawlgate` while it generates the code of
//! this one. `crawlgate` explains the architecture, and has these rooms under its own name.

pub mod agent;
pub mod ca;
pub mod client;
pub mod clock;
pub mod config;
pub mod descriptors;
pub mod entry;
pub mod fleet;
pub mod ftp;
pub mod gcra;
pub mod metrics;
pub mod pace;
pub mod policy;
pub mod rep;
pub mod retry;
pub mod robots;
pub mod signing;
pub mod store;
pub mod text;
pub mod tlog;
pub mod usage;
pub mod whole_file;
