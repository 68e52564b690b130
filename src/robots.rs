//! Knowledge about each origin's robots.txt: the meaning of a fetch, its life, its fetching, and its storage.

pub mod access;
pub mod crawl_delay;
pub mod identity;
pub mod reach;
pub mod snapshot;
pub mod state;
pub mod timing;
