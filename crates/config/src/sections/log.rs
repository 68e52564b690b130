//! `[log]`: the decision log and the program's own messages.
//!
//! `[telemetry]`: messages and traces for an OpenTelemetry collector.

use std::path::PathBuf;

use super::*;
use crawlgate_policy::Reason;
use crawlgate_usage::Purposes;

section! {
    /// `[log]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogConfig "log" {
        /// The decisions to record.
        decisions: Recorded = Recorded::Denied, word(), AtReload;
        /// The decision log; `None`: no file.
        file: Option<PathBuf> = None, or_false(unless("", path())), AtRestart;
        /// True to write decisions to standard output, too.
        stdout: bool = false, boolean(), AtRestart;
        /// Octets at which the file is rotated.
        rotate_bytes: u64 = 100 * MIB as u64, bytes(4 * KIB as u64..=1 << 40), AtRestart;
        /// True to rotate the file at midnight, UTC.
        rotate_daily: bool = true, boolean(), AtRestart;
        /// Rotated files to keep; at least 1.
        keep: usize = 14, integer(1..=100_000), AtRestart;
        /// The treatment of requests while decisions cannot be recorded.
        on_failure: OnFailure = OnFailure::Deny, word(), AtReload;
        /// True to leave the query of a URL out of the record.
        redact_query: bool = false, boolean(), AtReload;
        /// Filter of the program's own messages on standard error, as `tracing_subscriber::filter::Targets` reads it.
        level: String = "info".to_owned(), text(level), AtReload;
        /// The format of these messages.
        format: LogFormat = LogFormat::Text, word(), AtRestart;
    }
}

words! {
    /// The format of the program's own messages.
    pub enum LogFormat {
        /// For people.
        Text = "text",
        /// One JSON object per line.
        Json = "json",
    }
}

words! {
    /// The decisions to record.
    pub enum Recorded {
        /// Decisions that kept a request from its origin.
        Denied = "denied",
        /// Those, and all decisions about clients that declare purposes.
        Purposes = "purposes",
        /// All decisions.
        All = "all",
    }
}

words! {
    /// The treatment of requests while decisions cannot be recorded.
    pub enum OnFailure {
        /// Requests are denied: no record, no request.
        Deny = "deny",
        /// Requests go on; the records lost are counted.
        Continue = "continue",
    }
}

impl Recorded {
    /// Returns the least setting that records a decision: denials and failures always are, and so is what robots.txt
    /// disallows and the operator's exemption of a client lets out.
    #[must_use]
    pub fn least(reason: &str, verdict: &str, has_failed: bool, purposes: Purposes) -> Recorded {
        let is_plain = verdict == "allow" && reason != Reason::ClientExempt.as_str();
        match is_plain && !has_failed {
            false => Recorded::Denied,
            true if !purposes.is_empty() => Recorded::Purposes,
            true => Recorded::All,
        }
    }
}

/// Checks a filter of messages: a level, and levels of targets. The filter is returned without spaces.
///
/// `Targets`, which reads it later, would take a misspelt level for the name of a target, and nothing for a level.
fn level(filter: &str) -> Result<String, &'static str> {
    const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];
    const EXPECTED: &str = "expected \"error\", \"warn\", \"info\", \"debug\", \"trace\" or \"off\", and target=level after commas, as \
         in \"info,crawlgate::proxy=debug\"";
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let directive = |text: &str| match text.split_once('=') {
        None => is_level(text.trim()).then(|| text.trim().to_owned()),
        Some((target, level)) => {
            let (target, level) = (target.trim(), level.trim());
            let is_path = !target.is_empty() && target.chars().all(is_of_path);
            (is_path && is_level(level)).then(|| format!("{target}={level}"))
        }
    };
    let directives: Option<Vec<_>> = filter.split(',').map(directive).collect();
    Ok(directives.ok_or(EXPECTED)?.join(","))
}

/// Octets of a service's name.
const LONGEST_NAME: usize = 255;

section! {
    /// `[telemetry]`
    #[derive(Clone, Debug, PartialEq)]
    pub struct TelemetryConfig "telemetry" {
        /// The URL of an OpenTelemetry collector (OTLP over HTTP), without a slash at its end; `None`: nothing is sent.
        otlp_endpoint: Option<String> = None, unless("", service(endpoint)), AtRestart;
        /// A file with header fields for each delivery, `name: value` on each line; `None`: none.
        headers_file: Option<PathBuf> = None, unless("", path()), AtRestart;
        /// The name of this instance there.
        service_name: String = "crawlgate".to_owned(), text(service_name), AtRestart;
        /// Share of exchanges to trace if their crawler does not decide, from 0 (none) to 1 (all).
        sample: f64 = 0.01, number(0.0..=1.0), AtRestart;
        /// True to send the program's own messages, too.
        logs: bool = true, boolean(), AtRestart;
    }
}

/// Reads the URL of a collector, without the path of a signal, which crawlgate adds.
fn endpoint(text: &str) -> Result<String, &'static str> {
    const ALLOWED: &str = "expected the URL of an OpenTelemetry collector that takes OTLP over HTTP, without credentials \
        (they belong into headers_file) and query: \"http://127.0.0.1:4318\", \"https://otlp.example\"";
    let url = plain_url(text).ok_or(ALLOWED)?;
    // The path of a signal would be added twice.
    if url.path().ends_with("/v1/traces") || url.path().ends_with("/v1/logs") {
        return Err(ALLOWED);
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

fn service_name(text: &str) -> Result<String, &'static str> {
    let is_name = !text.trim().is_empty()
        && text.len() <= LONGEST_NAME
        && !text.chars().any(char::is_control);
    if is_name { Ok(text.to_owned()) } else { Err("expected a name of at most 255 octets") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_messages_is_returned_without_spaces() {
        for (filter, expected) in [
            ("info", Some("info")),
            ("WARN", Some("WARN")),
            (" off ", Some("off")),
            ("info, crawlgate::proxy = debug", Some("info,crawlgate::proxy=debug")),
            ("crawlgate=trace", Some("crawlgate=trace")),
            ("", None),
            ("info,", None),
            ("info,=debug", None),
            ("info,crawlgate=3", None),
            ("crawlgate", None),
        ] {
            assert_eq!(level(filter).ok().as_deref(), expected, "{filter:?}");
        }
    }

    #[test]
    fn an_endpoint_is_a_plain_url() {
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, Option<&str>)] = &[
            ("on this machine", "http://127.0.0.1:4318", Some("http://127.0.0.1:4318")),
            ("with a slash", "http://127.0.0.1:4318/", Some("http://127.0.0.1:4318")),
            ("with a path of its own", "https://otlp.example/tenant/", Some("https://otlp.example/tenant")),
            ("the path of a signal", "http://127.0.0.1:4318/v1/traces", None),
            ("credentials", "http://user:secret@otlp.example", None),
            ("a query", "http://otlp.example/?key=secret", None),
            ("another scheme", "grpc://127.0.0.1:4317", None),
            ("no scheme", "127.0.0.1:4318", None),
            ("not a URL", "collector", None),
        ];
        for (name, text, expected) in cases {
            assert_eq!(endpoint(text).ok().as_deref(), *expected, "{name}");
        }
    }

    #[test]
    fn a_service_has_a_name() {
        for (text, is_name) in [("crawlgate", true), ("", false), (" ", false), ("a\nb", false)] {
            assert_eq!(service_name(text).is_ok(), is_name, "{text:?}");
        }
        assert!(service_name(&"x".repeat(256)).is_err());
    }
}
