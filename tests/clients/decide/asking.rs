//! Questions to the decision service, and what every decision has in common.

use serde_json::Value;

use crate::support::{AdminGate, CrawlgateProcess, Response, Setup, Wire};

impl AdminGate {
    /// Starts a gate with a configuration of the test's own.
    #[track_caller]
    pub(crate) fn started(setup: Setup, configuration: &str) -> AdminGate {
        let command = setup.command("serve");
        std::fs::write(setup.dir().join("config.toml"), configuration).unwrap();
        AdminGate::of(CrawlgateProcess::spawn(setup, command))
    }

    /// Sends these octets on a connection of their own.
    #[track_caller]
    pub(crate) fn say(&self, request: &str) -> Response {
        Wire::connect(self.address).exchange(request)
    }

    /// Requests `GET /decide?url=…` with further parameters or fields.
    #[track_caller]
    pub(crate) fn decide(&self, url: &str, more: &str) -> Response {
        self.say(&format!(
            "GET /decide?url={}{more} HTTP/1.1\r\nHost: localhost\r\n\r\n",
            encoded(url)
        ))
    }

    /// Asserts that an answer is a decision with this status and reason, equal in its fields, its document and its only
    /// record; returns that record.
    #[track_caller]
    pub(crate) fn decided(&self, answer: &Response, status: u16, reason: &str) -> Value {
        assert_eq!(answer.status, status, "{answer:?}\n{}", self.process.said());
        let document = answer.problem();
        let id = document["id"].as_str().expect("an id").to_owned();
        for (field, member) in [
            ("x-crawlgate-verdict", "verdict"),
            ("x-crawlgate-reason", "reason"),
            ("x-crawlgate-decision", "id"),
        ] {
            let value = answer.field(field);
            assert_eq!(value.as_deref(), document[member].as_str(), "{answer:?}");
        }
        assert_eq!(document["reason"], reason, "{document}");
        let record = self.process.record(&id, |record| record["id"] == id);
        for member in ["verdict", "reason", "mode"] {
            assert_eq!(document[member], record[member], "{document} {record}");
        }
        for (ours, theirs) in [
            ("rule", "/rule/text"),
            ("line", "/rule/line"),
            ("group", "/rule/group"),
            ("sha256", "/robots/sha256"),
        ] {
            let theirs = record.pointer(theirs).unwrap_or(&Value::Null);
            assert_eq!(&document[ours], theirs, "{ours}: {document} {record}");
        }
        has!(record, {"via": "decide", "status": status, "upstream": null});
        let same = self.process.records();
        let same = same.iter().filter(|record| record["id"] == id.as_str());
        assert_eq!(same.count(), 1, "recorded twice");
        record
    }
}

/// Returns a text encoded as the value of a parameter.
pub(crate) fn encoded(text: &str) -> String {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
    text.bytes()
        .map(|octet| match plain(octet) {
            true => char::from(octet).to_string(),
            false => format!("%{octet:02X}"),
        })
        .collect()
}
