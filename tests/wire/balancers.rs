//! Load balancers that name the client that they speak for (PROXY protocol). Page: `docs/clients.md`.

use crate::listeners::{at, gate_in};
use crate::support::{Latch, Origin, Reply};

/// Returns a header of the PROXY protocol, version 2, for `192.0.2.7:40000`.
fn v2(command: u8) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([0x20 | command, 0x11, 0, 12]);
    header.extend([192, 0, 2, 7, 127, 0, 0, 1, 0x9c, 0x40, 0, 80]);
    header
}

#[test]
fn only_a_load_balancer_may_name_another_address() {
    let listener = |name: &str, more: &str| {
        format!(
            "[[listener]]\nname = '{name}'\naddress = '127.0.0.1:0'\nallow = '192.0.2.0/24'\n{more}\n"
        )
    };
    let tables = [
        listener("balanced", "proxy_protocol_from = '127.0.0.1'"),
        listener("other", "proxy_protocol_from = '198.51.100.7'"),
        listener("tls", "proxy_protocol_from = '127.0.0.1'\ntls = true\nnames = 'localhost'"),
    ]
    .concat();
    let (gate, places) = gate_in(&tables, 4, |setup| {
        setup.set("limits", "header_timeout", "\"3s\"");
    });
    let [_, balanced, other, tls] = places.as_slice() else { panic!("four listeners") };
    let origin = Origin::http();
    let v1 = b"PROXY TCP4 192.0.2.7 127.0.0.1 40000 80\r\n".to_vec();
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, &str, Vec<u8>, &str); 6] = [
        ("v1", balanced, v1.clone(), "192.0.2.7:40000"),
        ("v2", balanced, v2(1), "192.0.2.7:40000"),
        ("v2-local", balanced, v2(0), "127.0.0.1:"),
        ("v1-unknown", balanced, b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1:"),
        ("not-a-balancer", other, Vec::new(), "127.0.0.1:"),
        ("before-tls", tls, v1.clone(), "192.0.2.7:40000"),
    ];
    for (case, place, header, address) in cases {
        let url = origin.url(&format!("/{case}"));
        let mut wire = at(place);
        wire.send(header);
        if place == tls {
            wire = wire.tls("localhost", &gate.ca_pem());
        }
        wire.get(&url).is_origins(200, &format!("page /{case}"));
        let record = gate.record_of(&url);
        let recorded = record["client"]["address"].as_str().unwrap();
        assert!(recorded.starts_with(address), "{case}: {record}");
    }
    assert_eq!(origin.seen_but_robots().len(), 6);

    // A balancer without a header, with a malformed one, or with the address of a client that may not connect.
    let get = format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", origin.url("/no"));
    let before = |header: &[u8]| [header, get.as_bytes()].concat();
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("no header", before(b"")),
        ("garbage", before(b"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c")),
        ("another family", before(b"PROXY UDP4 192.0.2.7 127.0.0.1 1 2\r\n")),
        ("a header that is too long", before(&[b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200], b"\r\n"].concat())),
        ("a client that may not connect", before(b"PROXY TCP4 198.51.100.9 127.0.0.1 1 2\r\n")),
        ("half a header, slowly", b"PROXY TCP4 192.0".to_vec()),
        ("nothing", Vec::new()),
    ];
    for (case, octets) in rows {
        let mut wire = at(balanced);
        wire.send(octets);
        assert_eq!(wire.drain(), 0, "{case}");
    }
    // The operator learns each of the two faults once.
    for told in ["no valid PROXY protocol header", "allow has not the client"] {
        gate.wait_said(told);
        assert_eq!(gate.said().matches(told).count(), 1, "{}", gate.said());
    }
    // A peer that is not a balancer and sends a header is told so.
    for (case, header) in [("v1", v1), ("v2", v2(1))] {
        let mut wire = at(other);
        wire.send(before(&header));
        let answer = wire.response("GET");
        let record = gate.refused(&answer, 400, "bad_request");
        assert!(answer.text().contains("proxy_protocol_from"), "{answer:?}");
        let address = record["client"]["address"].as_str().unwrap();
        assert!(address.starts_with("127.0.0.1:"), "{case}: {record}");
        assert!(wire.is_closed(), "{case}");
    }
    assert_eq!(origin.seen_but_robots().len(), 6);
}

#[test]
fn limits_hold_for_the_clients_behind_a_balancer() {
    let tables = "[[listener]]\nname = 'balanced'\naddress = '127.0.0.1:0'\nopen = true\n\
                  proxy_protocol_from = '127.0.0.1'\n";
    let (gate, places) = gate_in(tables, 2, |setup| {
        setup.set("limits", "connections_per_client", "1");
    });
    let latch = Latch::new();
    let slow = Reply::silent().wait(&latch).send("HTTP/1.1 204 No\r\n\r\n");
    let plain = Origin::http().on("/slow", [slow]);
    let from = |address: &str| {
        let mut wire = at(&places[1]);
        wire.send(format!("PROXY TCP4 {address} 127.0.0.1 1 2\r\n"));
        wire
    };
    let mut first = from("192.0.2.1");
    first.send(format!("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", plain.url("/slow")));
    latch.arrivals(1);
    let answer = from("192.0.2.1").get(&plain.url("/2"));
    has!(gate.refused(&answer, 429, "client_limit"), {"client.address": "192.0.2.1:1"});
    from("192.0.2.2").get(&plain.url("/3")).is_origins(200, "page /3");
    latch.open();
    assert_eq!(first.response("GET").status, 204);
}
