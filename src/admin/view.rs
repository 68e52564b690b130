//! What is kept, as programs are told of it: the shapes of JSON that the API and the commands share.

use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::audit::time_text;
use crate::clock::Moment;
use crate::policy::overrides::{Override, OverrideId};
use crate::robots::memory::hex;
use crate::robots::words::lives;
use crate::store::{self, CopyOf, OriginMemory, Remembered, Removed, StoredDecision};

/// A decision as it is kept.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Decision {
    /// Its place in the order of writing, from 1.
    #[schema(minimum = 1)]
    pub seq: u64,
    /// Its link in the chain, SHA-256 in hexadecimal.
    pub hash: String,
    /// Who has seen it.
    pub acknowledged: Option<Acknowledgement>,
    /// The record, as the log has it.
    #[schema(value_type = Object)]
    pub record: Value,
}

/// A person has seen a decision.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Acknowledgement {
    /// When, RFC 3339.
    pub time: String,
    /// Who.
    pub by: String,
    /// What there is to say of it.
    pub note: String,
}

impl Decision {
    /// Of a decision of the store.
    pub fn of(kept: &StoredDecision) -> Decision {
        Decision {
            seq: kept.seq,
            hash: hex(&kept.hash),
            acknowledged: kept.acknowledged.as_ref().map(|seen| Acknowledgement {
                time: time_text(seen.time),
                by: seen.by.clone(),
                note: seen.note.clone(),
            }),
            // What somebody has altered need not be JSON any more, and is told all the same.
            record: serde_json::from_str(&kept.record)
                .unwrap_or_else(|_| Value::String(kept.record.clone())),
        }
    }
}

/// Decisions counted.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Tally {
    /// What they have in common: the reason, the origin, or the origin and the rule.
    pub key: Vec<String>,
    /// How many.
    pub count: u64,
    /// The time of the first, RFC 3339.
    pub first: String,
    /// The time of the last, RFC 3339.
    pub last: String,
}

impl Tally {
    /// Of a tally of the store.
    pub fn of(tally: store::Tally) -> Tally {
        Tally {
            key: tally.key,
            count: tally.count,
            first: time_text(tally.first),
            last: time_text(tally.last),
        }
    }
}

/// What is known of an origin.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OriginEntry {
    /// The origin: `https://example.com`.
    pub origin: String,
    /// For which identity this is known: a product token in lower case, with `@` and a client's name where a client
    /// answers for it, or `*`.
    pub identity: String,
    /// The User-Agent of the fetch that this rests on.
    pub user_agent: String,
    /// `successful`, `unavailable` or `unreachable`.
    pub state: &'static str,
    /// When this was written, RFC 3339.
    pub updated: String,
    /// The file that is held.
    pub robots: Option<CopyEntry>,
    /// Why it counts as having none.
    pub why: Option<String>,
    /// When that was learnt.
    pub fetched: Option<String>,
    /// From when on it is fetched anew where it is in use.
    pub refresh_from: Option<String>,
    /// Until when it holds.
    pub fresh_until: Option<String>,
    /// What has failed since.
    pub outage: Option<OutageEntry>,
}

/// A robots.txt that is held.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct CopyEntry {
    /// SHA-256 of the text that counts, in hexadecimal.
    pub sha256: String,
    /// When it was fetched, RFC 3339.
    pub fetched: String,
    /// Status of the final answer.
    pub status: u16,
    /// Where it came from, after redirects.
    pub url: String,
    /// Octets of the text that counts.
    pub bytes: u64,
    /// Whether there was more than the size limit.
    pub truncated: bool,
}

/// Fetches that have failed.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OutageEntry {
    /// The first failure, RFC 3339.
    pub since: String,
    /// The last failure that is the origin's, RFC 3339; none where the gate reached no origin at all each time.
    pub last_failure: Option<String>,
    /// The last failure, RFC 3339.
    pub last_attempt: String,
    /// The last one's cause.
    pub cause: String,
    /// How many there were.
    pub attempts: u32,
    /// When it is tried again, RFC 3339.
    pub next_attempt: String,
}

impl OriginEntry {
    /// Of what the store has.
    pub fn of(found: &OriginMemory) -> OriginEntry {
        let state = &found.state;
        let (fresh, outage) = lives(state);
        let (why, fetched) = match state {
            Remembered::Successful { copy, .. } => (None, Some(time_text(copy.fetched))),
            Remembered::Unavailable { why, fetched, .. } => {
                (Some(why.code()), Some(time_text(*fetched)))
            }
            Remembered::Unreachable { .. } => (None, None),
        };
        OriginEntry {
            origin: found.origin.to_string(),
            identity: found.identity.to_string(),
            user_agent: found.user_agent.clone(),
            state: state.name(),
            updated: time_text(found.updated),
            robots: state.copy().map(CopyEntry::of),
            why,
            fetched,
            refresh_from: fresh.map(|fresh| time_text(fresh.refresh_from)),
            fresh_until: fresh.map(|fresh| time_text(fresh.until)),
            outage: outage.map(|outage| OutageEntry {
                since: time_text(outage.since),
                last_failure: outage.last_failure.map(time_text),
                last_attempt: time_text(outage.last_attempt),
                cause: outage.cause.code(),
                attempts: outage.attempts,
                next_attempt: time_text(outage.next_attempt),
            }),
        }
    }
}

