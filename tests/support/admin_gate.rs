//! The program with its admin side open.

use std::net::SocketAddr;
use std::ops::Deref;

use serde_json::Value;

use super::{CrawlgateProcess, Origin, Response, Setup, Wire, eventually};

/// A running program with an admin listener, and the address of that listener.
pub(crate) struct AdminGate {
    pub(crate) process: CrawlgateProcess,
    pub(crate) address: SocketAddr,
}

impl Deref for AdminGate {
    type Target = CrawlgateProcess;

    fn deref(&self) -> &CrawlgateProcess {
        &self.process
    }
}

impl AdminGate {
    #[track_caller]
    pub(crate) fn open() -> AdminGate {
        AdminGate::with(|_| ())
    }

    #[track_caller]
    pub(crate) fn with(configure: impl FnOnce(&mut Setup)) -> AdminGate {
        let gate = CrawlgateProcess::with(|setup| {
            setup.set("admin", "address", "\"127.0.0.1:0\"");
            configure(setup);
        });
        AdminGate::of(gate)
    }

    /// Returns the admin side of a program that runs already.
    #[track_caller]
    pub(crate) fn of(gate: CrawlgateProcess) -> AdminGate {
        let address = eventually("the gate to print the address of its console", || {
            let said = gate.said();
            let (_, rest) = said.split_once("console: http")?;
            let (_, rest) = rest.split_once("://")?;
            rest.split_once('/')?.0.parse().ok()
        });
        AdminGate { process: gate, address }
    }

    /// Sends a request for this target with these field lines, each ended by CRLF, and this body.
    #[track_caller]
    pub(crate) fn ask(&self, method: &str, target: &str, fields: &str, body: &str) -> Response {
        let length = match (method, body) {
            ("GET" | "HEAD", "") => String::new(),
            (_, body) => format!("Content-Length: {}\r\n", body.len()),
        };
        let host = if fields.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        Wire::connect(self.address)
            .exchange(format!("{method} {target} HTTP/1.1\r\n{host}{length}{fields}\r\n{body}"))
    }

    #[track_caller]
    pub(crate) fn get(&self, target: &str) -> Response {
        self.ask("GET", target, "", "")
    }

    /// GETs a target until the answer has this status.
    #[track_caller]
    pub(crate) fn until(&self, status: u16, target: &str) {
        eventually(&format!("{status} for {target}"), || {
            (self.get(target).status == status).then_some(())
        });
    }

    /// GETs a document of the API.
    #[track_caller]
    pub(crate) fn api(&self, path: &str) -> Value {
        let answer = self.get(&format!("/api/v1{path}"));
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        json(&answer)
    }

    /// POSTs a document to the API.
    #[track_caller]
    pub(crate) fn post(&self, path: &str, document: &Value) -> Response {
        let fields = "Content-Type: application/json\r\n";
        let target = format!("/api/v1{path}");
        self.ask("POST", &target, fields, &document.to_string())
    }

    /// Sends a request that the gate denies, and returns the id of the decision.
    #[track_caller]
    pub(crate) fn deny(&self, origin: &Origin, path: &str) -> String {
        let answer = self.process.get(&origin.url(path));
        let record = self.process.denied(&answer);
        record["id"].as_str().unwrap().to_owned()
    }
}

/// Returns the JSON in an answer's body.
#[track_caller]
pub(crate) fn json(answer: &Response) -> Value {
    serde_json::from_str(&answer.text()).unwrap_or_else(|why| panic!("{why}: {answer:?}"))
}

/// Asserts that an answer is a problem document with this status, and returns its detail.
#[track_caller]
pub(crate) fn problem(answer: &Response, status: u16) -> String {
    assert_eq!(answer.status, status, "{}\n{}", answer.head.text(), answer.text());
    assert_eq!(
        answer.field("content-type").as_deref(),
        Some("application/problem+json"),
        "{}",
        answer.text()
    );
    let document = json(answer);
    assert_eq!(document["status"], status, "{document}");
    assert!(document["title"].as_str().is_some_and(|title| !title.is_empty()), "{document}");
    document["detail"].as_str().expect("a detail").to_owned()
}
