//! The bound of the fields that an origin may send.

use std::io;

use http::HeaderMap;

/// Most octets of the fields of a head or of trailers, each with 32 more (RFC 9113 6.5.2).
pub(super) const FIELDS: usize = 256 * 1024;

/// The kind of the error that ends a connection with a longer section: `h2` keeps only the kind, and no other error of
/// a socket has it.
pub(in super::super) const TOO_LONG: io::ErrorKind = io::ErrorKind::FileTooLarge;

/// Tells whether fields have more than [`FIELDS`] octets.
pub(super) fn are_too_long(fields: &HeaderMap) -> bool {
    let sizes = fields
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len() + 32);
    sizes.sum::<usize>() > FIELDS
}
