//! Reads the server name of a ClientHello (RFC 8446 4.1.2, RFC 6066 3) that rustls refuses for that name.

use crate::hello::TLS_HANDSHAKE;
use crawlgate_ca::Authority;

/// The handshake message.
const CLIENT_HELLO: u8 = 1;

/// The extension.
const SERVER_NAME: &[u8] = &[0, 0];

/// Returns the one host name that a ClientHello asks for; `None` without such a name, or if the message is not whole. A
/// name that rustls takes does not count: it refused that message for another fault, and the origin may read the
/// message otherwise.
pub(super) fn in_records(mut records: &[u8]) -> Option<String> {
    let mut message = Vec::new();
    while let Some((TLS_HANDSHAKE, rest)) = records.split_first().map(|(kind, rest)| (*kind, rest))
    {
        records = rest;
        take(&mut records, 2)?;
        let Some(part) = vector(&mut records, 2) else {
            break;
        };
        message.extend_from_slice(part);
    }
    let message = &mut message.as_slice();
    if take(message, 1)? != [CLIENT_HELLO] {
        return None;
    }
    let hello = &mut vector(message, 3)?;
    take(hello, 2 + 32)?; // version and random
    vector(hello, 1)?; // session
    vector(hello, 2)?; // cipher suites
    vector(hello, 1)?; // compression
    let extensions = &mut vector(hello, 2)?;
    let mut found = None;
    while !extensions.is_empty() {
        let kind = take(extensions, 2)?;
        let body = &mut vector(extensions, 2)?;
        if kind == SERVER_NAME {
            let list = &mut vector(body, 2)?;
            let is_host = take(list, 1)? == [0];
            let name = vector(list, 2)?;
            if !is_host || !list.is_empty() || !body.is_empty() || found.is_some() {
                return None;
            }
            found = String::from_utf8(name.to_vec()).ok();
        }
    }
    found.filter(|name| !Authority::can_name(name))
}

/// Takes octets from the front.
fn take<'a>(octets: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = octets.split_at_checked(count)?;
    *octets = rest;
    Some(taken)
}

/// Takes a vector with a length of `width` octets from the front.
fn vector<'a>(octets: &mut &'a [u8], width: usize) -> Option<&'a [u8]> {
    let mut rest = *octets;
    let length = take(&mut rest, width)?;
    let length = length
        .iter()
        .fold(0, |sum, octet| sum << 8 | usize::from(*octet));
    let taken = take(&mut rest, length)?;
    *octets = rest;
    Some(taken)
}
