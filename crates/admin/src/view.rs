//! The shapes of JSON that the API and the commands share.

use clap::ValueEnum;
use serde::Deserialize;
use serde_json::Value;

use crawlgate_gate::explain::sitemaps::{Access, Sitemap};
use crawlgate_gate::explain::states::lives;
use crawlgate_gate::view;
use crawlgate_origins::state::Outage;
use crawlgate_policy::overrides::{self, Override, OverrideId};
use crawlgate_robots::Rule;
use crawlgate_store::{
    self as store, Removed, SnapshotMeta, StoredDecision, StoredOrigin, StoredState,
};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_text::time_text;
use crawlgate_tlog::{KeyName, leaf_hash};
use crawlgate_turns::pace::EffectivePace;

view! {
    /// A stored decision.
    pub struct Decision of log: &KeyName, kept: &StoredDecision {
        /// The name of the log that has it.
        pub log: String = log.to_string(),
        /// The number in the order of writing, from 1.
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub seq: u64 = kept.seq,
        /// The hash of its leaf in the tree over the log (RFC 9162), in hexadecimal.
        pub hash: String = hex(leaf_hash(&kept.entry)),
        /// The acknowledgement, if a person has seen the decision.
        pub acknowledged: Option<Acknowledgement> = kept.acknowledged.as_ref().map(Acknowledgement::of),
        /// The outcome of the request: `forwarded`, `failed`, `disallowed`, `unreachable`, `refused_here` or `deferred`; null for an
        /// altered record.
        pub outcome: Option<&'static str> = kept.told().ok().map(|one| one.outcome().as_str()),
        /// The record, as the log has it.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        // An altered record may no longer be JSON, and is shown all the same.
        pub record: Value = serde_json::from_str(&kept.record)
            .unwrap_or_else(|_| Value::String(kept.record.clone())),
    }

    /// A person has seen a decision.
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Acknowledgement of seen: &store::Acknowledgement {
        /// The time, RFC 3339.
        pub time: String = time_text(seen.time),
        /// The person's name.
        pub by: String = seen.by.clone(),
        /// The person's note.
        pub note: String = seen.note.clone(),
    }

    /// A count of decisions.
    pub struct Tally of tally: store::GroupCount {
        /// The common key: the reason, the origin, or the origin and the rule.
        pub key: Vec<String> = tally.key,
        /// The number of decisions.
        pub count: u64 = tally.count,
        /// The time of the first, RFC 3339.
        pub first: String = time_text(tally.first),
        /// The time of the last, RFC 3339.
        pub last: String = time_text(tally.last),
    }

    /// The stored state of an origin.
    pub struct OriginEntry of found: &StoredOrigin {
        /// The origin: `https://example.com`.
        pub origin: String = found.origin.to_string(),
        /// The identity of the state: a product token in lower case, with `@` and a client's name for a client's own state,
        /// or `*`.
        pub identity: String = found.identity.to_string(),
        /// The User-Agent of the fetch.
        pub user_agent: String = found.user_agent.clone(),
        /// `successful`, `unavailable` or `unreachable`.
        pub state: &'static str = found.state.name(),
        /// The time of the last change, RFC 3339.
        pub updated: String = time_text(found.updated),
        /// The current copy of robots.txt.
        pub robots: Option<CopyEntry> = found.state.copy().map(CopyEntry::of),
        /// The reason to treat the origin as one without robots.txt.
        pub why: Option<String> = match &found.state {
            StoredState::Unavailable { why, .. } => Some(why.code()),
            _ => None,
        },
        /// The time when this was learnt.
        pub fetched: Option<String> = match &found.state {
            StoredState::Successful { copy, .. } => Some(time_text(copy.fetched)),
            StoredState::Unavailable { fetched, .. } => Some(time_text(*fetched)),
            StoredState::Unreachable { .. } => None,
        },
        /// The time from which a request starts a refresh.
        pub refresh_from: Option<String> = lives(&found.state).0.map(|fresh| time_text(fresh.refresh_from)),
        /// The end of validity.
        pub fresh_until: Option<String> = lives(&found.state).0.map(|fresh| time_text(fresh.until)),
        /// The failed fetches since.
        pub outage: Option<OutageEntry> = lives(&found.state).1.map(OutageEntry::of),
    }

    /// The limit on requests to an origin.
    #[derive(Deserialize)]
    pub struct Pace of pace: EffectivePace {
        /// The least time from one request to the next, in milliseconds.
        pub interval_ms: u64 = u64::try_from(pace.interval.as_millis()).unwrap_or(u64::MAX),
        /// The source of the limit: the configuration, the origin's robots.txt, or the origin's answers.
        pub source: String = pace.source.as_str().to_owned(),
        /// True if the robots.txt asks for a longer delay than the operator allows.
        pub clamped: bool = pace.clamped,
    }

    /// A Sitemap line of a robots.txt, and whether a crawler may fetch the sitemap.
    pub struct SitemapEntry of sitemap: &Sitemap {
        /// The origin of the robots.txt with the line.
        pub origin: String = sitemap.origin.to_string(),
        /// The identity that got that robots.txt.
        pub identity: String = sitemap.identity.to_string(),
        /// The line's number, from 1.
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub line: u32 = sitemap.line,
        /// The value of the line: the URL of the sitemap, if it is valid.
        pub url: String = sitemap.url.clone(),
        /// `allowed`, `disallowed`, `unknown` (the robots.txt of the sitemap's own origin is not known) or `invalid`.
        pub access: &'static str = sitemap.access.as_str(),
        /// The code of the reason, if that robots.txt decides.
        pub reason: Option<&'static str> = match &sitemap.access {
            Access::Judged { reason, .. } => Some(reason.as_str()),
            _ => None,
        },
        /// The rule that decides, if one does.
        pub rule: Option<SitemapRule> = match &sitemap.access {
            Access::Judged { rule, .. } => rule.as_ref().map(SitemapRule::of),
            _ => None,
        },
        /// The identity that got the robots.txt that decides.
        pub judged_as: Option<String> = match &sitemap.access {
            Access::Judged { judged_as, .. } => Some(judged_as.to_string()),
            _ => None,
        },
        /// True if the robots.txt that decides is stale: a request would fetch it anew first.
        pub stale: bool = matches!(sitemap.access, Access::Judged { is_stale: true, .. }),
        /// The reason why the value is no URL that can be requested.
        pub error: Option<String> = match &sitemap.access {
            Access::Invalid(why) => Some(why.to_string()),
            _ => None,
        },
    }

    /// The rule that decides about a sitemap.
    pub struct SitemapRule of rule: &Rule {
        /// The line without its comment.
        pub text: String = rule.text.to_string(),
        /// The line's number, from 1.
        #[cfg_attr(feature = "openapi", schema(minimum = 1))]
        pub line: u32 = rule.line,
        /// The name of the rule's group.
        pub group: String = rule.group.to_string(),
    }

    /// A copy of a robots.txt.
    pub struct CopyEntry of copy: &SnapshotMeta {
        /// SHA-256 of the text that counts, in hexadecimal.
        pub sha256: String = hex(copy.sha256),
        /// When it was fetched, RFC 3339.
        pub fetched: String = time_text(copy.fetched),
        /// Status of the final response.
        pub status: u16 = copy.status,
        /// The final URL, after redirects.
        pub url: String = copy.final_url.clone(),
        /// Octets of the text that counts.
        pub bytes: u64 = copy.bytes,
        /// True if the file is longer than the size limit.
        pub truncated: bool = copy.truncated,
    }

    /// Fetches that have failed.
    pub struct OutageEntry of outage: &Outage {
        /// The first failure, RFC 3339.
        pub since: String = time_text(outage.since),
        /// The last failure of the origin itself, RFC 3339; none if crawlgate reached no origin at all.
        pub last_failure: Option<String> = outage.last_failure.map(time_text),
        /// The last failure, RFC 3339.
        pub last_attempt: String = time_text(outage.last_attempt),
        /// The cause of the last failure.
        pub cause: String = outage.cause.code(),
        /// The number of failures.
        pub attempts: u32 = outage.attempts,
        /// The time of the next attempt, RFC 3339.
        pub next_attempt: String = time_text(outage.next_attempt),
    }

    /// The origin's answer to another User-Agent.
    pub struct OtherAnswerEntry of other: &store::OtherAnswer {
        /// The User-Agent.
        pub user_agent: String = other.user_agent.clone(),
        /// The answer as a code: `status_403`.
        pub answer: String = other.code.clone(),
    }

    /// One fetch of a robots.txt.
    pub struct FetchEntry of fetch: &store::Fetch {
        /// The identity of the fetch: a product token, or `*`.
        pub identity: String = fetch.identity.to_string(),
        /// The User-Agent of the answer that counts.
        pub user_agent: String = fetch.user_agent.clone(),
        /// The answer to another User-Agent, if the two were compared.
        pub other: Option<OtherAnswerEntry> = fetch.other.as_ref().map(OtherAnswerEntry::of),
        /// The end of the fetch, RFC 3339.
        pub time: String = time_text(fetch.time),
        /// The duration in milliseconds.
        pub duration_ms: u64 = u64::try_from(fetch.duration.as_millis()).unwrap_or(u64::MAX),
        /// The result: `successful`, `unavailable` or `unreachable`.
        pub result: String = fetch.result.clone(),
        /// The cause, unless successful.
        pub cause: Option<String> = fetch.cause.clone(),
        /// The final response's status; none without a response.
        pub status: Option<u16> = fetch.status,
        /// The requested URLs, first to last.
        pub hops: Vec<String> = fetch.hops.clone(),
        /// SHA-256 of the body, in hexadecimal, if it was read.
        pub sha256: Option<String> = fetch.sha256.as_ref().map(hex),
        /// Header fields of the final response that matter.
        #[cfg_attr(feature = "openapi", schema(value_type = Object))]
        pub fields: serde_json::Map<String, Value> = fetch
            .fields
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().into()))
            .collect(),
    }

    /// A person's override of a robots.txt.
    pub struct OverrideEntry of one: &Override, now: Moment {
        /// The number, the identifier in the fleet, or `config-` and the position in the configuration.
        pub id: String = one.id.to_string(),
        /// The origin.
        pub origin: String = one.origin.to_string(),
        /// The paths: a pattern as in robots.txt.
        pub pattern: String = one.pattern.clone(),
        /// The effect: `allow` or `deny`.
        pub action: &'static str = one.action.as_str(),
        /// The end, RFC 3339; none: as long as the configuration has it.
        pub until: Option<String> = one.until.map(time_text),
        /// The person who answers for the override.
        pub by: String = one.by.clone(),
        /// The reason.
        pub reason: String = one.reason.clone(),
        /// The time when it was added; none for one of the configuration.
        pub created: Option<String> = (!one.id.is_configured()).then(|| time_text(one.created)),
        /// The instance of the fleet that added it; none outside a fleet.
        pub instance: Option<String> = one.instance.clone(),
        /// True if the override applies now.
        pub in_force: bool = one.holds(now),
        /// The time of removal.
        pub removed: Option<String> = None,
        /// The person who removed it.
        pub removed_by: Option<String> = None,
    }
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
        let stored = stored.iter().map(|one| (one.id, OverrideEntry::of(one, now)));
        let removed =
            removed.iter().map(|one| (one.asserted.id, OverrideEntry::of_removed(one, now)));
        let mut kept: Vec<(OverrideId, OverrideEntry)> = stored.chain(removed).collect();
        kept.sort_by_key(|(id, _)| *id);
        let configured = configured.iter().map(|one| OverrideEntry::of(one, now));
        let entries = configured.chain(kept.into_iter().map(|(_, entry)| entry));
        entries.filter(|one| all || one.in_force).collect()
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
