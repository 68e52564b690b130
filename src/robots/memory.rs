//! A state at rest, and back: what the store keeps of an origin ([`Remembered`]) and the [`State`] that requests meet.
//!
//! Pure conversions. At rest the file is named by its digest; waking up means to read its text again, with the options
//! in force now. What comes back is the file that was kept or nothing: a text that is missing, or is not the one
//! that its digest names, is a damaged store and never an empty robots.txt.

use std::fmt;
use std::sync::Arc;

use super::snapshot::Snapshot;
use super::state::State;
use crate::rep::{ParseOptions, Robots};
use crate::store::{CopyOf, Remembered, Sha256};

/// What is kept of a state; nothing of an origin that was never fetched.
#[must_use]
pub fn at_rest(state: &State) -> Option<Remembered> {
    Some(match state {
        State::NeverFetched => return None,
        State::Successful {
            snapshot,
            fresh,
            outage,
        } => Remembered::Successful {
            copy: copy_of(snapshot),
            fresh: *fresh,
            outage: *outage,
        },
        State::Unavailable {
            why,
            fetched,
            fresh,
            outage,
        } => Remembered::Unavailable {
            why: *why,
            fetched: *fetched,
            fresh: *fresh,
            outage: *outage,
        },
        State::Unreachable { outage, last_good } => Remembered::Unreachable {
            outage: *outage,
            last_good: last_good.as_deref().map(copy_of),
        },
    })
}

/// A snapshot without its text.
#[must_use]
pub fn copy_of(snapshot: &Snapshot) -> CopyOf {
    CopyOf {
        sha256: snapshot.sha256,
        fetched: snapshot.fetched,
        status: snapshot.status,
        final_url: snapshot.final_url.clone().into(),
        bytes: snapshot.robots.text().len() as u64,
        truncated: snapshot.robots.is_truncated(),
    }
}

impl Remembered {
    /// The file that this state holds, whose text [`awake`] needs.
    #[must_use]
    pub fn copy(&self) -> Option<&CopyOf> {
        match self {
            Self::Successful { copy, .. } => Some(copy),
            Self::Unavailable { .. } => None,
            Self::Unreachable { last_good, .. } => last_good.as_ref(),
        }
    }
}

/// The state that was put to rest. `text` is what the store has under the digest of [`Remembered::copy`]; `options`
/// say how it is read, but for the limit: what counted once counts still.
///
/// # Errors
/// When the text of its file is missing, or is another one.
pub fn awake(
    remembered: &Remembered,
    text: Option<&[u8]>,
    options: ParseOptions,
) -> Result<State, BrokenCopy> {
    let read = |copy: &CopyOf| snapshot(copy, text, options).map(Arc::new);
    Ok(match remembered {
        Remembered::Successful {
            copy,
            fresh,
            outage,
        } => State::Successful {
            snapshot: read(copy)?,
            fresh: *fresh,
            outage: *outage,
        },
        Remembered::Unavailable {
            why,
            fetched,
            fresh,
            outage,
        } => State::Unavailable {
            why: *why,
            fetched: *fetched,
            fresh: *fresh,
            outage: *outage,
        },
        Remembered::Unreachable { outage, last_good } => State::Unreachable {
            outage: *outage,
            last_good: last_good.as_ref().map(read).transpose()?,
        },
    })
}

/// A snapshot from its copy and its text.
///
/// # Errors
/// When the text is missing, or is another one.
pub fn snapshot(
    copy: &CopyOf,
    text: Option<&[u8]>,
    options: ParseOptions,
) -> Result<Snapshot, BrokenCopy> {
    let text = text.ok_or(BrokenCopy::Missing(copy.sha256))?;
    let options = ParseOptions {
        limit: text.len(),
        ..options
    };
    let robots = if copy.truncated {
        // One octet more, as when it was fetched: there was more than counts.
        Robots::parse(&[text, b"\n"].concat(), options)
    } else {
        Robots::parse(text, options)
    };
    let snapshot = Snapshot::new(robots, copy.fetched, copy.status, &copy.final_url);
    if snapshot.sha256 == copy.sha256 {
        Ok(snapshot)
    } else {
        Err(BrokenCopy::Altered {
            kept: snapshot.sha256,
            named: copy.sha256,
        })
    }
}

/// The store does not have the robots.txt that a state of it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokenCopy {
    /// There is none of this digest.
    Missing(Sha256),
    /// It is another one.
    Altered {
        /// Digest of the text that is there.
        kept: Sha256,
        /// Digest that it is kept under.
        named: Sha256,
    },
}

