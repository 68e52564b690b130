//! FTP (RFC 959, 2428, 3659) as far as a gateway for reading needs it: names, commands, replies, listings, and the HTTP
//! response that each of them becomes.
//!
//! Pure: octets come in, values come out. `egress::ftp` holds the connections. No command exists here that writes to a
//! server, and no octet of a URL reaches a command without [`path::Name`], which holds no line end.
//!
//! # Why by hand
//!
//! suppaftp 12 was the candidate: it lets a caller open both connections, and bounds the length of a reply. But it
//! collects a listing whole and without a bound, asks the caller to connect to the address that PASV names, holds all
//! the commands that write, and brings a crate for regular expressions and one for calendars. The dozen commands below
//! take less than the walls around it would.

pub mod command;
pub mod listing;
pub mod media_type;
pub mod page;
pub mod path;
pub mod range;
pub mod reply;
pub mod status;

/// The advice about a URL with a user or a password.
pub const NO_USER: &str =
    "Write the ftp URL without user and password: crawlgate logs in as anonymous only.";

/// Tells whether the user information of an `ftp` URL names the anonymous login: without a password, a user that servers
/// take for it (RFC 1635). Such a URL is the one without the user information.
#[must_use]
pub fn is_anonymous(userinfo: &str) -> bool {
    matches!(userinfo, "anonymous" | "ftp")
}