impl CopyEntry {
    fn of(copy: &CopyOf) -> CopyEntry {
        CopyEntry {
            sha256: hex(&copy.sha256),
            fetched: time_text(copy.fetched),
            status: copy.status,
            url: copy.final_url.clone(),
            bytes: copy.bytes,
            truncated: copy.truncated,
        }
    }
}

/// The answer to another User-Agent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OtherAnswerEntry {
    /// The User-Agent.
    pub user_agent: String,
    /// What it was answered, as a code: `status_403`.
    pub answer: String,
}

/// One fetch of a robots.txt.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct FetchEntry {
    /// For which identity: a product token, or `*`.
    pub identity: String,
    /// The User-Agent of the answer that counts.
    pub user_agent: String,
    /// The answer to another User-Agent that was held against it, where one was.
    pub other: Option<OtherAnswerEntry>,
    /// When it ended, RFC 3339.
    pub time: String,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What it meant: `successful`, `unavailable` or `unreachable`.
    pub result: String,
    /// Why, where it was not successful.
    pub cause: Option<String>,
    /// The final answer's status; none where there was no answer.
    pub status: Option<u16>,
    /// The URLs that were asked, first to last.
    pub hops: Vec<String>,
    /// SHA-256 of the body, in hexadecimal, where it was read.
    pub sha256: Option<String>,
    /// Fields of the final answer that matter.
    #[schema(value_type = Object)]
    pub fields: serde_json::Map<String, Value>,
}

impl FetchEntry {
    /// Of a fetch that the store remembers.
    pub fn of(fetch: &store::Fetch) -> FetchEntry {
        let fields = fetch.fields.iter();
        FetchEntry {
            identity: fetch.identity.to_string(),
            user_agent: fetch.user_agent.clone(),
            other: fetch.other.as_ref().map(|other| OtherAnswerEntry {
                user_agent: other.user_agent.clone(),
                answer: other.code.clone(),
            }),
            time: time_text(fetch.time),
            duration_ms: u64::try_from(fetch.duration.as_millis()).unwrap_or(u64::MAX),
            result: fetch.result.clone(),
            cause: fetch.cause.clone(),
            status: fetch.status,
            hops: fetch.hops.clone(),
            sha256: fetch.sha256.as_ref().map(hex),
            fields: fields
                .map(|(name, value)| (name.clone(), value.as_str().into()))
                .collect(),
        }
    }
}

/// What a person has asserted over a robots.txt.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OverrideEntry {
    /// Its number, or `config-` and its place in the configuration.
    pub id: String,
    /// Of which origin.
    pub origin: String,
    /// Of which paths: a pattern as in robots.txt.
    pub pattern: String,
    /// `allow` or `deny`.
    pub action: &'static str,
    /// When it ends, RFC 3339; none: while it stands in the configuration.
    pub until: Option<String>,
    /// Who vouches for it.
    pub by: String,
    /// Why.
    pub reason: String,
    /// When it was asserted; none for one of the configuration.
    pub created: Option<String>,
    /// Whether it decides now.
    pub in_force: bool,
    /// When it was taken out of force.
    pub removed: Option<String>,
    /// Who did that.
    pub removed_by: Option<String>,
}

impl OverrideEntry {
    /// Of one that stands.
    pub fn of(one: &Override, now: Moment) -> OverrideEntry {
        OverrideEntry {
            id: one.id.to_string(),
            origin: one.origin.to_string(),
            pattern: one.pattern.clone(),
            action: one.action.as_str(),
            until: one.until.map(time_text),
            by: one.by.clone(),
            reason: one.reason.clone(),
            // One in the configuration was asserted whenever somebody wrote it there.
            created: match one.id {
                OverrideId::Stored(_) => Some(time_text(one.created)),
                OverrideId::Configured(_) => None,
            },
            in_force: one.holds(now),
            removed: None,
            removed_by: None,
        }
    }

    /// Of one that was taken out of force.
    pub fn of_removed(one: &Removed, now: Moment) -> OverrideEntry {
        OverrideEntry {
            in_force: false,
            removed: Some(time_text(one.time)),
            removed_by: Some(one.by.clone()),
            ..OverrideEntry::of(&one.asserted, now)
        }
    }
}
