//! Squid's lines: `[channel] URL User-Agent …`, and the answers to them.
//!
//! The words are in Squid's shell form (`%/`), the only one that keeps each octet: by default Squid percent-encodes
//! some octets and keeps every existing `%`, so that `/a[` and `/a%5B` look alike.

use std::fmt::Write as _;

/// Longest channel number, in digits.
pub(super) const CHANNEL_DIGITS: usize = 20;

/// Octets of a message; Squid puts it into its error page and its log.
const LONGEST_MESSAGE: usize = 1024;

/// Tells whether lines begin with the number of a channel (`concurrency=`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Channels {
    /// One request at a time.
    None,
    /// Each request with its channel's number.
    Numbered,
}

/// One line of Squid's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The channel, repeated in the answer.
    pub(super) channel: Option<Box<str>>,
    /// The request, or the answer if the line is not valid.
    pub(super) lookup: Result<Lookup, Outcome>,
}

/// The request that Squid asks about.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lookup {
    /// The URL; of a CONNECT, `host:port`.
    pub(super) url: Vec<u8>,
    /// The crawler's User-Agent, if it sent one.
    pub(super) agent: Option<Vec<u8>>,
}

/// The answer to Squid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The request may go out.
    Allowed(DecisionFacts),
    /// The request may not go out, or not now.
    Refused(DecisionFacts),
    /// There is no decision, for this reason.
    Undecided(String),
}

/// The facts of a decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct DecisionFacts {
    /// The reason's code.
    pub(super) reason: String,
    /// The decision's identifier.
    pub(super) id: String,
    /// The message for the crawler.
    pub(super) message: String,
}

/// An answer to a line.
#[derive(Debug)]
pub(super) struct Answer {
    /// The line's channel.
    pub(super) channel: Option<Box<str>>,
    /// The outcome.
    pub(super) outcome: Outcome,
}

impl Line {
    /// Reads a line, with or without its line end.
    pub(super) fn read(line: &[u8], channels: Channels) -> Line {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let mut words = Words(line.strip_suffix(b"\r").unwrap_or(line));
        let channel = match channels {
            Channels::None => None,
            Channels::Numbered => match words.next().as_deref().and_then(number) {
                Some(channel) => Some(channel),
                None => {
                    return Line {
                        channel: None,
                        lookup: Err(Outcome::Undecided(
                            "the line begins with no channel: external_acl_type needs concurrency=, or this helper --concurrency 0"
                                .to_owned(),
                        )),
                    };
                }
            },
        };
        let (url, agent) = (words.next(), words.next());
        let is_said = |word: &Vec<u8>| !word.is_empty() && word != b"-";
        let lookup = match (url.filter(is_said), agent) {
            (Some(url), Some(agent)) if !is_percent_encoded(&agent) => Ok(Lookup {
                url,
                agent: Some(agent).filter(is_said),
            }),
            // A truncated line has no agent, and its URL may be cut.
            _ => Err(Outcome::Undecided(
                "the line does not hold a URL and a User-Agent: external_acl_type needs %/>ru %/{User-Agent}>h; a User-Agent with \
                 %20 and without a space looks as if Squid had encoded it, and is refused"
                    .to_owned(),
            )),
        };
        Line { channel, lookup }
    }
}

impl Lookup {
    /// Tells whether the request is for a tunnel: Squid names a CONNECT by its authority.
    pub(super) fn is_tunnel(&self) -> bool {
        memchr::memmem::find(&self.url, b"://").is_none()
    }
}

impl Answer {
    /// Appends the answer's line.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut line = String::new();
        if let Some(channel) = &self.channel {
            line.push_str(channel);
            line.push(' ');
        }
        // Writing to a `String` does not fail.
        let _ = match &self.outcome {
            Outcome::Allowed(facts) => {
                write!(line, "OK tag={} log={}", quoted(&facts.reason), quoted(&facts.id))
            }
            Outcome::Refused(facts) => write!(
                line,
                "ERR message={} tag={} log={}",
                quoted(&facts.message),
                quoted(&facts.reason),
                quoted(&facts.id)
            ),
            Outcome::Undecided(why) => write!(line, "BH message={}", quoted(why)),
        };
        line.push('\n');
        out.extend_from_slice(line.as_bytes());
    }
}

/// Writes a value as Squid reads it: in quotes, with `\` before quotes and backslashes, on one line.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        if quoted.len() > LONGEST_MESSAGE {
            quoted.push('…');
            break;
        }
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            control if control.is_control() => quoted.push(' '),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

fn number(word: &[u8]) -> Option<Box<str>> {
    let digits = std::str::from_utf8(word).ok()?;
    let is_number = (1..=CHANNEL_DIGITS).contains(&digits.len())
        && digits.bytes().all(|octet| octet.is_ascii_digit());
    is_number.then(|| digits.into())
}

/// Tells whether Squid wrote a text without `%/`, which encodes spaces. A text without any space looks the same in both
/// forms.
fn is_percent_encoded(agent: &[u8]) -> bool {
    !agent.contains(&b' ') && memchr::memmem::find(agent, b"%20").is_some()
}

