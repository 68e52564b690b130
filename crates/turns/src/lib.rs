//! Who may go now: [`client`]s with their quotas, the [`pace`] of origins, and the [`fleet`] in which several instances share
//! both. [`rate_limit`] is for what only takes turns, and gives none back.
//!
//! When an origin may be asked again follows from its `history`, by one law: a gate without a fleet keeps the history
//! itself, and the engine of a fleet keeps it for all instances.

pub mod client;
pub mod fleet;
mod gcra;
mod history;
pub mod pace;
pub mod rate_limit;
