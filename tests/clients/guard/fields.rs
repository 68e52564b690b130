//! Fields that a server takes for the path, for a part of it or for the host: none reaches a server.

use super::servers::{self, KINDS, Server};
use super::spellings::DIARY;
use super::{behind, site};
use crate::support::CrawlgateProcess;

/// Names that servers, frameworks and what stands before them use, as variables of CGI.
const NAMES: &[&str] = &[
    "DOCUMENT_URI",
    "FORWARDED",
    "ORIG_PATH_INFO",
    "ORIG_SCRIPT_NAME",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "RAW_URI",
    "REDIRECT_URL",
    "REQUEST_PATH",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SCRIPT_URL",
    "UNENCODED_URL",
    "X_ACCEL_MAPPING",
    "X_ENVOY_ORIGINAL_PATH",
    "X_FORWARDED_HOST",
    "X_FORWARDED_PATH",
    "X_FORWARDED_PATHBASE",
    "X_FORWARDED_PREFIX",
    "X_FORWARDED_SCRIPT_NAME",
    "X_FORWARDED_SERVER",
    "X_FORWARDED_URI",
    "X_FORWARDED_URL",
    "X_HOST",
    "X_HTTP_HOST_OVERRIDE",
    "X_INGRESS_PATH",
    "X_INVOKE_PATH",
    "X_MATCHED_PATH",
    "X_MS_ORIGINAL_URL",
    "X_ORIGINAL_HOST",
    "X_ORIGINAL_PATH",
    "X_ORIGINAL_URI",
    "X_ORIGINAL_URL",
    "X_REAL_PATH",
    "X_REPLACED_PATH",
    "X_REQUEST_BASE",
    "X_REQUEST_URI",
    "X_REWRITE_URI",
    "X_REWRITE_URL",
    "X_SCRIPT_NAME",
    "X_SENDFILE_TYPE",
    "X_TRAVERSAL_PATH",
    "X_WAWS_UNENCODED_URL",
];

/// Octets that stand for a `_` of a variable.
const SEPARATORS: &[&str] = &["_", "-", ".", "!", "~"];

/// Returns every spelling of every name with a value, in messages that a server takes.
fn fields(value: &str) -> Vec<String> {
    let spelled = NAMES.iter().flat_map(|name| {
        SEPARATORS.iter().flat_map(move |by| {
            let name = name.replace('_', by);
            [name.to_ascii_lowercase(), name]
        })
    });
    let lines: Vec<String> = spelled.map(|name| format!("{name}: {value}\r\n")).collect();
    lines.chunks(50).map(<[String]>::concat).collect()
}

#[test]
fn no_field_names_a_disallowed_path_to_gunicorn_and_to_what_stands_before_it() {
    if !servers::are_there() {
        return;
    }
    let root = site("User-agent: *\nDisallow: /private/\n");
    let gate = CrawlgateProcess::start();
    let mut running = Vec::new();
    for name in ["gunicorn", "Caddy before gunicorn", "HAProxy before gunicorn"] {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let server = Server::start(kind, root.path(), behind(kind, &running));
        let target = format!("/open{DIARY}");
        let passed = server.asked(&target, "SCRIPT_NAME: /open\r\n");
        assert!(passed.contains(DIARY), "{name} takes the field: {passed}");
        let url = format!("http://{}{target}", server.address);
        for fields in fields("/open") {
            let answer = gate.request("GET", &url, &fields);
            assert_eq!(answer.status, 404, "{name}: {answer:?} for {fields}");
        }
        running.push(server);
    }
}

#[test]
fn no_field_names_a_host_of_which_cherrypy_makes_a_path() {
    if !servers::are_there() {
        return;
    }
    let root = site("User-agent: *\nDisallow: /hidden/\n");
    let gate = CrawlgateProcess::start();
    let kind = KINDS.iter().find(|kind| kind.name == "CherryPy").unwrap();
    let server = Server::start(kind, root.path(), 0);
    let passed = server.asked("/note", "X-Forwarded-Host: hidden.example\r\n");
    says!(passed, "/hidden/note"; "it takes the field");
    for fields in fields("hidden.example") {
        let answer = gate.request("GET", &format!("http://{}/note", server.address), &fields);
        assert_eq!(answer.status, 404, "{answer:?} for {fields}");
    }
}

#[test]
fn no_field_becomes_a_variable_of_cgi_that_names_a_path() {
    if !servers::are_there() {
        return;
    }
    let root = site("User-agent: *\nDisallow: /private/\n");
    let program = "echo 'Content-Type: text/plain'; echo; env\n";
    std::fs::write(root.path().join("fields.cgi"), program).unwrap();
    let gate = CrawlgateProcess::start();
    let kind = KINDS.iter().find(|kind| kind.name == "lighttpd").unwrap();
    let server = Server::start(kind, root.path(), 0);
    for fields in fields(DIARY) {
        let passed = server.asked("/fields.cgi", &fields);
        assert!(passed.contains(DIARY), "lighttpd passes some: {passed}");
        let answer = gate.request("GET", &format!("http://{}/fields.cgi", server.address), &fields);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(!answer.text().contains(DIARY), "{}", answer.text());
    }
}
