//! The admin side: people, programs and the other commands reach the running process by HTTP ([`http`]), at `[admin]
//! address` and at a Unix socket.
//!
//! Every command may open the store, so most commands read and write the store directly and need no process. The socket
//! is for work that only the process can do: fetch an origin's robots.txt now, drop an origin's state from memory, take
//! over changed overrides at once, write the records that it holds.
//!
//! Only the process's own user and root may send requests to the socket, and may do there what an operator may. The kernel
//! vouches for the user at both ends (`SO_PEERCRED`), so a command does not believe another user's socket at that path,
//! either. The socket's mode, 0600, only says the same earlier.
//!
//! No client can hold the socket up: connections are bounded, and one without a request in progress makes room for a new
//! one. The process listens in a separate task, and a failure here never touches a proxied request.

mod client;
pub mod http;
mod process;
pub mod query;
mod socket;
mod status;
pub mod version;
pub mod view;

pub use self::client::{AskError, FLUSH, FLUSH_COUNTS, OVERRIDES_CHANGED, ask, encoded};
pub use self::http::health::Readiness;
pub use self::process::{Process, ProcessError};
pub use self::socket::{BindError, Socket, claim, run_sockets};
pub use self::status::{RefreshedState, ShipReport, Status, WitnessReport};
pub use crawlgate_proxy::override_sync::{LateMember, Reach};

#[cfg(test)]
mod tests;
