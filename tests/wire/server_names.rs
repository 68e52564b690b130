//! The server name of a TLS handshake, missing, malformed, or another than that of the CONNECT.
//! Page: `docs/clients.md`.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::hostile::bounds;
use crate::support::{CrawlgateProcess, Origin, RULES};

/// Returns the first flight of a TLS client that asks for `name`, with the name's octets replaced.
pub(super) fn client_hello(name: &[u8]) -> Vec<u8> {
    // A stand-in of the same length, so that nothing else changes, and of letters that occur nowhere else.
    let stand_in = format!("{}.qq", "z".repeat(name.len() - 3));
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let asked = ServerName::try_from(stand_in.clone()).unwrap();
    let mut client = ClientConnection::new(Arc::new(config), asked).unwrap();
    let mut hello = Vec::new();
    client.write_tls(&mut hello).unwrap();
    let places: Vec<usize> = hello
        .windows(stand_in.len())
        .enumerate()
        .filter(|(_, window)| *window == stand_in.as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(places.len(), 1, "one server name");
    hello[places[0]..][..name.len()].copy_from_slice(name);
    hello
}

#[test]
fn a_server_name_that_is_none_gets_no_certificate() {
    let gate = CrawlgateProcess::with(bounds);
    let origin = Origin::https().robots(RULES);
    let names: [(&str, &[u8]); 8] = [
        ("octets that are no text", b"\xff\xfe\xfd\xfc"),
        ("a NUL inside", b"site.test\0.other.test"),
        ("a space inside", b"site .test"),
        ("a wildcard", b"*.site.test"),
        ("an empty label", b"site..test"),
        ("a port", b"site.test:443"),
        ("a path", b"site.test/open"),
        ("a line break", b"site.test\r\nX: 1"),
    ];
    for (case, name) in names {
        let mut wire = gate.tunnels(&origin.authority());
        wire.send(client_hello(name));
        let answer = wire.read_all();
        // No octets, or an alert: a ServerHello would be a handshake record.
        assert!(matches!(answer.first(), None | Some(0x15)), "{case}: {answer:?}");
    }
    // The check can succeed, too.
    let mut wire = gate.tunnels(&origin.authority());
    wire.send(client_hello(b"SITE.test"));
    assert_eq!(wire.read(1), [0x16]);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn a_server_name_that_is_missing_or_another_changes_nothing() {
    let gate = CrawlgateProcess::with(bounds);
    let origin = Origin::https().robots(RULES);
    let authority = origin.authority();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("no server name", "127.0.0.1", authority.as_str(), 403, "robots_disallow"),
        ("no server name, another Host", "127.0.0.1", "other.test", 421, "misdirected"),
        ("another name", "other.test", authority.as_str(), 421, "misdirected"),
        ("another name with a matching Host", "other.test", "other.test", 421, "misdirected"),
        ("a name below", "www.site.test", authority.as_str(), 421, "misdirected"),
        ("upper case", "SITE.TEST", authority.as_str(), 403, "robots_disallow"),
    ];
    for (case, name, host, status, reason) in cases {
        let wire = gate.tunnels(&authority);
        let mut wire = wire.tls_as(name).unwrap();
        let record = gate.refused(&wire.get_inside(host, "/private"), status, reason);
        // The URL is the one that was asked for; a server name is no part of it.
        let url = match host {
            "other.test" => "https://other.test/private".into(),
            _ => format!("https://{authority}/private"),
        };
        assert_eq!(record["url"], url, "{case}");
    }
    assert_eq!(origin.seen_but_robots(), [""; 0]);
}
