//! Who may go now: [`client`]s with their quotas, the [`pace`] of origins, and the [`fleet`] in which several instances share
//! both.

pub mod client;
pub mod fleet;
mod gcra;
mod history;
pub mod pace;
pub mod rate_limit;
