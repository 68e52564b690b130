//! The promises about each refusal: its answer, its record, and their content.

use super::*;

/// Reasons for which a request is refused for now.
const DEFERRED: &str =
    "robots_pending usage_pending paced log_failed quota_spent client_limit overloaded fleet_cut";

impl CrawlgateProcess {
    /// Asserts that an answer is crawlgate's own refusal, and returns its record: checks the status, the reason,
    /// `Proxy-Status`, a problem document that agrees with the record, and that there is exactly one record.
    #[track_caller]
    pub(crate) fn refused(&self, answer: &Response, status: u16, reason: &str) -> Value {
        assert_eq!(
            answer.status,
            status,
            "{}{}\n{}",
            answer.head.text(),
            answer.text(),
            self.said()
        );
        assert!(answer.is_ours() && answer.whole, "{answer:?}");
        assert_eq!(answer.field("content-type").as_deref(), Some("application/problem+json"));
        self.refusal(&answer.problem(), status, reason)
    }

    /// Returns the record of a refusal because robots.txt is unreachable: checks that status and error are those of the
    /// cause in the record, and that the answer says when to ask again.
    #[track_caller]
    pub(crate) fn unreachable(&self, answer: &Response) -> Value {
        let record = self.refused(answer, answer.status, "robots_unreachable");
        let cause = record["robots"]["unreachable"]["cause"].as_str();
        let word = cause.and_then(|cause| cause.split(':').next());
        let (status, error) = match word.unwrap_or_default() {
            "dns" => (502, "dns_error"),
            "refused" => (502, "connection_refused"),
            "connect" | "upstream_proxy" => (502, "destination_unavailable"),
            "unaddressable" => (502, "destination_ip_unroutable"),
            "prohibited" | "prohibited_hop" => (502, "destination_ip_prohibited"),
            "tls_alert" => (502, "tls_alert_received"),
            "tls_closed" => (502, "connection_terminated"),
            word if word.starts_with("certificate") => (502, "tls_certificate_error"),
            word if word.starts_with("tls") => (502, "tls_protocol_error"),
            word if word.ends_with("encoding") => (502, "http_response_content_coding"),
            "protocol" => (502, "http_protocol_error"),
            word if word.starts_with("redirect_") => (502, "http_protocol_error"),
            "timeout" => (504, "http_response_timeout"),
            "incomplete" | "length" => (503, "http_response_incomplete"),
            "disallowed_hop" | "unjudged_hop" | "denied_hop" | "hop_chain" => {
                (503, "destination_unavailable")
            }
            word if word.starts_with("status_") || word.starts_with("ftp_") => {
                (503, "destination_unavailable")
            }
            other => panic!("no status is told of {other:?}: {record}"),
        };
        assert_eq!(answer.status, status, "{record}");
        assert_eq!(record["error"], error, "{record}");
        let told = answer.field("proxy-status").unwrap_or_default();
        let begins = told.starts_with(&format!("crawlgate; error={error};"));
        assert!(begins && told.ends_with("; details=\"robots_unreachable\""), "{told}");
        assert!(answer.field("retry-after").is_some(), "{answer:?}");
        record
    }

    /// Returns the record of a refusal with this problem document: checks that they agree, and that there is exactly one.
    #[track_caller]
    pub(crate) fn refusal(&self, problem: &Value, status: u16, reason: &str) -> Value {
        assert_eq!(
            (&problem["status"], &problem["reason"]),
            (&status.into(), &reason.into()),
            "{problem}"
        );
        for key in ["type", "title", "detail", "id"] {
            assert!(
                problem[key].as_str().is_some_and(|text| !text.is_empty()),
                "{key} is missing: {problem}"
            );
        }
        let record = self.record(reason, |record| record["id"] == problem["id"]);
        let verdict = if DEFERRED.split(' ').any(|one| one == reason) { "defer" } else { "deny" };
        assert_eq!(
            (&record["verdict"], &record["reason"]),
            (&verdict.into(), &reason.into()),
            "{record}"
        );
        assert_eq!(record["status"], status, "{record}");
        if reason == "robots_disallow" {
            for (ours, theirs) in [("rule", "text"), ("line", "line"), ("group", "group")] {
                assert!(!problem[ours].is_null(), "{ours} is missing: {problem}");
                assert_eq!(problem[ours], record["rule"][theirs], "{problem} {record}");
            }
            assert_eq!(problem["robots_url"], record["robots"]["url"], "{problem} {record}");
        }
        assert_eq!(
            self.records().iter().filter(|other| other["id"] == record["id"]).count(),
            1,
            "recorded twice"
        );
        record
    }

    /// GETs a URL, and asserts [`CrawlgateProcess::refused`] for its answer.
    #[track_caller]
    pub(crate) fn refuses(&self, url: &str, status: u16, reason: &str) -> Value {
        self.refused(&self.get(url), status, reason)
    }

    /// GETs a URL, and asserts [`CrawlgateProcess::denied`] for its answer.
    #[track_caller]
    pub(crate) fn denies(&self, url: &str) -> Value {
        self.denied(&self.get(url))
    }

    /// Asserts [`CrawlgateProcess::refused`] for a denial by a rule.
    #[track_caller]
    pub(crate) fn denied(&self, answer: &Response) -> Value {
        self.refused(answer, 403, "robots_disallow")
    }
}
