//! Converts between the state in the store ([`StoredState`]) and the [`State`] that requests meet.
//!
//! Pure conversions. The stored state names its file by digest; loading it parses the text again, with the options in
//! force now. Either the stored file comes back or nothing does: a missing text, or one with another digest, means a
//! damaged store and never an empty robots.txt.

use std::sync::Arc;

use super::{Fetch, Sha256, SnapshotMeta, StoredState};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::State;
use crawlgate_text::hex;

/// Returns the stored form of a state; `None` for an origin that was never fetched.
#[must_use]
pub fn to_stored(state: &State) -> Option<StoredState> {
    Some(match state {
        State::NeverFetched => return None,
        State::Successful { snapshot, fresh, outage } => StoredState::Successful {
            copy: copy_of(snapshot),
            fresh: *fresh,
            outage: outage.clone(),
        },
        State::Unavailable { why, fetched, fresh, outage } => StoredState::Unavailable {
            why: *why,
            fetched: *fetched,
            fresh: *fresh,
            outage: outage.clone(),
        },
        State::Unreachable { outage, last_good } => StoredState::Unreachable {
            outage: outage.clone(),
            last_good: last_good.as_deref().map(copy_of),
        },
    })
}

/// Returns a snapshot's metadata, without its text.
#[must_use]
pub fn copy_of(snapshot: &Snapshot) -> SnapshotMeta {
    SnapshotMeta {
        sha256: snapshot.sha256,
        fetched: snapshot.fetched,
        status: snapshot.status,
        final_url: snapshot.final_url.clone().into(),
        bytes: snapshot.robots.text().len() as u64,
        truncated: snapshot.robots.is_truncated(),
    }
}

impl StoredState {
    /// Returns the file of this state; [`from_stored`] needs its text.
    #[must_use]
    pub fn copy(&self) -> Option<&SnapshotMeta> {
        match self {
            Self::Successful { copy, .. } => Some(copy),
            Self::Unavailable { .. } => None,
            Self::Unreachable { last_good, .. } => last_good.as_ref(),
        }
    }
}

/// Restores a stored state. `text` is the store's text for the digest of [`StoredState::copy`], read leniently or not.
/// The size limit does not apply: octets that counted once still count.
///
/// # Errors
/// When the text of its file is missing, or has another digest.
pub fn from_stored(
    remembered: &StoredState,
    text: Option<&[u8]>,
    lenient: bool,
) -> Result<State, BrokenCopy> {
    let read = |copy: &SnapshotMeta| snapshot(copy, text, lenient).map(Arc::new);
    Ok(match remembered {
        StoredState::Successful { copy, fresh, outage } => {
            State::Successful { snapshot: read(copy)?, fresh: *fresh, outage: outage.clone() }
        }
        StoredState::Unavailable { why, fetched, fresh, outage } => State::Unavailable {
            why: *why,
            fetched: *fetched,
            fresh: *fresh,
            outage: outage.clone(),
        },
        StoredState::Unreachable { outage, last_good } => State::Unreachable {
            outage: outage.clone(),
            last_good: last_good.as_ref().map(read).transpose()?,
        },
    })
}

/// Builds a snapshot from its metadata and its text.
///
/// # Errors
/// When the text is missing, or has another digest.
pub fn snapshot(
    copy: &SnapshotMeta,
    text: Option<&[u8]>,
    lenient: bool,
) -> Result<Snapshot, BrokenCopy> {
    let text = text.ok_or(BrokenCopy::Missing(copy.sha256))?;
    let robots = Snapshot::reread(text, lenient, copy.truncated);
    let snapshot = Snapshot::new(robots, copy.fetched, copy.status, &copy.final_url);
    if snapshot.sha256 != copy.sha256 {
        return Err(BrokenCopy::Altered { kept: snapshot.sha256, named: copy.sha256 });
    }
    if text.len() as u64 != copy.bytes {
        return Err(BrokenCopy::Exchanged(copy.sha256));
    }
    Ok(snapshot)
}

