//! Real servers as origins: nginx and nghttpx, with the protocols that they choose.
//!
//! If one is not installed, its tests name it on stderr and pass; with `CRAWLGATE_REQUIRE_CLIENTS=1` they fail.

mod exchanges;
mod restarts;
mod servers;
