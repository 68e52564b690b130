//! Knowledge about each origin's robots.txt: the meaning of a fetch, its life, its fetching, and its storage.

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
