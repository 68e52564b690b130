//! The transparency log from outside: against another implementation, against damage, and read by other programs.
//!
//! Go's `sumdb` and Python's `tlog-scales` read and verify a directory that the library wrote (`peers`). A program that
//! is not installed is named on stderr and its test passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails.
//! `docs/verify-evidence.py`, which needs only Python, proves evidence files that the library wrote (`evidence`).
//! `.ci/clients` installs both and names them in `CRAWLGATE_GOPATH` and `CRAWLGATE_PYTHON`.

mod checks;
mod corpus;
mod damage;
mod evidence;
#[path = "../support/corpus.rs"]
mod kept;
mod log;
mod oracle;
mod peers;
mod rotated;
mod stored;
