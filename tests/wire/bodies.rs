//! The body of a robots.txt: broken framing is never parsed, content codings are decoded, no size costs more than the
//! limit. Page: `docs/robots.md`.

use std::io::Write;
use std::time::Duration;

use async_compression::tokio::write::{BrotliEncoder, ZlibEncoder, ZstdEncoder};
use flate2::{Compress, Compression, FlushCompress, write::GzEncoder};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::support::frame_origin::{self, FrameOrigin};
use crate::support::{CrawlgateProcess, Origin, RULES, Reply};

fn coded(coding: &str, body: &[u8]) -> Reply {
    Reply::with(200, &format!("Content-Encoding: {coding}\r\n"), body)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

/// Returns a head, and the rules behind it.
fn before_rules(head: &str) -> Reply {
    Reply::raw(format!("HTTP/1.1 {head}\r\n\r\n{RULES}"))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

/// Passes a text through an encoder, which then has the coded form.
fn encoded<E: AsyncWrite + Unpin>(mut encoder: E, text: &str) -> E {
    block_on(async {
        encoder.write_all(text.as_bytes()).await.unwrap();
        encoder.shutdown().await.unwrap();
    });
    encoder
}

fn brotli(text: &str) -> Vec<u8> {
    encoded(BrotliEncoder::new(Vec::new()), text).into_inner()
}

fn zstd(text: &str) -> Vec<u8> {
    encoded(ZstdEncoder::new(Vec::new()), text).into_inner()
}

/// HTTP calls the zlib format deflate.
fn deflate(text: &str) -> Vec<u8> {
    encoded(ZlibEncoder::new(Vec::new()), text).into_inner()
}

#[test]
fn a_partial_or_undecodable_body_is_unreachable_and_never_parsed() {
    let gate = CrawlgateProcess::start();
    let half = gzip(RULES);
    let half = &half[..half.len() / 2];
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("shorter than its Content-Length", "incomplete", Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{RULES}")).close()),
        ("reset in the middle", "incomplete", Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{RULES}")).reset()),
        ("no last chunk", "incomplete", Reply::raw(format!("{head}{:x}\r\n{RULES}\r\n", RULES.len())).close()),
        (
            "nothing of a coded file, and no length",
            "incomplete",
            Reply::raw("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
                .close(),
        ),
        ("a chunk size that is no number", "protocol", Reply::raw(format!("{head}zz\r\n{RULES}\r\n0\r\n\r\n")).close()),
        ("a chunk longer than it says", "protocol", Reply::raw(format!("{head}5\r\n{RULES}\r\n0\r\n\r\n")).close()),
        (
            "two lengths that differ",
            "protocol",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n{RULES}"
            ))
            .close(),
        ),
        ("a length that is no number", "protocol", Reply::raw(format!("HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{RULES}")).close()),
        ("gzip cut short", "content_encoding:gzip", coded("gzip", half)),
        ("plain text that calls itself gzip", "content_encoding:gzip", coded("gzip", RULES.as_bytes())),
        ("gzip in parts with padding between them", "content_encoding:gzip", coded("gzip", &[&gzip(RULES)[..], b"\0\0", &gzip(RULES)].concat())),
        ("zstd before rules", "content_encoding:zstd", coded("zstd", &[&zstd(RULES), RULES.as_bytes()].concat())),
        ("gzip under a name that stands for text", "content_encoding:binary", coded("binary", &gzip(RULES))),
        ("plain text that calls itself brotli", "content_encoding:br", coded("br", RULES.as_bytes())),
        ("a coding that was not requested", "content_encoding:snappy", coded("snappy", RULES.as_bytes())),
        (
            "compressed by a transfer coding",
            "transfer_encoding:gzip, chunked",
            Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
                .send(format!("{:x}\r\n", gzip(RULES).len()))
                .send(gzip(RULES))
                .send("\r\n0\r\n\r\n"),
        ),
        (
            "plain text declared as gzip",
            "transfer_encoding:gzip, chunked",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n{:x}\r\n{RULES}\r\n0\r\n\r\n",
                RULES.len()
            )),
        ),
    ];
    for (case, cause, reply) in cases {
        let origin = Origin::http().on("/robots.txt", [reply]);
        for path in ["/open", "/private/open", "/private"] {
            let answer = gate.get(&origin.url(path));
            assert_eq!(
                answer.problem()["reason"],
                "robots_unreachable",
                "{case} {path}: {answer:?}"
            );
            has!(gate.unreachable(&answer), {"robots.unreachable.cause": cause}, "{case}");
            let detail = answer.problem()["detail"].to_string();
            for (code, field) in [
                ("content_encoding:", "(Content-Encoding: "),
                ("transfer_encoding:", "(Transfer-Encoding: "),
            ] {
                let told = cause.strip_prefix(code).map(|value| format!("{field}{value})"));
                assert!(told.is_none_or(|told| detail.contains(&told)), "{case}: {detail}");
            }
        }
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
    }
}

