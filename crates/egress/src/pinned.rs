//! Connections to origins that belong to one crawler connection, because a login belongs to them.
//!
//! NTLM and Negotiate authenticate a connection, not a request (RFC 4559, RFC 9110 3.3): the origin takes all that follows on
//! it for that user's. So each crawler connection has its own pinned connection to such an origin, from the first
//! response that offers such a scheme, or the first of its requests that carries such credentials. It is HTTP/1.1, carries one
//! request at a time, and waits in the pool under a key that no other crawler connection has.
//!
//! The two connections end together. A login that was lost is not made up for: the origin would take the next leg of a
//! handshake on another connection for the first one. The request fails, and the crawler connection ends, so that the crawler logs
//! in again. Called by `Egress`, and by the servers of crawler connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::header::{AUTHORIZATION, CONNECTION, PROXY_AUTHENTICATE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use super::Failure;
use super::key::Key;
use super::pin::{Pin, Turn};
use super::pool::{Lease, Pool};

/// Schemes that authenticate a connection.
const SCHEMES: [&[u8]; 5] = [b"ntlm", b"negotiate", b"kerberos", b"nego2", b"credssp"];

/// Origins with a pinned connection, for each crawler connection.
const MAX_PINS: usize = 16;

/// Number of pins so far, which tells their keys apart.
static PINS: AtomicU64 = AtomicU64::new(0);

/// The pinned connections of one crawler connection. They end when it is dropped.
#[derive(Debug, Default)]
pub struct Pinned {
    /// With the pool that their connections wait in.
    pins: Mutex<Vec<(Arc<Pin>, Arc<Pool>)>>,
    /// Cancelled when a connection has ended that a login belonged to.
    lost: CancellationToken,
}

/// The mark of a response that is the last one on a connection with a login: the crawler connection ends with it.
#[derive(Debug, Clone, Copy)]
pub struct EndsLogin;

/// The crawler connection of a request, and its claim to a pinned connection.
pub(super) struct Claim<'a> {
    /// `None` for a robots.txt.
    pinned: Option<&'a Pinned>,
    pool: &'a Arc<Pool>,
    /// The key of connections that are not pinned.
    shared: &'a Key,
    turn: Option<Arc<Turn>>,
    is_login: bool,
}

impl Pinned {
    /// Waits until a login was lost: the crawler connection is to end.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }

    /// Returns the pin for the connections with this key, if there is one.
    fn find(&self, key: &Key) -> Option<Arc<Pin>> {
        let pins = self.pins.lock();
        let found = pins.iter().find(|(pin, _)| pin.key().is_pin_of(key));
        found.map(|(pin, _)| Arc::clone(pin))
    }

    /// Pins the connection for this key from now on.
    fn pin(&self, pool: &Arc<Pool>, key: &Key) -> Arc<Pin> {
        let mut pins = self.pins.lock();
        if let Some((pin, _)) = pins.iter().find(|(pin, _)| pin.key().is_pin_of(key)) {
            return Arc::clone(pin);
        }
        if pins.len() >= MAX_PINS {
            let without_login = pins.iter().position(|(pin, _)| !pin.is_logged_in());
            let (pin, pool) = pins.remove(without_login.unwrap_or_default());
            forget(&pin, &pool);
        }
        let key = key.pinned(PINS.fetch_add(1, Ordering::Relaxed));
        let pin = Arc::new(Pin::new(key, self.lost.clone()));
        pins.push((Arc::clone(&pin), Arc::clone(pool)));
        pin
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        for (pin, pool) in self.pins.get_mut() {
            forget(pin, pool);
        }
    }
}

