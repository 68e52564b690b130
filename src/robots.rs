//! What is known of each origin's robots.txt: how a fetch is read, how long that holds, who fetches.

pub mod access;
pub mod fetch;
pub mod registry;
pub mod snapshot;
pub mod state;