/// Replies with octets behind their end, on a connection that was to carry nothing else.
fn longer_than_they_say() -> Vec<(&'static str, Reply)> {
    let (first, rest) = RULES.split_at(RULES.find("Disallow").unwrap() + 13);
    let short = format!("200 OK\r\nContent-Length: {}", first.len());
    let chunk = Reply::chunked(first);
    vec![
        ("a Content-Length in the middle", before_rules(&short).close()),
        ("on a connection that stays open", before_rules(&short)),
        (
            "and the rest comes late",
            Reply::raw(format!("HTTP/1.1 {short}\r\n\r\n{first}"))
                .pause(Duration::from_millis(200))
                .send(rest),
        ),
        (
            "and a line end comes first",
            Reply::raw(format!("HTTP/1.1 {short}\r\n\r\n{first}\r\n"))
                .pause(Duration::from_millis(20))
                .send(rest)
                .close(),
        ),
        ("a Content-Length of 0", before_rules("200 OK\r\nContent-Length: 0")),
        ("204", before_rules("204 No Content").close()),
        ("octets behind the last chunk", chunk.clone().send(rest)),
        ("a second answer", chunk.send("HTTP/1.1 200 OK\r\n\r\n").close()),
    ]
}

#[test]
fn a_robots_txt_that_is_longer_than_it_says_is_cut_and_unreachable() {
    let gate = CrawlgateProcess::start();
    for (case, reply) in longer_than_they_say() {
        let origins = [
            Origin::http().on("/robots.txt", [reply.clone()]),
            Origin::https().on("/robots.txt", [reply.clone()]),
            Origin::http()
                .on("/robots.txt", [Reply::redirect(302, "/rules.txt")])
                .on("/rules.txt", [reply]),
        ];
        for origin in origins {
            for path in ["/open", "/private"] {
                let answer = gate.get(&origin.url(path));
                has!(gate.unreachable(&answer), {"robots.unreachable.cause": "length"}, "{case}");
            }
            let pages = origin.seen_but_robots();
            assert!(pages.iter().all(|line| line == "GET /rules.txt"), "{case}: {pages:?}");
        }
    }
}

#[test]
fn line_ends_behind_a_robots_txt_cut_nothing() {
    let gate = CrawlgateProcess::start();
    let length = format!("200 OK\r\nContent-Length: {}", RULES.len());
    for (case, reply) in [
        ("CR LF", before_rules(&length).send("\r\n").close()),
        ("many, on a connection that stays open", before_rules(&length).send("\r\n\n\r\r\n")),
        ("behind the last chunk", Reply::chunked(RULES).send("\r\n")),
    ] {
        for origin in [Origin::http(), Origin::https()] {
            let origin = origin.on("/robots.txt", [reply.clone()]);
            gate.denies(&origin.url("/private"));
            let open = gate.get(&origin.url("/open"));
            assert_eq!(open.text(), "page /open", "{case}");
        }
    }
    let empty = Origin::http().on("/robots.txt", [Reply::raw("HTTP/1.1 204 No\r\n\r\n\r\n")]);
    gate.passes(&empty.url("/private"));
}

#[test]
fn a_robots_txt_by_http2_that_has_another_length_than_it_says_is_unreachable() {
    let cases: [(&str, &[(&str, &str)]); 4] = [
        ("longer", &[(":status", "200"), ("content-length", "14")]),
        ("empty", &[(":status", "200"), ("content-length", "0")]),
        ("shorter", &[(":status", "200"), ("content-length", "9999")]),
        ("204", &[(":status", "204")]),
    ];
    for (case, fields) in cases {
        let gate = CrawlgateProcess::start();
        let origin = FrameOrigin::with(
            move |_, stream| {
                vec![
                    frame_origin::head(stream, fields, false),
                    frame_origin::data(stream, RULES, true),
                ]
            },
            None,
        );
        for path in ["/open", "/private"] {
            let answer = gate.get(&origin.url(path));
            has!(gate.unreachable(&answer), {"robots.unreachable.cause": "length"}, "{case}");
        }
        // No page: the file is fetched once more, on a new connection, since HTTP/1.1 could have it whole.
        let is_fetch = |(_, stream): &(usize, u32)| *stream == 1;
        assert!(origin.pages().iter().all(is_fetch), "{case}");
        assert!(origin.pages().len() <= 1, "{case}");
    }
}

