//! `[telemetry]`: messages and traces for an OpenTelemetry collector.

use std::path::Path;

use super::super::{
    TelemetryConfig,
    read::Section,
    values::{boolean, number, path, plain_url, service, text, unless},
};

/// Octets of a service's name.
const LONGEST_NAME: usize = 255;

pub(super) fn telemetry(mut section: Section<'_, '_>, base: &Path, to: &mut TelemetryConfig) {
    section.set(
        "otlp_endpoint",
        &mut to.otlp_endpoint,
        unless("", service(endpoint)),
    );
    section.set("headers_file", &mut to.headers_file, unless("", path(base)));
    section.set("service_name", &mut to.service_name, text(service_name));
    section.set("sample", &mut to.sample, number(0.0..=1.0));
    section.set("logs", &mut to.logs, boolean);
    section.finish();
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
    match is_name {
        true => Ok(text.to_owned()),
        false => Err("expected a name of at most 255 octets"),
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
