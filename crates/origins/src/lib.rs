//! Knowledge about an origin's robots.txt and tdmrep.json: the meaning of a fetch, its life, and the crawler it is for.
//!
//! Pure: no sockets, clocks or logs. `crawlgate::cache` fetches and keeps.

pub mod access;
pub mod crawl_delay;
pub mod document;
pub mod identity;
pub mod reach;
pub mod requesting_client;
pub mod snapshot;
pub mod state;
pub mod timing;
