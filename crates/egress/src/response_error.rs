//! The error that a response's body ended with.

use std::io;

/// The error that a response's body ended with.
#[derive(Debug, thiserror::Error)]
#[error("the response broke off")]
pub enum ResponseError {
    /// Of an HTTP/1.1 connection.
    Http1(#[source] hyper::Error),
    /// Of an HTTP/2 stream.
    Http2(#[source] h2::Error),
    /// Of a transfer over FTP.
    Ftp(#[source] io::Error),
    /// It has another length than it says.
    Length,
}