/// The words of a line: a word with a space is in quotes, and `\` stands before quotes and itself.
struct Words<'l>(&'l [u8]);

impl Iterator for Words<'_> {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let start = self.0.iter().position(|octet| *octet != b' ')?;
        let text = self.0.get(start..).unwrap_or_default();
        let (is_quoted, text) = match text.split_first() {
            Some((b'"', inside)) => (true, inside),
            _ => (false, text),
        };
        let mut word = Vec::new();
        let mut octets = text.iter();
        let ended = loop {
            match octets.next() {
                Some(b'\\') => match octets.next() {
                    Some(b'n') => word.push(b'\n'),
                    Some(b'r') => word.push(b'\r'),
                    Some(other) => word.push(*other),
                    None => break false,
                },
                Some(b'"') if is_quoted => break true,
                Some(b' ') if !is_quoted => break true,
                Some(other) => word.push(*other),
                None => break !is_quoted,
            }
        };
        self.0 = octets.as_slice();
        // Half a word does not count.
        ended.then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str, channels: Channels) -> String {
        let Line { channel, lookup } = Line::read(line.as_bytes(), channels);
        let channel = channel.as_deref().unwrap_or("-");
        match lookup {
            Ok(lookup) => format!(
                "{channel}: {}{} as {}",
                if lookup.is_tunnel() { "through " } else { "" },
                lookup.url.escape_ascii(),
                lookup
                    .agent
                    .map_or("no agent".to_owned(), |agent| agent.escape_ascii().to_string()),
            ),
            Err(Outcome::Undecided(why)) => {
                format!("{channel}: {}", why.split(':').next().unwrap_or_default())
            }
            Err(other) => format!("{other:?}"),
        }
    }

    #[test]
    fn a_line_is_a_channel_a_url_and_a_user_agent() {
        use Channels::{None, Numbered};
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("as Squid writes it", "0 http://a.test/x \"FooBot/1.0 (x)\" -\n", Numbered, "0: http://a.test/x as FooBot/1.0 (x)"),
            ("an agent without a space", "0 http://a.test/x FooBot/1.0 -\n", Numbered, "0: http://a.test/x as FooBot/1.0"),
            ("a percent sign is one", "12 http://a.test/%70 A%70\n", Numbered, "12: http://a.test/%70 as A%70"),
            ("without a User-Agent", "3 http://a.test/ - -\n", Numbered, "3: http://a.test/ as no agent"),
            ("a tunnel", "3 a.test:443 A -\n", Numbered, "3: through a.test:443 as A"),
            ("escaped quotes and backslashes", "3 http://a.test/\\\"\\\\ \"A \\\"b\\\\\" -\n", Numbered, "3: http://a.test/\\\"\\\\ as A \\\"b\\\\"),
            ("a tab ends no word", "3 http://a.test/ A\tb -\n", Numbered, "3: http://a.test/ as A\\tb"),
            ("without channels", "http://a.test/ A -\n", None, "-: http://a.test/ as A"),
            ("without a line end", "1 http://a.test/ A", Numbered, "1: http://a.test/ as A"),
            ("a channel that is none", "http://a.test/ A -\n", Numbered, "-: the line begins with no channel"),
            ("no agent at all", "1 http://a.test/\n", Numbered, "1: the line does not hold a URL and a User-Agent"),
            ("no URL", "1 - A\n", Numbered, "1: the line does not hold a URL and a User-Agent"),
            ("nothing", "\n", None, "-: the line does not hold a URL and a User-Agent"),
            ("quotes without end", "1 http://a.test/ \"A b\n", Numbered, "1: the line does not hold a URL and a User-Agent"),
            ("a backslash without end", "1 http://a.test/ A\\\n", Numbered, "1: the line does not hold a URL and a User-Agent"),
            ("encoded, so that the octets are not known", "1 http://a.test/ A%20b -\n", Numbered, "1: the line does not hold a URL and a User-Agent"),
        ];
        for (name, line, channels, expected) in cases {
            assert_eq!(read(line, channels), expected, "{name}");
        }
    }

    #[test]
    fn an_answer_is_one_line_whatever_it_says() {
        let facts = DecisionFacts {
            reason: "robots_disallow".to_owned(),
            id: "01J".to_owned(),
            message: "no \"way\" \\ here\n99 OK".to_owned(),
        };
        #[rustfmt::skip] // one row, one case
        let cases = [
            (Outcome::Allowed(facts.clone()), "5 OK tag=\"robots_disallow\" log=\"01J\"\n"),
            (Outcome::Refused(facts), "5 ERR message=\"no \\\"way\\\" \\\\ here 99 OK\" tag=\"robots_disallow\" log=\"01J\"\n"),
            (Outcome::Undecided("away".to_owned()), "5 BH message=\"away\"\n"),
        ];
        for (outcome, expected) in cases {
            let mut out = Vec::new();
            let channel = Some("5".into());
            Answer { channel, outcome }.write(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
