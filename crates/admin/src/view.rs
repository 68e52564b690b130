//! The shapes of JSON that the API and the commands share.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crawlgate_gate::explain::sitemaps::{Access, Sitemap};
use crawlgate_gate::explain::states::lives;
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_store::{
    self as store, Removed, SnapshotMeta, StoredDecision, StoredOrigin, StoredState,
};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_text::time_text;
use crawlgate_tlog::{KeyName, leaf_hash};
use crawlgate_turns::pace::EffectivePace;

/// A stored decision.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Decision {
    /// The name of the log that has it.
    pub log: String,
    /// The number in the order of writing, from 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub seq: u64,
    /// The hash of its leaf in the tree over the log (RFC 9162), in hexadecimal.
    pub hash: String,
    /// The acknowledgement, if a person has seen the decision.
    pub acknowledged: Option<Acknowledgement>,
    /// The outcome of the request: `forwarded`, `failed`, `disallowed`, `unreachable`, `refused_here` or `deferred`; null for an
    /// altered record.
    pub outcome: Option<&'static str>,
    /// The record, as the log has it.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub record: Value,
}

/// A person has seen a decision.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Acknowledgement {
    /// The time, RFC 3339.
    pub time: String,
    /// The person's name.
    pub by: String,
    /// The person's note.
    pub note: String,
}

impl Acknowledgement {
    /// Shows an acknowledgement.
    pub fn of(seen: &store::Acknowledgement) -> Acknowledgement {
        Acknowledgement {
            time: time_text(seen.time),
            by: seen.by.clone(),
            note: seen.note.clone(),
        }
    }
}

impl Decision {
    /// Shows a decision of a log.
    pub fn of(log: &KeyName, kept: &StoredDecision) -> Decision {
        Decision {
            log: log.to_string(),
            seq: kept.seq,
            hash: hex(leaf_hash(&kept.entry)),
            acknowledged: kept.acknowledged.as_ref().map(Acknowledgement::of),
            outcome: kept.told().ok().map(|one| one.outcome().as_str()),
            // An altered record may no longer be JSON, and is shown all the same.
            record: serde_json::from_str(&kept.record)
                .unwrap_or_else(|_| Value::String(kept.record.clone())),
        }
    }
}

/// A count of decisions.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tally {
    /// The common key: the reason, the origin, or the origin and the rule.
    pub key: Vec<String>,
    /// The number of decisions.
    pub count: u64,
    /// The time of the first, RFC 3339.
    pub first: String,
    /// The time of the last, RFC 3339.
    pub last: String,
}

impl Tally {
    /// Shows a count of the store.
    pub fn of(tally: store::GroupCount) -> Tally {
        Tally {
            key: tally.key,
            count: tally.count,
            first: time_text(tally.first),
            last: time_text(tally.last),
        }
    }
}

/// The stored state of an origin.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OriginEntry {
    /// The origin: `https://example.com`.
    pub origin: String,
    /// The identity of the state: a product token in lower case, with `@` and a client's name for a client's own state,
    /// or `*`.
    pub identity: String,
    /// The User-Agent of the fetch.
    pub user_agent: String,
    /// `successful`, `unavailable` or `unreachable`.
    pub state: &'static str,
    /// The time of the last change, RFC 3339.
    pub updated: String,
    /// The current copy of robots.txt.
    pub robots: Option<CopyEntry>,
    /// The reason to treat the origin as one without robots.txt.
    pub why: Option<String>,
    /// The time when this was learnt.
    pub fetched: Option<String>,
    /// The time from which a request starts a refresh.
    pub refresh_from: Option<String>,
    /// The end of validity.
    pub fresh_until: Option<String>,
    /// The failed fetches since.
    pub outage: Option<OutageEntry>,
}

/// The limit on requests to an origin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Pace {
    /// The least time from one request to the next, in milliseconds.
    pub interval_ms: u64,
    /// The source of the limit: the configuration, the origin's robots.txt, or the origin's answers.
    pub source: String,
    /// True if the robots.txt asks for a longer delay than the operator allows.
    pub clamped: bool,
}

impl Pace {
    /// Shows a limit.
    pub fn of(pace: EffectivePace) -> Pace {
        Pace {
            interval_ms: u64::try_from(pace.interval.as_millis()).unwrap_or(u64::MAX),
            source: pace.source.as_str().to_owned(),
            clamped: pace.clamped,
        }
    }
}