impl StoredState {
    /// Checks that this state is the outcome of the latest informative one of `fetches` of its identity (newest first).
    /// State and fetch are written together, so a state without such a fetch was planted by another program.
    ///
    /// # Errors
    /// When it is not.
    pub fn agrees_with<'a>(
        &self,
        fetches: impl IntoIterator<Item = &'a Fetch>,
    ) -> Result<(), BrokenCopy> {
        let mut fetches = fetches.into_iter();
        let Some(latest) = fetches.find(|fetch| fetch.result != "unreachable") else {
            // Only failures, up to the number that is kept: they say nothing about a file.
            return Ok(());
        };
        match (self.copy(), latest.sha256) {
            (Some(copy), Some(fetched)) if copy.sha256 != fetched => {
                Err(BrokenCopy::Exchanged(copy.sha256))
            }
            (Some(copy), None) if latest.result == "unavailable" => {
                Err(BrokenCopy::Exchanged(copy.sha256))
            }
            (None, Some(fetched)) => Err(BrokenCopy::Exchanged(fetched)),
            _ => Ok(()),
        }
    }
}

/// The store lacks the robots.txt of one of its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BrokenCopy {
    /// No text has this digest.
    #[error("the robots.txt {} is not in the store", hex(.0))]
    Missing(Sha256),
    /// The text has another digest.
    #[error("the robots.txt {} was altered in the store: it is {} now", hex(.named), hex(.kept))]
    Altered {
        /// Digest of the stored text.
        kept: Sha256,
        /// Digest that it is stored under.
        named: Sha256,
    },
    /// The text is undamaged, but it is not the latest file of this origin.
    #[error("the robots.txt {} is not the one that was last fetched from this origin", hex(.0))]
    Exchanged(Sha256),
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crawlgate_origins::access::{Absence, Cause};
    use crawlgate_origins::identity::Identity;
    use crawlgate_origins::state::{Fresh, Outage};
    use crawlgate_robots::{ParseOptions, Robots};
    use crawlgate_system::clock::Moment;

    const THEN: Moment = Moment::from_millis(1_790_000_000_000);
    const TEXT: &[u8] = b"User-agent: *\nDisallow: /a\nDisallow: /b\n";

    fn fetched(text: &[u8], limit: usize) -> Arc<Snapshot> {
        let options = ParseOptions { limit, ..ParseOptions::default() };
        let robots = Robots::parse(text, options);
        Snapshot::new(robots, THEN, 203, "http://b.example/r").into()
    }

    fn fresh() -> Fresh {
        Fresh { refresh_from: THEN + Duration::from_secs(1), until: THEN + Duration::from_secs(2) }
    }

    fn outage() -> Outage {
        Outage {
            cause: Cause::Status(503),
            since: THEN + Duration::from_secs(3),
            last_failure: Some(THEN + Duration::from_secs(4)),
            last_attempt: THEN + Duration::from_secs(4),
            attempts: 4,
            next_attempt: THEN + Duration::from_secs(5),
        }
    }

    #[test]
    fn a_stored_state_is_restored_unchanged() {
        let limit = ParseOptions::default().limit;
        let snapshot = fetched(TEXT, limit);
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a file", State::Successful { snapshot: Arc::clone(&snapshot), fresh: fresh(), outage: None }),
            ("a file with a failed refresh", State::Successful { snapshot: Arc::clone(&snapshot), fresh: fresh(), outage: Some(outage()) }),
            ("a file longer than the limit", State::Successful { snapshot: fetched(TEXT, TEXT.len() - 3), fresh: fresh(), outage: None }),
            ("a file cut right before the end of a line", State::Successful { snapshot: fetched(TEXT, TEXT.len() - 1), fresh: fresh(), outage: None }),
            ("an empty file", State::Successful { snapshot: fetched(b"", limit), fresh: fresh(), outage: None }),
            ("one line longer than the limit", State::Successful { snapshot: fetched(TEXT, 3), fresh: fresh(), outage: None }),
            ("no file", State::Unavailable { why: Absence::NotFoundBehind(500), fetched: THEN, fresh: fresh(), outage: Some(outage()) }),
            ("an outage with a last good copy", State::Unreachable { outage: outage(), last_good: Some(snapshot) }),
            ("an outage from the start", State::Unreachable { outage: outage(), last_good: None }),
        ];
        for (name, state) in cases {
            let remembered = to_stored(&state).expect(name);
            let text = state.snapshot().map(|snapshot| snapshot.robots.text());
            let back = from_stored(&remembered, text, true).expect(name);
            assert_eq!(to_stored(&back), Some(remembered), "{name}");
            assert_eq!(format!("{back:?}"), format!("{state:?}"), "{name}");
        }
        assert_eq!(to_stored(&State::NeverFetched), None);
    }

    #[test]
    fn a_state_without_its_fetch_is_not_believed() {
        let copy = copy_of(&fetched(TEXT, 512_000));
        let row = |result: &str, sha256| Fetch {
            identity: Identity::default(),
            user_agent: "crawlgate".to_owned(),
            other: None,
            time: THEN,
            duration: Duration::ZERO,
            result: result.to_owned(),
            cause: None,
            status: None,
            hops: Vec::new(),
            sha256,
            fields: Vec::new(),
        };
        let ours = || row("successful", Some(copy.sha256));
        let other = || row("successful", Some([7; 32]));
        let (gone, down) = (|| row("unavailable", None), || row("unreachable", None));
        let held = StoredState::Successful { copy: copy.clone(), fresh: fresh(), outage: None };
        let lost = |last_good| StoredState::Unreachable { outage: outage(), last_good };
        let absent = StoredState::Unavailable {
            why: Absence::Status(404),
            fetched: THEN,
            fresh: fresh(),
            outage: None,
        };
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("the file of the latest fetch", &held, vec![ours(), other()], true),
            ("failures since", &lost(Some(copy.clone())), vec![down(), down(), ours()], true),
            ("failures, more than are kept", &held, vec![down(), down()], true),
            ("no fetch is kept", &held, vec![], true),
            ("the file of an earlier fetch", &held, vec![other(), ours()], false),
            ("another file, failures since", &lost(Some(copy.clone())), vec![down(), other()], false),
            ("a file, and there was none", &held, vec![gone(), ours()], false),
            ("no file, and there was none", &absent, vec![down(), gone(), ours()], true),
            ("no file, and there was one", &absent, vec![down(), ours()], false),
            ("never a file", &lost(None), vec![down(), gone()], true),
            ("a last good file that was taken out", &lost(None), vec![down(), ours()], false),
        ];
        for (name, state, fetches, agrees) in cases {
            assert_eq!(state.agrees_with(&fetches).is_ok(), agrees, "{name}");
        }
        let exchanged = SnapshotMeta { bytes: copy.bytes + 1, ..copy.clone() };
        let broken = snapshot(&exchanged, Some(TEXT), true).map(drop);
        assert_eq!(broken, Err(BrokenCopy::Exchanged(copy.sha256)));
    }

    #[test]
    fn a_missing_or_altered_file_is_an_error() {
        let copy = copy_of(&fetched(TEXT, 512_000));
        for (name, text) in [
            ("gone", None),
            ("emptied", Some(&b""[..])),
            ("cut", TEXT.get(..TEXT.len() - 1)),
            ("altered", Some(b"User-agent: *\nDisallow: /a\nDisallow: /c\n")),
        ] {
            for state in [
                StoredState::Successful { copy: copy.clone(), fresh: fresh(), outage: None },
                StoredState::Unreachable { outage: outage(), last_good: Some(copy.clone()) },
            ] {
                let broken = from_stored(&state, text, true).unwrap_err();
                let named = hex(copy.sha256);
                assert!(broken.to_string().contains(&named), "{name}: {broken}");
            }
        }
    }
}
