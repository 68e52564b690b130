//! The state of an origin's robots.txt, without IO: the meaning of a fetch, its life, and its consequence for requests.

pub mod access;
pub mod crawl_delay;
pub mod identity;
pub mod reach;
pub mod snapshot;
pub mod state;
pub mod timing;
