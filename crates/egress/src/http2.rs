//! One HTTP/2 connection to an origin, which carries several exchanges at once (RFC 9113).
//!
//! The `h2` crate is used directly. hyper's client would pass a request on through a queue after its permit was
//! checked; it drops interim responses, ends a body that the origin resets with `NO_ERROR` as if it were whole, and does
//! not give back a request that the origin has refused.
//!
//! Windows bound the memory of a stream: an origin sends no more than a window before the crawler has taken it. The
//! window of the connection holds the windows of all its streams, so that crawlers that do not read keep no other
//! stream waiting.

mod body;
mod connection;
mod exchange;
mod fields;
mod sections;
mod websocket;

pub(super) use self::body::Body;
#[cfg(test)]
pub(super) use self::connection::tests;
pub(super) use self::connection::{Bounds, Connection};
pub(super) use self::exchange::{Rejected, open};
pub(super) use self::fields::TOO_LONG;
pub(super) use self::websocket::Switched;
