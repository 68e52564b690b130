//! WebSockets on a stream of HTTP/2 (RFC 8441), as the HTTP/1.1 handshake that they stand for.
//!
//! The extended CONNECT becomes the GET that RFC 6455 asks for. So it is judged, sent, recorded and judged again like
//! any other handshake, and the origin may speak only HTTP/1.1.

use aws_lc_rs::rand;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crawlgate_net::websocket::accept;

/// The reason that an extended CONNECT begins no WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoWebSocket {
    /// It asks for another protocol.
    Other,
    /// The system has no randomness.
    NoKey,
}

/// Turns an extended CONNECT into the GET that it stands for, and returns the `Sec-WebSocket-Accept` of a server that
/// understands it: HTTP/2 has neither key nor answer (RFC 8441 5). `None` for any other request.
pub(super) fn translate(parts: &mut Parts) -> Option<Result<Box<str>, NoWebSocket>> {
    let protocol = parts.extensions.remove::<Protocol>()?;
    if !protocol.as_str().eq_ignore_ascii_case("websocket") {
        return Some(Err(NoWebSocket::Other));
    }
    let mut key = [0; 16];
    if rand::fill(&mut key).is_err() {
        return Some(Err(NoWebSocket::NoKey));
    }
    let key = STANDARD.encode(key);
    let accept = accept(key.as_bytes());
    let fields = &mut parts.headers;
    fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(UPGRADE, HeaderValue::from_static("websocket"));
    fields.entry(SEC_WEBSOCKET_VERSION).or_insert(HeaderValue::from_static("13"));
    match HeaderValue::try_from(key) {
        Ok(key) => fields.insert(SEC_WEBSOCKET_KEY, key),
        Err(_) => return Some(Err(NoWebSocket::NoKey)),
    };
    parts.method = Method::GET;
    Some(Ok(accept.into()))
}

/// Turns the head of the answer to a handshake into the one of HTTP/2 (RFC 8441 5). Tells whether the WebSocket begins.
pub(super) fn complete(status: &mut StatusCode, fields: &mut HeaderMap) -> bool {
    fields.remove(SEC_WEBSOCKET_ACCEPT);
    let begins = *status == StatusCode::SWITCHING_PROTOCOLS;
    if begins {
        fields.remove(UPGRADE);
        *status = StatusCode::OK;
    }
    begins
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn connect(protocol: Option<&'static str>) -> Parts {
        let mut request =
            Request::builder().method("CONNECT").uri("https://a.test/socket").body(()).unwrap();
        if let Some(protocol) = protocol {
            let protocol = Protocol::from_static(protocol);
            request.extensions_mut().insert(protocol);
        }
        request.into_parts().0
    }

    #[test]
    fn an_extended_connect_is_the_get_of_its_handshake() {
        let mut parts = connect(Some("websocket"));
        let accept = translate(&mut parts).unwrap().ok().unwrap();
        assert_eq!(parts.method, Method::GET);
        assert_eq!(parts.headers[UPGRADE], "websocket");
        assert_eq!(parts.headers[SEC_WEBSOCKET_VERSION], "13");
        let key = STANDARD.decode(&parts.headers[SEC_WEBSOCKET_KEY]).unwrap();
        assert_eq!(key.len(), 16);
        assert_ne!(key, [0; 16]);
        let key = parts.headers[SEC_WEBSOCKET_KEY].as_bytes();
        assert_eq!(*accept, crawlgate_net::websocket::accept(key));
        for (status, expected, begins) in [(101, 200, true), (404, 404, false)] {
            let mut status = StatusCode::from_u16(status).unwrap();
            let accept = (SEC_WEBSOCKET_ACCEPT, HeaderValue::from_static("x"));
            let mut fields = HeaderMap::from_iter([accept]);
            assert_eq!(complete(&mut status, &mut fields), begins);
            assert_eq!((status.as_u16(), fields.len()), (expected, 0));
        }
    }

    #[test]
    fn other_requests_begin_no_websocket() {
        assert!(translate(&mut connect(None)).is_none());
        let other = translate(&mut connect(Some("connect-udp"))).unwrap();
        assert_eq!(other.err(), Some(NoWebSocket::Other));
    }
}
