//! The reasons why a decision cannot be made again.

use std::fmt;

/// The reason why a decision cannot be made again. Only the record attests it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NotReplayable {
    /// The request was malformed or contradictory, and was refused without a judgement.
    Unjudged,
    /// robots.txt or tdmrep.json did not come in time.
    Pending,
    /// The origin's turn had not come.
    Paced,
    /// Decisions could not be recorded.
    Unrecorded,
    /// The tunnel's content was neither TLS nor HTTP.
    NotHttp,
    /// The query was left out of the record, as configured.
    Redacted,
    /// The URL was too long to be recorded whole and a path decided, or the chain of product tokens was too long.
    Cut,
    /// The robots.txt behind it was dropped to make room, or was lost to damage that was mended since.
    NoRoom,
    /// The client was exempt, and the settings of that time, which name exempt clients, are not in the log.
    NoSettings,
    /// The reason is one that this crawlgate does not know.
    Unknown,
}

impl NotReplayable {
    /// Returns the name for summaries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unjudged => "unjudged",
            Self::Pending => "pending",
            Self::Paced => "paced",
            Self::Unrecorded => "unrecorded",
            Self::NotHttp => "not_http",
            Self::Redacted => "redacted",
            Self::Cut => "cut",
            Self::NoRoom => "no_room",
            Self::NoSettings => "no_settings",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for NotReplayable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unjudged => "the request was refused before anything was judged",
            Self::Pending => "it was deferred because robots.txt or tdmrep.json had not come, which leaves nothing to replay",
            Self::Paced => "it was deferred because the origin's turn had not come, which leaves nothing to replay",
            Self::Unrecorded => "decisions could not be recorded",
            Self::NotHttp => "what came through the tunnel was neither TLS nor HTTP, and was not kept",
            Self::Redacted => "the URL's query was left out of the record ([log] redact_query)",
            Self::Cut => "the request was too long to be recorded whole",
            Self::NoRoom => "the robots.txt that it rests on is not kept: it had no room in the store any more ([audit] max_size), was lost to damage, or was missing in the export",
            Self::NoSettings => "its client was exempt, and the log does not tell the settings of that time, which name exempt clients",
            Self::Unknown => "its reason is unknown to this crawlgate; a newer one may know it",
        })
    }
}
