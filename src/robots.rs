//! What is known of each origin's robots.txt: how a fetch is read, how long that holds, who fetches,
//! and what of it is kept.

pub mod access;
pub mod fetch;
pub mod identity;
pub mod memory;
pub mod reach;
pub mod registry;
pub mod snapshot;
pub mod state;
pub mod wish;
pub(crate) mod words;
