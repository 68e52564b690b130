//! Exposition of the metrics, in the format that the client prefers.
//!
//! The text of Prometheus (0.0.4) is universal and readable in a terminal; OpenMetrics 1.0 is its successor; only the
//! protobuf of Prometheus has room for native histograms. The library writes the latter two; the text differs from
//! OpenMetrics only in its comments, and is derived from it here, line by line. Protobuf is part of the feature
//! `telemetry`: its compiler takes long to build.

use std::fmt;

#[cfg(feature = "telemetry")]
use prometheus_client::encoding::prometheus_protobuf;
use prometheus_client::encoding::text;

use super::Registry;

/// A format of the exposition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Prometheus text exposition format 0.0.4.
    Text,
    /// OpenMetrics text 1.0.
    OpenMetrics,
    #[cfg(feature = "telemetry")]
    /// Prometheus protobuf: `io.prometheus.client.MetricFamily`, each with its length before it.
    Protobuf,
}

impl Format {
    /// In the order of preference for formats that a client weighs equally.
    const ALL: &[Format] = &[
        #[cfg(feature = "telemetry")]
        Format::Protobuf,
        Format::OpenMetrics,
        Format::Text,
    ];

    /// Returns the content type.
    #[must_use]
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            #[cfg(feature = "telemetry")]
            Format::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }

    /// Returns the format with the highest weight in an Accept field (RFC 9110 section 12.5.1); text if the field names
    /// none of them, so that a browser shows something.
    #[must_use]
    pub fn asked_for(accept: &[&str]) -> Format {
        let mut best = (0, Format::Text);
        for range in accept.iter().flat_map(|field| field.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let (mut weight, mut parameters) = (1000, Vec::new());
            for parameter in parts {
                let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
                let value = value.trim().trim_matches('"');
                match name.trim() {
                    name if name.eq_ignore_ascii_case("q") => weight = thousandths(value),
                    name => parameters.push((name, value)),
                }
            }
            for &format in Format::ALL {
                if weight > best.0 && format.is_meant_by(media, &parameters) {
                    best = (weight, format);
                }
            }
        }
        best.1
    }

    fn is_meant_by(self, media: &str, parameters: &[(&str, &str)]) -> bool {
        let (own, expected): (&str, &[(&str, &[&str])]) = match self {
            Format::Text => ("text/plain", &[("version", &["0.0.4"])]),
            Format::OpenMetrics => (
                "application/openmetrics-text",
                // 0.0.1 is what Prometheus called 1.0 before there was one.
                &[("version", &["1.0.0", "0.0.1"])],
            ),
            #[cfg(feature = "telemetry")]
            Format::Protobuf => (
                "application/vnd.google.protobuf",
                &[("proto", &["io.prometheus.client.MetricFamily"]), ("encoding", &["delimited"])],
            ),
        };
        media.eq_ignore_ascii_case(own)
            && parameters.iter().all(|(name, value)| {
                expected
                    .iter()
                    .filter(|(own, _)| own.eq_ignore_ascii_case(name))
                    .all(|(_, values)| values.contains(value))
            })
    }

    /// Returns all registered metrics in this format.
    ///
    /// # Errors
    /// When an instrument cannot be written.
    pub fn render(self, registry: &Registry) -> Result<Vec<u8>, fmt::Error> {
        let mut open_metrics = String::new();
        match self {
            #[cfg(feature = "telemetry")]
            Format::Protobuf => {
                return prometheus_protobuf::encode_to_vec(registry).map_err(|_| fmt::Error);
            }
            Format::OpenMetrics => text::encode(&mut open_metrics, registry)?,
            Format::Text => {
                text::encode_registry(&mut open_metrics, registry)?;
                return Ok(plain(&open_metrics).into_bytes());
            }
        }
        Ok(open_metrics.into_bytes())
    }
}

/// Parses a weight of RFC 9110 section 12.4.2, in thousandths; a malformed one counts as 0.
fn thousandths(text: &str) -> u32 {
    match text.parse::<f64>() {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "from 0 to 1000"
        )]
        Ok(weight) if (0.0..=1.0).contains(&weight) => (weight * 1000.0) as u32,
        _ => 0,
    }
}

