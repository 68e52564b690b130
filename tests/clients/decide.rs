//! The decision service: other proxies ask, the real program answers, and those proxies fetch a page only after an
//! allowing answer.
//!
//! nginx and Squid are the real programs, in the set-ups of the documentation. If one is not installed, its test names
//! it on stderr and passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails.

mod asking;
mod envoy;
mod helper;
mod nginx;
mod questions;
mod service;
mod squid;
mod usage;
