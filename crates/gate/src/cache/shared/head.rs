//! The octets of a state in the engine: a head, which is the state and the fetch behind it, and the text of its file. They
//! lie in one value, packed together: a second value costs the engine as much as a whole head.
//!
//! Pure. Moments are those of the instance that wrote them, beside the engine's time at that moment, so that an instance
//! with another clock reads them as moments by its own clock.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::settings::Settings;
use super::packed::{pack, unpack};
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::identity::Identity;
use crawlgate_origins::state::{Fresh, Outage};
use crawlgate_store::{Fetch, OtherAnswer, SnapshotMeta, StoredState};
use crawlgate_system::clock::Moment;
use crawlgate_text::{from_hex, hex};
use crawlgate_turns::fleet::coordinator::{EngineTime, StateKey};

/// The version of the form. A head with another version is not ours.
const VERSION: u32 = 3;

/// The most octets of a head: the longest URLs and fields leave it far below.
const LONGEST: usize = 1024 * 1024;

/// Differences between two clocks below this are those of the network.
const ALIKE: u64 = 1_000;

/// A state with the fetch behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) stored: StoredState,
    pub(super) fetch: Option<Fetch>,
    pub(super) user_agent: String,
}

/// The form in which a state lies in the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    version: u32,
    /// The identity with its document: the place of a state names it only by a digest.
    identity: String,
    /// The engine's time when it was written, in microseconds.
    at: u64,
    /// The same moment on the machine that wrote it, in milliseconds.
    local: u64,
    /// None: the origin was forgotten.
    content: Option<Written>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Written {
    state: State,
    user_agent: String,
    fetch: Option<WrittenFetch>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Successful { copy: Copy, fresh: (u64, u64), outage: Option<WrittenOutage> },
    Unavailable { why: String, fetched: u64, fresh: (u64, u64), outage: Option<WrittenOutage> },
    Unreachable { outage: WrittenOutage, last_good: Option<Copy> },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Copy {
    sha256: String,
    fetched: u64,
    status: u16,
    final_url: String,
    bytes: u64,
    truncated: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WrittenOutage {
    cause: String,
    since: u64,
    last_failure: Option<u64>,
    last_attempt: u64,
    attempts: u32,
    next_attempt: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WrittenFetch {
    identity: String,
    user_agent: String,
    other: Option<(String, String)>,
    time: u64,
    millis: u64,
    result: String,
    cause: Option<String>,
    status: Option<u16>,
    hops: Vec<String>,
    sha256: Option<String>,
    fields: Vec<(String, String)>,
}

/// Names the settings that a file is read by, and the name under which it is fetched: instances that differ there share
/// no state.
pub(super) fn reading(settings: &Settings, identity: &Identity) -> String {
    let config = &settings.ours.config;
    let text = format!(
        "{VERSION} {} {} {} {} {:?} {:?} {:?}",
        config.size_limit,
        config.max_redirects,
        config.lenient,
        config.soft_404,
        config.soft_404_phrases,
        config.deny_statuses,
        // A product token that comes from the store has lost its upper-case letters.
        settings.user_agents.for_identity(identity).to_ascii_lowercase(),
    );
    digest(text.as_bytes())
}

/// Returns the first half of the SHA-256 of some octets. A crawler chooses its product token, so a shorter one would let
/// it find two with the same place.
pub(super) fn digest(octets: &[u8]) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, octets);
    hex(digest.as_ref().get(..16).unwrap_or_default())
}

/// Names what a seal holds for: a state at its place, under its token.
pub(super) fn place<'a>(key: &'a StateKey, token: &'a [u8]) -> [&'a [u8]; 4] {
    [b"state", key.origin.as_bytes(), key.variant.as_bytes(), token]
}

