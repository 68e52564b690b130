//! The statements of a site about the use of a page, in questions: by its robots.txt, and by a response and a
//! tdmrep.json that the user brings.

use std::sync::Arc;

use super::PurposeError;
use crawlgate_config::Config;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_policy::Reason;
use crawlgate_policy::usage::{Signals, refusal};
use crawlgate_robots::ProductToken;
use crawlgate_usage::record::UsageRecord;
use crawlgate_usage::{
    Judged, Modes, Purpose, Purposes, Said, Shadowed, Statements, TdmRep, fields, judge,
    judge_response, lines, tdmrep,
};

/// The part of a question besides the robots.txt.
#[derive(Clone, Debug, Default)]
pub struct UsageQuery {
    /// The purposes of the fetch.
    pub purposes: Purposes,
    /// The treatment of each signal.
    pub modes: Arc<Modes>,
    /// The response to judge.
    pub response: Option<Arc<Head>>,
    /// The origin's tdmrep.json.
    pub tdmrep: Option<Arc<File>>,
}

/// A response head.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The status code.
    pub status: u16,
    lines: Vec<(String, Vec<u8>)>,
}

/// A tdmrep.json, or what is said where it cannot be used.
#[derive(Debug)]
pub enum File {
    /// It was parsed.
    Usable(TdmRep),
    /// It was fetched.
    Fetched(Arc<Snapshot>),
    /// It was not.
    Unusable(Said),
    /// It has not come.
    Pending,
}

/// The statements about the use of a page, and the judgement that follows.
#[derive(Clone, Debug)]
pub struct Usage {
    /// The purposes of the fetch.
    pub purposes: Purposes,
    /// The statements of robots.txt, tdmrep.json and the response.
    pub said: Said,
    /// The lines of robots.txt that match the path and do not count for it.
    pub shadowed: Vec<Shadowed>,
    /// The judgement that follows.
    pub judged: Judged,
    /// The reason for which the use is refused, if it is.
    pub refusal: Option<Reason>,
}

impl UsageQuery {
    /// Returns what the configuration says; nothing else is brought.
    pub fn configured(config: &Config) -> UsageQuery {
        UsageQuery {
            purposes: config.policy.purposes,
            modes: Arc::clone(&config.robots.signals),
            ..UsageQuery::default()
        }
    }

    /// Judges the use of a path that robots.txt allows, by its statements for the crawler, and by a tdmrep.json.
    pub fn judge(
        &self,
        statements: Option<&Statements>,
        file: Option<&File>,
        chain: &[ProductToken],
        path: &[u8],
        is_guarded: bool,
    ) -> Usage {
        let (purposes, modes) = (self.purposes, &*self.modes);
        let mut before = statements.map_or_else(Said::default, |it| it.at(path, is_guarded, modes));
        if let Some(file) = file.filter(|_| modes.tdmrep.is_read()) {
            before = match file {
                File::Usable(file) => before.and(&file.at(path, is_guarded)),
                File::Fetched(snapshot) => match snapshot.tdmrep() {
                    Ok(file) => before.and(&file.at(path, is_guarded)),
                    Err(why) => before.and(&tdmrep::unusable(why)),
                },
                File::Unusable(said) => before.and(said),
                File::Pending if Signals::of(purposes, &self.modes).ask_for_tdmrep() => {
                    return Usage {
                        purposes,
                        said: Said::default(),
                        shadowed: Vec::new(),
                        judged: Judged::default(),
                        refusal: Some(Reason::UsagePending),
                    };
                }
                File::Pending => before,
            };
        }
        let shadowed = statements.map(|it| it.shadowed(path, is_guarded, modes));
        let shadowed = shadowed.unwrap_or_default();
        let judged = judge(purposes, modes, &before, None);
        let refusal = refusal(&judged);
        // No request is sent, so there is no response.
        let response = self.response.as_deref().filter(|_| refusal.is_none());
        let Some(response) = response else {
            return Usage { purposes, said: before, shadowed, judged, refusal };
        };
        let after = response.said(chain, modes);
        before.drop_superseded(&after);
        let judged = judge_response(purposes, modes, &before, &after, response.status);
        Usage {
            purposes,
            said: before.and(&after),
            shadowed,
            judged,
            refusal: self::refusal(&judged).map(|_| Reason::UsageWithheld),
        }
    }
}

