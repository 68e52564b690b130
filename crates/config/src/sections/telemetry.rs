//! `[telemetry]`: messages and traces for an OpenTelemetry collector.

use std::path::PathBuf;

use super::*;

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
    if is_name {
        Ok(text.to_owned())
    } else {
        Err("expected a name of at most 255 octets")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (text, is_name) in [
            ("crawlgate", true),
            ("", false),
            (" ", false),
            ("a\nb", false),
        ] {
            assert_eq!(service_name(text).is_ok(), is_name, "{text:?}");
        }
        assert!(service_name(&"x".repeat(256)).is_err());
    }
}