impl Head {
    /// Returns the head of a state, written at this moment of the engine and of this machine.
    pub(super) fn of(
        at: EngineTime,
        local: Moment,
        identity: &Identity,
        content: &Content,
    ) -> Head {
        Head {
            version: VERSION,
            identity: identity.to_string(),
            at: at.0,
            local: local.as_millis(),
            content: Some(Written {
                state: State::of(&content.stored),
                user_agent: content.user_agent.clone(),
                fetch: content.fetch.as_ref().map(WrittenFetch::of),
            }),
        }
    }

    /// Returns the head of an origin that was forgotten.
    pub(super) fn forgotten(identity: &Identity) -> Head {
        Head { version: VERSION, identity: identity.to_string(), at: 0, local: 0, content: None }
    }

    /// Returns it as octets, with the text of its file.
    pub(super) fn to_octets(&self, text: Option<&[u8]>) -> Vec<u8> {
        // Texts, numbers and lists are always written, in one line.
        let mut octets = serde_json::to_vec(self).unwrap_or_default();
        if let Some(text) = text {
            octets.push(b'\n');
            octets.extend_from_slice(text);
        }
        pack(&octets)
    }

    /// Reads the octets of [`Head::to_octets`], with a text of at most so many octets; `None` for another version, and
    /// for the state of another identity or document.
    pub(super) fn read(
        octets: &[u8],
        identity: &Identity,
        most: usize,
    ) -> Option<(Head, Option<Vec<u8>>)> {
        let mut octets = unpack(octets, LONGEST.saturating_add(most))?;
        let end = memchr::memchr(b'\n', &octets);
        let text = end.map(|end| octets.split_off(end).split_off(1));
        if octets.len() > LONGEST || text.as_ref().is_some_and(|text| text.len() > most) {
            return None;
        }
        let head: Head = serde_json::from_slice(&octets).ok()?;
        let is_its = head.version == VERSION && head.identity == identity.to_string();
        is_its.then_some((head, text))
    }

    /// Returns its content with moments by this machine's clock, which shows `now` when the engine's shows `at`. `None` if
    /// the origin was forgotten, or a word is not ours.
    pub(super) fn content(self, at: EngineTime, now: Moment) -> Option<Content> {
        let age = Duration::from_micros(at.0.saturating_sub(self.at));
        let clock = Shift::between(Moment::from_millis(self.local), now - age);
        let content = self.content?;
        Some(Content {
            stored: content.state.read(clock)?,
            fetch: match content.fetch {
                Some(fetch) => Some(fetch.read(clock)?),
                None => None,
            },
            user_agent: content.user_agent,
        })
    }
}

/// The difference between the clocks of two machines.
#[derive(Debug, Clone, Copy)]
struct Shift {
    theirs: Moment,
    ours: Moment,
}

impl Shift {
    fn between(theirs: Moment, ours: Moment) -> Shift {
        let apart = theirs.as_millis().abs_diff(ours.as_millis());
        match apart < ALIKE {
            true => Shift { theirs: ours, ours },
            false => Shift { theirs, ours },
        }
    }

    fn moment(self, millis: u64) -> Moment {
        let moment = Moment::from_millis(millis);
        match self.ours >= self.theirs {
            true => moment + self.ours.since(self.theirs),
            false => moment - self.theirs.since(self.ours),
        }
    }
}

impl State {
    fn of(stored: &StoredState) -> State {
        let fresh = |fresh: &Fresh| (fresh.refresh_from.as_millis(), fresh.until.as_millis());
        match stored {
            StoredState::Successful { copy, fresh: life, outage } => State::Successful {
                copy: Copy::of(copy),
                fresh: fresh(life),
                outage: outage.as_ref().map(WrittenOutage::of),
            },
            StoredState::Unavailable { why, fetched, fresh: life, outage } => State::Unavailable {
                why: why.code(),
                fetched: fetched.as_millis(),
                fresh: fresh(life),
                outage: outage.as_ref().map(WrittenOutage::of),
            },
            StoredState::Unreachable { outage, last_good } => State::Unreachable {
                outage: WrittenOutage::of(outage),
                last_good: last_good.as_ref().map(Copy::of),
            },
        }
    }

