//! The body of a robots.txt: broken framing is never parsed, content codings are decoded, no size costs more than the
//! limit.

use std::io::Write;

use async_compression::tokio::write::{BrotliEncoder, ZlibEncoder, ZstdEncoder};
use flate2::{Compress, Compression, FlushCompress, write::GzEncoder};
use tokio::io::AsyncWriteExt;

use crate::support::{CrawlgateProcess, Origin, RULES, Reply};

fn coded(coding: &str, body: &[u8]) -> Reply {
    Reply::with(200, &format!("Content-Encoding: {coding}\r\n"), body)
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn brotli(text: &str) -> Vec<u8> {
    block_on(async {
        let mut encoder = BrotliEncoder::new(Vec::new());
        encoder.write_all(text.as_bytes()).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    })
}

fn zstd(text: &str) -> Vec<u8> {
    block_on(async {
        let mut encoder = ZstdEncoder::new(Vec::new());
        encoder.write_all(text.as_bytes()).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    })
}

/// HTTP calls the zlib format deflate.
fn deflate(text: &str) -> Vec<u8> {
    block_on(async {
        let mut encoder = ZlibEncoder::new(Vec::new());
        encoder.write_all(text.as_bytes()).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    })
}

#[test]
fn a_partial_or_undecodable_body_is_unreachable_and_never_parsed() {
    let gate = CrawlgateProcess::start();
    let half = gzip(RULES);
    let half = &half[..half.len() / 2];
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let cases = [
        (
            "shorter than its Content-Length",
            "incomplete",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{RULES}"
            ))
            .close(),
        ),
        (
            "reset in the middle",
            "incomplete",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{RULES}"
            ))
            .reset(),
        ),
        (
            "no last chunk",
            "incomplete",
            Reply::raw(format!("{head}{:x}\r\n{RULES}\r\n", RULES.len())).close(),
        ),
        (
            "a chunk size that is no number",
            "protocol",
            Reply::raw(format!("{head}zz\r\n{RULES}\r\n0\r\n\r\n")).close(),
        ),
        (
            "a chunk longer than it says",
            "protocol",
            Reply::raw(format!("{head}5\r\n{RULES}\r\n0\r\n\r\n")).close(),
        ),
        (
            "two lengths that differ",
            "protocol",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\n{RULES}"
            ))
            .close(),
        ),
        (
            "a length that is no number",
            "protocol",
            Reply::raw(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{RULES}"
            ))
            .close(),
        ),
        ("gzip cut short", "encoding", coded("gzip", half)),
        (
            "plain text that calls itself gzip",
            "encoding",
            coded("gzip", RULES.as_bytes()),
        ),
        (
            "plain text that calls itself brotli",
            "encoding",
            coded("br", RULES.as_bytes()),
        ),
        (
            "a coding that was not requested",
            "encoding",
            coded("snappy", RULES.as_bytes()),
        ),
        (
            "compressed by a transfer coding",
            "encoding",
            Reply::raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n")
                .send(format!("{:x}\r\n", gzip(RULES).len()))
                .send(gzip(RULES))
                .send("\r\n0\r\n\r\n"),
        ),
        (
            "plain text declared as gzip",
            "encoding",
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
            let record = gate.refused(&answer, 403, "robots_unreachable");
            assert_eq!(record["robots"]["unreachable"]["cause"], cause, "{case}");
        }
        assert_eq!(origin.seen_but_robots(), [""; 0], "{case}");
    }
}

#[test]
fn a_body_ended_by_the_connection_is_whole_only_if_tls_says_so() {
    let gate = CrawlgateProcess::start();
    let open_ended = || Reply::raw(format!("HTTP/1.1 200 OK\r\n\r\n{RULES}"));
    let whole = Origin::https().on("/robots.txt", [open_ended().close()]);
    gate.denied(&gate.get(&whole.url("/private")));
    let cut = Origin::https().on("/robots.txt", [open_ended().cut()]);
    gate.refused(&gate.get(&cut.url("/open")), 403, "robots_unreachable");
    let page = Origin::https().on("/page", [open_ended().cut()]);
    let answer = gate.get(&page.url("/page"));
    assert!(
        !answer.whole,
        "a page that was cut short arrived as if whole: {answer:?}"
    );
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
    ];
    for (coding, body) in cases {
        let origin = Origin::http().on("/robots.txt", [coded(coding, &body)]);
        let answer = gate.get(&origin.url("/private"));
        assert_eq!(
            answer.problem()["reason"],
            "robots_disallow",
            "{coding}: {answer:?}"
        );
        let record = gate.denied(&answer);
        assert_eq!(
            record["robots"]["bytes"],
            RULES.len(),
            "{coding}: the length counts decoded"
        );
        gate.get(&origin.url("/open")).is_origins(200, "page /open");
    }
}

/// Returns a deflate block of 64 KiB of `#`, which ends at an octet so that it can be repeated.
fn block() -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut block = Vec::with_capacity(4096);
    compress
        .compress_vec(&[b'#'; 65536], &mut block, FlushCompress::Full)
        .unwrap();
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
        let record = gate.denied(&gate.get(&origin.url("/private")));
        assert_eq!(record["robots"]["truncated"], true, "{case}: {record}");
        let kept = record["robots"]["bytes"].as_u64().unwrap();
        assert!(kept <= 512_000, "{case}: {record}");
        gate.get(&origin.url("/open")).is_origins(200, "page /open");
        assert!(
            origin.sent() < 32 << 20,
            "{case}: {} octets were taken",
            origin.sent()
        );
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
    gate.denied(&gate.get(&origin.url("/private")));
    gate.get(&origin.url("/open")).is_origins(200, "page /open");
}
