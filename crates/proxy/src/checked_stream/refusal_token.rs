//! The path that stands for a refused request.

use std::io;
use std::sync::Arc;

/// A path that only this process knows.
#[derive(Debug, Clone)]
pub struct RefusalToken(Arc<str>);

impl RefusalToken {
    /// Generates a new token.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new() -> io::Result<RefusalToken> {
        let mut bytes = [0; 16];
        aws_lc_rs::rand::fill(&mut bytes)
            .map_err(|_| io::Error::other("the system gives no random numbers"))?;
        Ok(RefusalToken(
            format!("/{:032x}", u128::from_ne_bytes(bytes)).into(),
        ))
    }

    /// Tells whether a request's path is the token.
    pub fn is(&self, path: &str) -> bool {
        path == &*self.0
    }

    pub(super) fn request(&self) -> Vec<u8> {
        format!(
            "GET {} HTTP/1.1\r\nHost: refused\r\nConnection: close\r\n\r\n",
            self.0
        )
        .into_bytes()
    }
}
