//! Web Bot Auth: requests that prove the crawler that they come from, and the directory of its keys.
//!
//! A signature covers a few values of one request: an HTTP Message Signature (RFC 9421) with the parameters and the
//! Signature-Agent field of draft-ietf-webbotauth-httpsig-protocol-01. An [`Identity`] is a key and the URL at which its
//! public half is published; an operator has one for each crawler. The algorithm is Ed25519 (RFC 8032).
//!
//! - [`base`]: the text that is signed
//! - [`key`]: a private key, from its file, and the thumbprint that names it
//! - [`settings`]: an identity as it is configured
//! - [`identity`]: the fields of one signed request
//! - [`identities`]: all identities in force, and what a reload makes of them
//! - [`directory`]: the keys as others fetch them, with the proofs that belong to them
//!
//! Time and randomness are arguments. Only [`key::SigningKey::load`] reads files.

pub mod base;
pub mod directory;
pub mod identities;
pub mod identity;
pub mod key;
pub mod settings;

#[cfg(test)]
mod tests;

pub use self::directory::Directory;
pub use self::identities::Identities;
pub use self::identity::{Fields, Identity, Outcome, OutcomeCounters, Signable, Unsignable};
pub use self::key::{KeyFault, SigningKey};
pub use self::settings::{AgentUrl, Assigned, Cover, Form, Settings};