/// A Sitemap line of a robots.txt, and whether a crawler may fetch the sitemap.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SitemapEntry {
    /// The origin of the robots.txt with the line.
    pub origin: String,
    /// The identity that got that robots.txt.
    pub identity: String,
    /// The line's number, from 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub line: u32,
    /// The value of the line: the URL of the sitemap, if it is valid.
    pub url: String,
    /// `allowed`, `disallowed`, `unknown` (the robots.txt of the sitemap's own origin is not known) or `invalid`.
    pub access: &'static str,
    /// The code of the reason, if that robots.txt decides.
    pub reason: Option<&'static str>,
    /// The rule that decides, if one does.
    pub rule: Option<SitemapRule>,
    /// The identity that got the robots.txt that decides.
    pub judged_as: Option<String>,
    /// True if the robots.txt that decides is stale: a request would fetch it anew first.
    pub stale: bool,
    /// The reason why the value is no URL that can be requested.
    pub error: Option<String>,
}

/// The rule that decides about a sitemap.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SitemapRule {
    /// The line without its comment.
    pub text: String,
    /// The line's number, from 1.
    #[cfg_attr(feature = "openapi", schema(minimum = 1))]
    pub line: u32,
    /// The name of the rule's group.
    pub group: String,
}

impl SitemapEntry {
    /// Shows a Sitemap line.
    pub fn of(sitemap: &Sitemap) -> SitemapEntry {
        let mut entry = SitemapEntry {
            origin: sitemap.origin.to_string(),
            identity: sitemap.identity.to_string(),
            line: sitemap.line,
            url: sitemap.url.clone(),
            access: sitemap.access.as_str(),
            reason: None,
            rule: None,
            judged_as: None,
            stale: false,
            error: None,
        };
        match &sitemap.access {
            Access::Judged {
                reason,
                rule,
                judged_as,
                is_stale,
            } => {
                entry.reason = Some(reason.as_str());
                entry.rule = rule.as_ref().map(|rule| SitemapRule {
                    text: rule.text.to_string(),
                    line: rule.line,
                    group: rule.group.to_string(),
                });
                entry.judged_as = Some(judged_as.to_string());
                entry.stale = *is_stale;
            }
            Access::Unknown => {}
            Access::Invalid(why) => entry.error = Some(why.to_string()),
        }
        entry
    }
}

/// A copy of a robots.txt.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CopyEntry {
    /// SHA-256 of the text that counts, in hexadecimal.
    pub sha256: String,
    /// When it was fetched, RFC 3339.
    pub fetched: String,
    /// Status of the final response.
    pub status: u16,
    /// The final URL, after redirects.
    pub url: String,
    /// Octets of the text that counts.
    pub bytes: u64,
    /// True if the file is longer than the size limit.
    pub truncated: bool,
}

/// Fetches that have failed.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutageEntry {
    /// The first failure, RFC 3339.
    pub since: String,
    /// The last failure of the origin itself, RFC 3339; none if crawlgate reached no origin at all.
    pub last_failure: Option<String>,
    /// The last failure, RFC 3339.
    pub last_attempt: String,
    /// The cause of the last failure.
    pub cause: String,
    /// The number of failures.
    pub attempts: u32,
    /// The time of the next attempt, RFC 3339.
    pub next_attempt: String,
}

