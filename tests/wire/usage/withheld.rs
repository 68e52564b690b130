//! The connection to an origin after one of its pages is withheld.

use super::{is_withheld, training, withheld};
use crate::metrics::wait;
use crate::overrides::proven;
use crate::support::{Latch, Origin, Reply, wait_until};

#[test]
fn the_connection_of_a_withheld_page_stays_if_its_body_is_short() {
    let octets = |count: usize| "SECRET".repeat(count.div_ceil(6));
    let head = "HTTP/1.1 200 OK\r\nContent-Usage: train-ai=n\r\n";
    let chunked = format!("{head}Transfer-Encoding: chunked\r\n\r\n6\r\nSECRET\r\n0\r\n\r\n");
    let latch = Latch::new();
    let unfinished = Reply::raw(format!("{head}Content-Length: 9\r\n\r\nSECRET"));
    let rows = [
        ("none", withheld(""), true),
        ("short", withheld(&octets(65_530)), true),
        ("long", withheld(&octets(65_542)), false),
        ("of unknown length", Reply::raw(chunked), false),
        ("that does not end", unfinished.wait(&latch), false),
    ];
    for (name, reply, is_kept) in rows {
        let origin = Origin::http().on("/secret", [reply]);
        let gate = training(|setup| setup.set("admin", "address", "\"127.0.0.1:0\""));
        is_withheld(&gate, &gate.get(&origin.url("/secret")));
        if is_kept {
            wait(&gate, "crawlgate_upstream_connections{state=\"idle\"}", 1.0);
        }
        gate.passes(&origin.url("/open"));
        let connections = ["/secret", "/open"].map(|path| origin.last(path).connection);
        assert_eq!(connections[0] == connections[1], is_kept, "{name}");
    }
    latch.open();
}

#[test]
fn an_upload_ends_with_the_page_that_is_withheld() {
    let origin = Origin::http().on("/upload", [withheld("SECRET").read_body()]);
    let gate = training(|_| ());
    let mut wire = gate.connect();
    let (url, authority) = (origin.url("/upload"), origin.authority());
    let head = format!("POST {url} HTTP/1.1\r\nHost: {authority}\r\nContent-Length: 8\r\n\r\n");
    let answer = wire.send(head + "half").response("POST");
    is_withheld(&gate, &answer);
    // The connection of the robots.txt, and that of the upload, which brought half of it.
    wait_until("the end of the upload", || origin.ended() == 2);
    proven(&gate);
}
