//! The services of the operating system: the [`clock`], files that are replaced as a whole, [`descriptors`],
//! [`metrics`] of the process; and the delays between tries.

pub mod atomic_file;
pub mod clock;
pub mod descriptors;
pub mod metrics;
pub mod retry;