impl fmt::Display for BrokenCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(named) => {
                write!(f, "the robots.txt {} is not in the store", hex(named))
            }
            Self::Altered { kept, named } => write!(
                f,
                "the robots.txt {} was altered in the store: it is {} now",
                hex(named),
                hex(kept)
            ),
        }
    }
}

impl std::error::Error for BrokenCopy {}

/// A digest as people and `sha256sum` write it.
#[must_use]
pub fn hex(digest: &Sha256) -> String {
    digest.iter().map(|octet| format!("{octet:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Moment;
    use crate::robots::access::{Absence, Cause};
    use crate::robots::state::{Fresh, Outage};

    const THEN: Moment = Moment::from_millis(1_790_000_000_000);
    const TEXT: &[u8] = b"User-agent: *\nDisallow: /a\nDisallow: /b\n";

    fn fetched(text: &[u8], limit: usize) -> Arc<Snapshot> {
        let options = ParseOptions {
            limit,
            ..ParseOptions::default()
        };
        let robots = Robots::parse(text, options);
        Snapshot::new(robots, THEN, 203, "http://b.example/r").into()
    }

    fn fresh() -> Fresh {
        Fresh {
            refresh_from: THEN + Duration::from_secs(1),
            until: THEN + Duration::from_secs(2),
        }
    }

    fn outage() -> Outage {
        Outage {
            cause: Cause::Status(503),
            since: THEN + Duration::from_secs(3),
            attempts: 4,
            next_attempt: THEN + Duration::from_secs(5),
        }
    }

    #[test]
    fn what_wakes_up_is_what_was_put_to_rest() {
        let limit = ParseOptions::default().limit;
        let snapshot = fetched(TEXT, limit);
        let cases = [
            (
                "a file",
                State::Successful {
                    snapshot: Arc::clone(&snapshot),
                    fresh: fresh(),
                    outage: None,
                },
            ),
            (
                "a file with a failed refresh",
                State::Successful {
                    snapshot: Arc::clone(&snapshot),
                    fresh: fresh(),
                    outage: Some(outage()),
                },
            ),
            (
                "a file longer than the limit",
                State::Successful {
                    snapshot: fetched(TEXT, TEXT.len() - 3),
                    fresh: fresh(),
                    outage: None,
                },
            ),
            (
                "a file cut right before the end of a line",
                State::Successful {
                    snapshot: fetched(TEXT, TEXT.len() - 1),
                    fresh: fresh(),
                    outage: None,
                },
            ),
            (
                "an empty file",
                State::Successful {
                    snapshot: fetched(b"", limit),
                    fresh: fresh(),
                    outage: None,
                },
            ),
            (
                "one line longer than the limit",
                State::Successful {
                    snapshot: fetched(TEXT, 3),
                    fresh: fresh(),
                    outage: None,
                },
            ),
            (
                "no file",
                State::Unavailable {
                    why: Absence::NotFoundBehind(500),
                    fetched: THEN,
                    fresh: fresh(),
                    outage: Some(outage()),
                },
            ),
            (
                "an outage with a last good copy",
                State::Unreachable {
                    outage: outage(),
                    last_good: Some(snapshot),
                },
            ),
            (
                "an outage from the start",
                State::Unreachable {
                    outage: outage(),
                    last_good: None,
                },
            ),
        ];
        for (name, state) in cases {
            let remembered = at_rest(&state).expect(name);
            let text = state.snapshot().map(|snapshot| snapshot.robots.text());
            // A smaller limit of today cuts nothing that counted.
            let options = ParseOptions {
                lenient: true,
                limit: 1,
            };
            let back = awake(&remembered, text, options).expect(name);
            assert_eq!(at_rest(&back), Some(remembered), "{name}");
            assert_eq!(format!("{back:?}"), format!("{state:?}"), "{name}");
        }
        assert_eq!(at_rest(&State::NeverFetched), None);
    }

    #[test]
    fn a_file_that_is_gone_or_altered_is_no_file() {
        let copy = copy_of(&fetched(TEXT, 512_000));
        for (name, text) in [
            ("gone", None),
            ("emptied", Some(&b""[..])),
            ("cut", TEXT.get(..TEXT.len() - 1)),
            (
                "altered",
                Some(b"User-agent: *\nDisallow: /a\nDisallow: /c\n"),
            ),
        ] {
            for state in [
                Remembered::Successful {
                    copy: copy.clone(),
                    fresh: fresh(),
                    outage: None,
                },
                Remembered::Unreachable {
                    outage: outage(),
                    last_good: Some(copy.clone()),
                },
            ] {
                let broken = awake(&state, text, ParseOptions::default()).unwrap_err();
                let named = hex(&copy.sha256);
                assert!(broken.to_string().contains(&named), "{name}: {broken}");
            }
        }
    }
}