    fn read(self, clock: Shift) -> Option<StoredState> {
        let fresh = |(refresh_from, until)| Fresh {
            refresh_from: clock.moment(refresh_from),
            until: clock.moment(until),
        };
        let outage = |outage: Option<WrittenOutage>| match outage {
            Some(outage) => outage.read(clock).map(Some),
            None => Some(None),
        };
        Some(match self {
            State::Successful { copy, fresh: life, outage: failures } => StoredState::Successful {
                copy: copy.read(clock)?,
                fresh: fresh(life),
                outage: outage(failures)?,
            },
            State::Unavailable { why, fetched, fresh: life, outage: failures } => {
                StoredState::Unavailable {
                    why: Absence::from_code(&why)?,
                    fetched: clock.moment(fetched),
                    fresh: fresh(life),
                    outage: outage(failures)?,
                }
            }
            State::Unreachable { outage: failures, last_good } => StoredState::Unreachable {
                outage: failures.read(clock)?,
                last_good: match last_good {
                    Some(copy) => Some(copy.read(clock)?),
                    None => None,
                },
            },
        })
    }
}

impl Copy {
    fn of(copy: &SnapshotMeta) -> Copy {
        Copy {
            sha256: hex(copy.sha256),
            fetched: copy.fetched.as_millis(),
            status: copy.status,
            final_url: copy.final_url.clone(),
            bytes: copy.bytes,
            truncated: copy.truncated,
        }
    }

    fn read(self, clock: Shift) -> Option<SnapshotMeta> {
        Some(SnapshotMeta {
            sha256: from_hex(&self.sha256)?,
            fetched: clock.moment(self.fetched),
            status: self.status,
            final_url: self.final_url,
            bytes: self.bytes,
            truncated: self.truncated,
        })
    }
}

impl WrittenOutage {
    fn of(outage: &Outage) -> WrittenOutage {
        WrittenOutage {
            cause: outage.cause.code(),
            since: outage.since.as_millis(),
            last_failure: outage.last_failure.map(Moment::as_millis),
            last_attempt: outage.last_attempt.as_millis(),
            attempts: outage.attempts,
            next_attempt: outage.next_attempt.as_millis(),
        }
    }

    fn read(self, clock: Shift) -> Option<Outage> {
        Some(Outage {
            cause: Cause::from_code(&self.cause)?,
            since: clock.moment(self.since),
            last_failure: self.last_failure.map(|failure| clock.moment(failure)),
            last_attempt: clock.moment(self.last_attempt),
            attempts: self.attempts,
            next_attempt: clock.moment(self.next_attempt),
        })
    }
}

impl WrittenFetch {
    fn of(fetch: &Fetch) -> WrittenFetch {
        let other = fetch.other.as_ref();
        WrittenFetch {
            identity: fetch.identity.to_string(),
            user_agent: fetch.user_agent.clone(),
            other: other.map(|other| (other.user_agent.clone(), other.code.clone())),
            time: fetch.time.as_millis(),
            millis: u64::try_from(fetch.duration.as_millis()).unwrap_or(u64::MAX),
            result: fetch.result.clone(),
            cause: fetch.cause.clone(),
            status: fetch.status,
            hops: fetch.hops.clone(),
            sha256: fetch.sha256.map(hex),
            fields: fetch.fields.clone(),
        }
    }

    fn read(self, clock: Shift) -> Option<Fetch> {
        let other = |(user_agent, code)| OtherAnswer { user_agent, code };
        Some(Fetch {
            identity: Identity::parse(&self.identity)?,
            user_agent: self.user_agent,
            other: self.other.map(other),
            time: clock.moment(self.time),
            duration: Duration::from_millis(self.millis),
            result: self.result,
            cause: self.cause,
            status: self.status,
            hops: self.hops,
            sha256: match self.sha256 {
                Some(sha256) => Some(from_hex(&sha256)?),
                None => None,
            },
            fields: self.fields,
        })
    }
}

#[cfg(test)]
mod tests;
