//! Damage of every kind to a store, and the way out in the program's messages, followed to its end.
//!
//! After any damage: no panic, no silent new start, no all-clear from `store check`, and the advice in the messages
//! leads to a gate that serves again.

mod backup;
mod facts;
mod owner;
mod place;
mod reports;
mod unwritable;
mod way_out;

/// Denials in the store before it is damaged.
const DECISIONS: usize = 150;
