//! `[log]`: the decision log and the program's own messages.

use std::path::PathBuf;

use crawlgate_policy::Reason;
use crawlgate_usage::Purposes;

use super::*;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_of_messages_is_returned_without_spaces() {
        for (filter, expected) in [
            ("info", Some("info")),
            ("WARN", Some("WARN")),
            (" off ", Some("off")),
            (
                "info, crawlgate::proxy = debug",
                Some("info,crawlgate::proxy=debug"),
            ),
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
}