#[test]
fn a_body_ended_by_the_connection_is_whole_only_if_tls_says_so() {
    let gate = CrawlgateProcess::start();
    let open_ended = || Reply::raw(format!("HTTP/1.1 200 OK\r\n\r\n{RULES}"));
    let whole = Origin::https().on("/robots.txt", [open_ended().close()]);
    gate.denies(&whole.url("/private"));
    let cut = Origin::https().on("/robots.txt", [open_ended().cut()]);
    gate.unreachable(&gate.get(&cut.url("/open")));
    let page = Origin::https().on("/page", [open_ended().cut()]);
    let answer = gate.get(&page.url("/page"));
    assert!(!answer.whole, "a page that was cut short arrived as if whole: {answer:?}");
}

#[test]
fn content_codings_are_decoded() {
    let gate = CrawlgateProcess::start();
    let twice = brotli(RULES);
    let cases = [
        ("gzip", gzip(RULES)),
        ("x-gzip", gzip(RULES)),
        ("GZip", gzip(RULES)),
        ("br", twice),
        ("zstd", zstd(RULES)),
        ("deflate", deflate(RULES)),
        ("identity", RULES.into()),
        ("none", RULES.into()),
        ("UTF-8", RULES.into()),
        ("binary", RULES.into()),
        ("7bit", RULES.into()),
        ("8bit", RULES.into()),
        ("aws-chunked", RULES.into()),
        ("", RULES.into()),
        ("aws-chunked, gzip", gzip(RULES)),
        ("gzip", [&gzip(RULES)[..], b"\r\n"].concat()),
        ("br", [&brotli(RULES)[..], b"\0\0"].concat()),
        ("zstd", [&zstd(RULES)[..], b"<!-- cached -->"].concat()),
    ];
    for (coding, body) in cases {
        let origin = Origin::http().on("/robots.txt", [coded(coding, &body)]);
        let answer = gate.get(&origin.url("/private"));
        assert_eq!(answer.problem()["reason"], "robots_disallow", "{coding}: {answer:?}");
        let record = gate.denied(&answer);
        has!(record, {"robots.bytes": RULES.len()}, "{coding}: the length counts decoded");
        gate.passes(&origin.url("/open"));
    }
}

/// Returns a deflate block of 64 KiB of `#`, which ends at an octet so that it can be repeated.
fn block() -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut block = Vec::with_capacity(4096);
    compress.compress_vec(&[b'#'; 65536], &mut block, FlushCompress::Full).unwrap();
    block
}

#[test]
fn an_endless_robots_txt_or_gzip_bomb_costs_no_more_than_the_limit() {
    let gate = CrawlgateProcess::start();
    let filler = "# nothing to see here, move along\n".repeat(1000);
    let plain = Reply::raw(format!("HTTP/1.1 200 OK\r\n\r\n{RULES}")).repeat(&filler, u64::MAX);
    let bomb = {
        // A gzip member: header, the rules as a stored block, then endless blocks.
        let length = u16::try_from(RULES.len()).unwrap();
        let mut start = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 0];
        start.extend(length.to_le_bytes());
        start.extend((!length).to_le_bytes());
        start.extend(RULES.as_bytes());
        Reply::raw("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
            .send(start)
            .repeat(block().repeat(100), u64::MAX)
    };
    let before = gate.resident();
    for (case, reply) in [("endless", plain), ("a gzip bomb", bomb)] {
        let origin = Origin::http().on("/robots.txt", [reply]);
        let record = gate.denies(&origin.url("/private"));
        assert_eq!(record["robots"]["truncated"], true, "{case}: {record}");
        let kept = record["robots"]["bytes"].as_u64().unwrap();
        assert!(kept <= 512_000, "{case}: {record}");
        gate.passes(&origin.url("/open"));
        assert!(origin.sent() < 32 << 20, "{case}: {} octets were taken", origin.sent());
    }
    assert!(
        gate.resident() < before + (32 << 20),
        "memory grew by {} octets",
        gate.resident() - before
    );
}

#[test]
fn the_line_that_the_limit_cuts_is_dropped() {
    let gate = CrawlgateProcess::start();
    let start = "User-agent: *\nDisallow: /private\n";
    let end = "Disallow: /";
    let filler = "#".repeat(512_000 - start.len() - end.len() - 1);
    let origin = Origin::with_rules(&format!("{start}{filler}\n{end}deep/and/more\n"));
    gate.denies(&origin.url("/private"));
    gate.passes(&origin.url("/open"));
}
