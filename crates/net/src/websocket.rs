//! The handshake of a WebSocket by HTTP/1.1, where HTTP/2 has none (RFC 8441 5).

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The value that a server hashes with the client's key (RFC 6455 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Returns the `Sec-WebSocket-Accept` of a server that understands a handshake with this key.
pub fn accept(key: &[u8]) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key, GUID].concat());
    STANDARD.encode(hash)
}

#[cfg(test)]
mod tests {
    use super::accept;

    #[test]
    fn the_answer_to_a_key_is_that_of_rfc_6455() {
        let accepted = accept(b"dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