impl Usage {
    /// Returns the object for records and programs; `None` where nothing is said and no purpose is declared.
    #[must_use]
    pub fn record(&self) -> Option<UsageRecord<'_>> {
        let is_silent = self.said.is_empty() && self.purposes.is_empty();
        (!is_silent).then(|| UsageRecord::of(self.purposes, [&self.said], &self.judged))
    }
}

impl File {
    /// Parses a tdmrep.json. Any other text becomes `Unusable`.
    pub fn parse(text: &[u8]) -> File {
        match TdmRep::parse(text) {
            Ok(file) => File::Usable(file),
            Err(why) => File::Unusable(tdmrep::unusable(why)),
        }
    }
}

impl Head {
    /// Reads a response head as `curl -D -` writes it. Of several heads, one behind another, the last counts: others are
    /// redirects and interim responses. Without a status line, the status is 200.
    pub fn parse(text: &[u8]) -> Head {
        let mut head = Head { status: 200, lines: Vec::new() };
        let mut is_ended = false;
        for line in text.split(|octet| *octet == b'\n') {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if let Some(status) = status(line) {
                (head.status, is_ended) = (status, false);
                head.lines.clear();
            } else if line.is_empty() {
                is_ended = true;
            } else if let Some(colon) = memchr::memchr(b':', line).filter(|_| !is_ended)
                && let Some((name, value)) = line.split_at_checked(colon)
            {
                let name = String::from_utf8_lossy(name).into_owned();
                let value = value.get(1..).unwrap_or_default();
                head.lines.push((name, value.trim_ascii().to_vec()));
            }
        }
        head
    }

    fn said(&self, chain: &[ProductToken], modes: &Modes) -> Said {
        let all = self.lines.iter().map(|(name, value)| (&**name, &**value));
        fields::read(&lines::of(all), chain, modes)
    }
}

/// Returns the status of a status line: `HTTP/1.1 200 OK`.
fn status(line: &[u8]) -> Option<u16> {
    let line = str::from_utf8(line).ok()?;
    let (version, rest) = line.split_once(' ')?;
    let status = rest.split(' ').next()?;
    version.starts_with("HTTP/").then(|| status.parse().ok())?
}

/// Returns the purposes of these words; each word may be a list with commas.
///
/// # Errors
/// When a word names no purpose.
pub fn purposes<W: AsRef<str>>(words: &[W]) -> Result<Purposes, PurposeError> {
    let words = words.iter().flat_map(|words| words.as_ref().split(','));
    let purpose =
        |word: &str| Purpose::from_name(word.trim()).ok_or_else(|| PurposeError(word.to_owned()));
    words.map(purpose).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_heads_the_last_counts() {
        let text = "HTTP/1.1 301 Moved\r\nContent-Usage: train-ai=n\r\n\r\nHTTP/2 404\r\nx-robots-tag:noai\r\n\r\nbody: 1\n";
        let head = Head::parse(text.as_bytes());
        let lines = [("x-robots-tag".to_owned(), b"noai".to_vec())];
        assert_eq!((head.status, &*head.lines), (404, &lines[..]));
        let bare = Head::parse(b"Link: a\nfoo\n");
        assert_eq!((bare.status, bare.lines.len()), (200, 1));
    }

    #[test]
    fn purposes_are_words_or_lists_of_them() {
        let found = purposes(&["search, train-ai", "tdm"]).expect("purposes");
        assert_eq!(found.iter().count(), 3);
        let error = purposes(&["train"]).expect_err("no purpose").to_string();
        assert!(error.contains("`train` is no purpose: write search, train-ai"), "{error}");
    }
}
