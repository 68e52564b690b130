//! The verifier that Cloudflare publishes, the npm package `web-bot-auth`: it takes the string form, and no dictionary.
//!
//! Its version 0.1.3 takes the query of a target without one for nothing, where RFC 9421 has `?`. So of signatures over the
//! query it verifies only those of targets with a query.

use std::env;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::verify::{ask, by_http1, message, signing_gate};
use crate::support::Origin;

/// Returns the command that verifies; `None` if the package is not installed, which `CRAWLGATE_REQUIRE_CLIENTS` forbids.
fn verifier() -> Option<Command> {
    let packages = env::var_os("CRAWLGATE_NODE_CLIENTS");
    let installed = packages.filter(|packages| {
        let package = Path::new(packages).join("node_modules/web-bot-auth");
        package.is_dir()
    });
    if installed.is_none() {
        let required = env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        let missing =
            "Node.js with web-bot-auth (CRAWLGATE_NODE, CRAWLGATE_NODE_CLIENTS) is missing";
        assert!(!required, "{missing}");
        eprintln!("skipped: {missing}");
        return None;
    }
    let node = env::var_os("CRAWLGATE_NODE").unwrap_or_else(|| "node".into());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/signed/reference.cjs");
    let mut command = Command::new(node);
    command.arg(script);
    Some(command)
}

#[test]
fn the_reference_verifier_takes_the_string_form() {
    let refused = "no: Error: invalid signature";
    #[rustfmt::skip] // one row, one case
    let rows = [
        ("form = 'string'", "verified", refused),
        ("form = 'string'\ncover = 'authority'", "verified", "verified"),
        ("", refused, refused),
    ];
    for (more, with_query, without) in rows {
        let verifier = or_skip!(verifier());
        let (gate, key) = signing_gate(more);
        let origin = Origin::https();
        gate.passes(&origin.url("/a/%7Euser?x=1&y=%C3%A9"));
        let all = by_http1(&origin);
        let mut messages: Vec<Value> = all.iter().map(message).collect();
        let mut altered = messages[1].clone();
        altered["headers"]["signature-agent"] = "\"https://other.example\"".into();
        messages.push(altered);
        let said = ask(verifier, &[&key], &messages);
        assert_eq!(said, [without, with_query, refused], "{more}");
    }
}