impl<'a> Claim<'a> {
    /// Waits for the turn of a request with these fields, if it has to go by a pinned connection.
    ///
    /// # Errors
    /// If others keep the connection in use `within` this time.
    pub(super) async fn of(
        pinned: Option<&'a Pinned>,
        (pool, shared): (&'a Arc<Pool>, &'a Key),
        headers: &HeaderMap,
        within: Duration,
    ) -> Result<Claim<'a>, Failure> {
        let is_login = names_scheme(headers, &AUTHORIZATION);
        let pin = match pinned {
            Some(pinned) if is_login => Some(pinned.pin(pool, shared)),
            Some(pinned) => pinned.find(shared),
            None => None,
        };
        let turn = match pin {
            None => None,
            // Boxed: few requests wait.
            Some(pin) => Some(Box::pin(pin.turn(within)).await.ok_or(Failure::Crowded)?),
        };
        Ok(Claim { pinned, pool, shared, turn, is_login })
    }

    /// Returns the key of the connections that may carry the request.
    pub(super) fn key(&self) -> &Key {
        self.turn.as_ref().map_or(self.shared, |turn| turn.key())
    }

    /// Tells whether the request has to go by a pinned connection.
    pub(super) fn is_pinned(&self) -> bool {
        self.turn.is_some()
    }

    /// Tells whether a login belongs to the pinned connection: no other one may carry the request.
    pub(super) fn is_bound(&self) -> bool {
        let turn = self.turn.as_ref();
        turn.is_some_and(|turn| turn.is_logged_in())
    }

    /// Has the lease hold the turn.
    pub(super) fn hold(&self, lease: &mut Lease) {
        lease.turn.clone_from(&self.turn);
    }

    /// Notes what a response by HTTP/1.1 says of logins, before its connection can be given back.
    pub(super) fn answered<B>(&self, lease: &mut Lease, response: &mut Response<B>) {
        let Some(turn) = &self.turn else {
            if let Some(pin) = self.offered(response) {
                match pin.try_turn() {
                    Some(turn) => lease.pin(turn),
                    None => lease.is_the_last(),
                }
            }
            return;
        };
        if self.is_login {
            turn.logs_in(&lease.connection.ends_with);
        }
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            turn.leaves(&lease.connection.ends_with);
        } else if turn.is_logged_in() && (lease.is_alone() || is_last(response)) {
            response.extensions_mut().insert(EndsLogin);
        }
    }

    /// Pins the connection for the requests to come if the response offers a scheme that authenticates connections.
    pub(super) fn offered<B>(&self, response: &Response<B>) -> Option<Arc<Pin>> {
        let pinned = self.pinned?;
        offers_login(response.headers()).then(|| pinned.pin(self.pool, self.shared))
    }
}

/// Tells whether a response offers a scheme that authenticates connections.
pub fn offers_login(headers: &HeaderMap) -> bool {
    names_scheme(headers, &WWW_AUTHENTICATE) || names_scheme(headers, &PROXY_AUTHENTICATE)
}

/// Closes the connection of a pin that no request has any more.
fn forget(pin: &Pin, pool: &Pool) {
    pin.end();
    pool.forget(pin.key());
}

/// Tells whether one of the lines of a field names such a scheme, at any place and in any case: a word that only looks like one
/// costs a connection, and one that is overlooked would let others in.
fn names_scheme(headers: &HeaderMap, field: &HeaderName) -> bool {
    let names = |value: &HeaderValue| {
        let mut words = value.as_bytes().split(|octet| !octet.is_ascii_alphanumeric());
        words.any(|word| SCHEMES.iter().any(|one| word.eq_ignore_ascii_case(one)))
    };
    headers.get_all(field).iter().any(names)
}

/// Tells whether the origin ends the connection behind this response (RFC 9112 9.3).
fn is_last<B>(response: &Response<B>) -> bool {
    let lists = |wanted: &[u8]| {
        let values = response.headers().get_all(CONNECTION).iter();
        let mut options = values.flat_map(|value| value.as_bytes().split(|octet| *octet == b','));
        options.any(|option| option.trim_ascii().eq_ignore_ascii_case(wanted))
    };
    lists(b"close") || response.version() == Version::HTTP_10 && !lists(b"keep-alive")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_found_in_any_case_and_at_any_place() {
        for (lines, expected) in [
            (&["NTLM"][..], true),
            (&["negotiate"], true),
            (&["NEGOTIATE YII="], true),
            (&["Basic realm=\"a, b\", Negotiate"], true),
            (&["Basic realm=\"a\",nTLM,Digest realm=\"b\""], true),
            (&["Basic realm=\"a\"", "Kerberos"], true),
            (&["Basic realm=\"unclosed, Negotiate"], true),
            (&["\tNego2"], true),
            (&["Basic realm=\"a\""], false),
            (&["Basic TlRMTVNTUAAB"], false),
            (&["Bearer ntlmnegotiate"], false),
            (&[], false),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(WWW_AUTHENTICATE, line.parse().unwrap());
            }
            assert_eq!(offers_login(&headers), expected, "{lines:?}");
        }
    }
}
