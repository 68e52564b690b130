//! `crawlgate run COMMAND…`: one command, held to robots.txt.
//!
//! A proxy of its own is started on a free loopback port, and the command with every variable set that makes common
//! clients use it and trust its authority. What the command needs is four steps:
//!
//! 1. [`PrivateFiles::create`] writes what clients read from files (the authority, a bundle, a truststore, …)
//! 2. [`child_environment`] names the variables that point to the proxy and to those files
//! 3. [`fill_placeholders`] serves programs that read no variables
//! 4. [`supervise`] runs the command, passes signals on, and tells how it ended

mod child;
mod environment;

pub use self::{
    child::{Ended, SpawnError, supervise},
    environment::{Files, PrivateFiles, child_environment, fill_placeholders},
};