/// Converts OpenMetrics to Prometheus text 0.0.4, which names a counter with its `_total` in the comments, too, and has
/// neither units nor an end.
fn plain(open_metrics: &str) -> String {
    let mut plain = String::with_capacity(open_metrics.len());
    // HELP comes first and waits for TYPE, which tells whether the metric is a counter.
    let mut help = "";
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            help = line;
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let suffix = if kind == "counter" { "_total" } else { "" };
            let text = help.strip_prefix("# HELP ").unwrap_or_default();
            let text = text.strip_prefix(name).unwrap_or_default();
            plain.extend(["# HELP ", name, suffix, text, "\n"]);
            plain.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
        } else if !line.starts_with('#') {
            plain.extend([line, "\n"]);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::{Counters, DurationHistogram, Gauge, Unit};

    #[test]
    fn a_client_gets_its_preferred_format() {
        // Accept fields of Prometheus 3, with and without native histograms.
        let classic = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                       application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,\
                       text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.7,\
                      application/openmetrics-text;version=1.0.0;q=0.6,*/*;q=0.2";
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &[&str], Format)] = &[
            ("nothing", &[], Format::Text),
            ("curl", &["*/*"], Format::Text),
            ("a browser", &["text/html,application/xml;q=0.9,*/*;q=0.8"], Format::Text),
            ("Prometheus", &[classic], Format::OpenMetrics),
            ("Prometheus that scrapes native histograms", &[native], Format::Protobuf),
            ("in two fields", &["text/plain;q=0.3", "application/openmetrics-text"], Format::OpenMetrics),
            ("the first of equals", &["text/plain, application/openmetrics-text"], Format::Text),
            ("a version that there is not", &["application/openmetrics-text;version=2.0.0, text/plain;q=0.1"], Format::Text),
            ("another encoding", &["application/vnd.google.protobuf;encoding=text"], Format::Text),
            ("not at all", &["application/openmetrics-text;q=0"], Format::Text),
            ("a weight that is none", &["application/openmetrics-text;q=high"], Format::Text),
            ("upper case and quotes", &["Application/OpenMetrics-Text; Version=\"1.0.0\"; Q=1"], Format::OpenMetrics),
        ];
        for (name, accept, expected) in cases {
            assert_eq!(Format::asked_for(accept), *expected, "{name}");
        }
    }

    fn registry() -> Registry {
        let mut registry = Registry::default();
        let counters = Counters::by("result", &["good", "bad"]);
        counters.add(0, 3);
        registry.register("x_things", "Things", counters);
        registry.register("x_alone", "Without labels", Counters::one());
        let gauge = Gauge::default();
        registry.register_with_unit("x_held", "What is held", Unit::Bytes, gauge.clone());
        let times = DurationHistogram::between(-1..1);
        times.observe(Duration::from_millis(700));
        registry.register_with_unit("x_time", "How long", Unit::Seconds, times);
        drop(gauge.raise());
        registry
    }

    #[test]
    fn the_text_is_that_of_prometheus() {
        let text = Format::Text.render(&registry()).expect("text");
        let expected = "\
            # HELP x_things_total Things.\n\
            # TYPE x_things_total counter\n\
            x_things_total{result=\"good\"} 3\n\
            x_things_total{result=\"bad\"} 0\n\
            # HELP x_alone_total Without labels.\n\
            # TYPE x_alone_total counter\n\
            x_alone_total 0\n\
            # HELP x_held_bytes What is held.\n\
            # TYPE x_held_bytes gauge\n\
            x_held_bytes 0\n\
            # HELP x_time_seconds How long.\n\
            # TYPE x_time_seconds histogram\n\
            x_time_seconds_sum 0.7\n\
            x_time_seconds_count 1\n\
            x_time_seconds_bucket{le=\"0.5\"} 0\n\
            x_time_seconds_bucket{le=\"1.0\"} 1\n\
            x_time_seconds_bucket{le=\"+Inf\"} 1\n";
        assert_eq!(String::from_utf8(text).expect("UTF-8"), expected);
    }

    #[test]
    fn open_metrics_has_units_and_an_end() {
        let text = Format::OpenMetrics.render(&registry()).expect("text");
        let text = String::from_utf8(text).expect("UTF-8");
        for line in ["# TYPE x_things counter", "# UNIT x_held_bytes bytes"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
        assert!(text.ends_with("# EOF\n"), "{text}");
    }

    #[test]
    fn protobuf_comes_message_by_message_and_has_the_native_histogram() {
        let bytes = Format::Protobuf.render(&registry()).expect("protobuf");
        let mut names = Vec::new();
        let mut rest = &bytes[..];
        while let [length, tail @ ..] = rest {
            // None of these is longer than one octet can tell.
            assert!(*length < 0x80 || names.len() == 3, "{length}");
            let (length, tail) = match *length {
                length @ 0..0x80 => (usize::from(length), tail),
                low => (usize::from(low & 0x7f) | usize::from(tail[0]) << 7, &tail[1..]),
            };
            let (message, tail) = tail.split_at(length);
            // Field 1, a string: the name.
            assert_eq!(message[0], 0x0a);
            let name = &message[2..2 + usize::from(message[1])];
            names.push(String::from_utf8(name.to_vec()).expect("a name"));
            rest = tail;
        }
        assert_eq!(names, ["x_things_total", "x_alone_total", "x_held_bytes", "x_time_seconds"]);
    }
}