impl OriginEntry {
    /// Shows a state of the store.
    pub fn of(found: &StoredOrigin) -> OriginEntry {
        let state = &found.state;
        let (fresh, outage) = lives(state);
        let (why, fetched) = match state {
            StoredState::Successful { copy, .. } => (None, Some(time_text(copy.fetched))),
            StoredState::Unavailable { why, fetched, .. } => {
                (Some(why.code()), Some(time_text(*fetched)))
            }
            StoredState::Unreachable { .. } => (None, None),
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
    fn of(copy: &SnapshotMeta) -> CopyEntry {
        CopyEntry {
            sha256: hex(copy.sha256),
            fetched: time_text(copy.fetched),
            status: copy.status,
            url: copy.final_url.clone(),
            bytes: copy.bytes,
            truncated: copy.truncated,
        }
    }
}

/// The origin's answer to another User-Agent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OtherAnswerEntry {
    /// The User-Agent.
    pub user_agent: String,
    /// The answer as a code: `status_403`.
    pub answer: String,
}

/// One fetch of a robots.txt.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FetchEntry {
    /// The identity of the fetch: a product token, or `*`.
    pub identity: String,
    /// The User-Agent of the answer that counts.
    pub user_agent: String,
    /// The answer to another User-Agent, if the two were compared.
    pub other: Option<OtherAnswerEntry>,
    /// The end of the fetch, RFC 3339.
    pub time: String,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The result: `successful`, `unavailable` or `unreachable`.
    pub result: String,
    /// The cause, unless successful.
    pub cause: Option<String>,
    /// The final response's status; none without a response.
    pub status: Option<u16>,
    /// The requested URLs, first to last.
    pub hops: Vec<String>,
    /// SHA-256 of the body, in hexadecimal, if it was read.
    pub sha256: Option<String>,
    /// Header fields of the final response that matter.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub fields: serde_json::Map<String, Value>,
}

impl FetchEntry {
    /// Shows a fetch of the store.
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

/// A person's override of a robots.txt.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverrideEntry {
    /// The number, the identifier in the fleet, or `config-` and the position in the configuration.
    pub id: String,
    /// The origin.
    pub origin: String,
    /// The paths: a pattern as in robots.txt.
    pub pattern: String,
    /// The effect: `allow` or `deny`.
    pub action: &'static str,
    /// The end, RFC 3339; none: as long as the configuration has it.
    pub until: Option<String>,
    /// The person who answers for the override.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// The time when it was added; none for one of the configuration.
    pub created: Option<String>,
    /// The instance of the fleet that added it; none outside a fleet.
    pub instance: Option<String>,
    /// True if the override applies now.
    pub in_force: bool,
    /// The time of removal.
    pub removed: Option<String>,
    /// The person who removed it.
    pub removed_by: Option<String>,
}

/// The effect of an override.
#[derive(Clone, Copy, Debug, Deserialize, ValueEnum)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Action {
    /// Forward, regardless of robots.txt and of what the site says of use.
    Allow,
    /// Forward, regardless of what the site says of use; the rules of robots.txt hold.
    AllowUsage,
    /// Refuse, regardless of robots.txt.
    Deny,
}

impl From<Action> for overrides::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Allow => Self::Allow,
            Action::AllowUsage => Self::AllowUsage,
            Action::Deny => Self::Deny,
        }
    }
}

impl OverrideEntry {
    /// Returns the overrides to list: those of the configuration first, then by identifier; only those in force, unless all are
    /// to be listed.
    pub fn list(
        configured: &[Override],
        stored: &[Override],
        removed: &[Removed],
        all: bool,
        now: Moment,
    ) -> Vec<OverrideEntry> {
        let stored = stored
            .iter()
            .map(|one| (one.id, OverrideEntry::of(one, now)));
        let removed = removed
            .iter()
            .map(|one| (one.asserted.id, OverrideEntry::of_removed(one, now)));
        let mut kept: Vec<(OverrideId, OverrideEntry)> = stored.chain(removed).collect();
        kept.sort_by_key(|(id, _)| *id);
        let configured = configured.iter().map(|one| OverrideEntry::of(one, now));
        let entries = configured.chain(kept.into_iter().map(|(_, entry)| entry));
        entries.filter(|one| all || one.in_force).collect()
    }

    /// Shows a current override.
    pub fn of(one: &Override, now: Moment) -> OverrideEntry {
        OverrideEntry {
            id: one.id.to_string(),
            origin: one.origin.to_string(),
            pattern: one.pattern.clone(),
            action: one.action.as_str(),
            until: one.until.map(time_text),
            by: one.by.clone(),
            reason: one.reason.clone(),
            // The time when a person wrote the configuration is unknown.
            created: (!one.id.is_configured()).then(|| time_text(one.created)),
            instance: one.instance.clone(),
            in_force: one.holds(now),
            removed: None,
            removed_by: None,
        }
    }

    /// Shows a removed override.
    pub fn of_removed(one: &Removed, now: Moment) -> OverrideEntry {
        OverrideEntry {
            in_force: false,
            removed: Some(time_text(one.time)),
            removed_by: Some(one.by.clone()),
            ..OverrideEntry::of(&one.asserted, now)
        }
    }
}
