//! The content of a report. Its fields are those of the JSON: times are RFC 3339, UTC.

use serde::Serialize;

/// The name and the version of the JSON's form.
pub(super) const FORMAT: &str = "crawlgate-report@1";

/// A claim, and whether the log proves it.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Claim {
    /// The claim.
    pub claim: &'static str,
    /// The answer.
    pub proven: &'static str,
}

/// The claims that the log does not prove, as docs/evidence-files.md has them.
pub(super) const NOT_SHOWN: [Claim; 3] = [
    Claim {
        claim: "that the site answered so, that the crawler asked so, that every request came this way",
        proven: "no",
    },
    Claim {
        claim: "that a publisher was given all records of its site",
        proven: "no, unless the whole log is disclosed; a hint: with decisions = \"all\" the id counter of a process leaves no hole, once ids are drawn only where a record follows",
    },
    Claim {
        claim: "time of an entry",
        proven: "not later than a witness's time; not earlier than: no",
    },
];

/// A report.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    /// The name and the version of this form.
    pub format: &'static str,
    /// The span, and the person who made the report.
    pub about: About,
    /// The logs that the figures are of.
    pub logs: Vec<LogFacts>,
    /// The claims that the log does not prove.
    pub not_shown: Vec<Claim>,
    /// The facts that the log does not record.
    pub not_recorded: Vec<&'static str>,
    /// All requests.
    pub summary: Summary,
    /// Requests by month.
    pub months: Vec<Period>,
    /// Requests by day.
    pub days: Vec<Period>,
    /// Requests by client.
    pub clients: Listed,
    /// Requests by first product token.
    pub product_tokens: Listed,
    /// Requests by User-Agent.
    pub user_agents: Listed,
    /// Requests by origin.
    pub origins: Origins,
    /// The rules that refused most.
    pub rules: Vec<RuleRow>,
    /// Refusals by further rules, which were counted together.
    pub rules_uncounted: u64,
    /// Requests by reason.
    pub reasons: Vec<ReasonRow>,
    /// Preference signals that decisions record.
    pub usage: UsageFacts,
    /// The states of robots.txt that decisions rest on.
    pub robots: RobotsFacts,
    /// The settings that verdicts follow from.
    pub settings: Vec<SettingsRow>,
    /// Overrides that were in force at any time of the span.
    pub overrides: Vec<OverrideRow>,
    /// Exceptions from recording and enforcing.
    pub exceptions: Exceptions,
    /// Refusals that people have acknowledged.
    pub acknowledgements: Acknowledgements,
}

/// A log that a report is of.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogFacts {
    /// The name of the log.
    pub log: Option<String>,
    /// The verifier keys of the log.
    pub keys: Vec<String>,
    /// Records that the log has ever taken.
    pub records: u64,
    /// The first record that retention has left.
    pub first_kept: u64,
    /// Its time.
    pub kept_since: Option<String>,
    /// True if retention has dropped records of the span, or may have.
    pub is_cut_off: bool,
    /// The reason why the log could not be read; none of its records is in the figures then.
    pub unread: Option<String>,
    /// The newest checkpoint of the log.
    pub checkpoint: Option<CheckpointFacts>,
    /// The result of `crawlgate audit verify`; none if the log was not verified for this report.
    pub verification: Option<Verification>,
}

/// The span, and the person who made the report.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct About {
    /// The version of crawlgate.
    pub release: &'static str,
    /// Time of the report.
    pub made_at: String,
    /// The person who made it.
    pub made_by: Option<String>,
    /// The beginning of the span.
    pub since: String,
    /// The end of the span, exclusive.
    pub until: String,
    /// The only client that the report is about.
    pub client: Option<String>,
    /// The only origin or host that the report is about.
    pub origin: Option<String>,
}

/// Requests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Outcomes {
    /// All requests; null if the log does not tell which of the forwarded ones belong here.
    pub requests: Option<u64>,
    /// Requests that went out and were answered; null as for `requests`.
    pub forwarded: Option<u64>,
    /// Requests that went out and failed.
    pub failed: u64,
    /// Requests that were refused: the sum of the next three.
    pub denied: u64,
    /// Requests that the site disallows.
    pub disallowed: u64,
    /// Requests that were refused because a robots.txt was unreachable.
    pub unreachable: u64,
    /// Requests that the proxy or its operator refused.
    pub refused_here: u64,
    /// Requests that were refused for now.
    pub deferred: u64,
    /// Of those that went out, requests that only report mode let out.
    pub reported: u64,
}

/// All requests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Summary {
    /// By outcome.
    #[serde(flatten)]
    pub outcomes: Outcomes,
    /// Of the forwarded ones, requests that were counted without a record of their own.
    pub forwarded_without_record: u64,
    /// Of the refused ones, requests that were counted without a record of their own.
    pub refused_without_record: u64,
    /// Requests with a record that tells the robots.txt, or the lack of one, by which they were judged.
    pub judged: u64,
    /// Of these, requests that came within 24 hours after the fetch of the robots.txt.
    pub judged_within_24h: u64,
    /// Failed requests by error.
    pub errors: Vec<NamedCount>,
}

/// A name with a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NamedCount {
    /// The name.
    pub name: String,
    /// The number of requests.
    pub count: u64,
}

/// The requests of a month or a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Period {
    /// The month or the day.
    pub period: String,
    /// The requests.
    #[serde(flatten)]
    pub outcomes: Outcomes,
}

/// A list of the most frequent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Listed {
    /// The number of different ones.
    pub count: u64,
    /// The most frequent.
    pub rows: Vec<Row>,
    /// Requests of those that were too many to count one by one.
    pub others: u64,
}

/// The requests of a client, a token, a User-Agent or an origin.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Row {
    /// The name; empty if there is none.
    pub name: String,
    /// The purpose of the client's crawl, as the configuration says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The requests.
    #[serde(flatten)]
    pub outcomes: Outcomes,
    /// Time of the first.
    pub first: String,
    /// Time of the last.
    pub last: String,
}

/// Requests by origin.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Origins {
    /// The number of origins.
    pub count: u64,
    /// Those with the most requests.
    pub most_asked: Vec<Row>,
    /// Those with the most refused requests, those of report mode included.
    pub most_refused: Vec<Row>,
    /// Requests to further origins, which were counted together.
    pub uncounted: u64,
}

/// A rule with its refusals.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuleRow {
    /// The origin.
    pub origin: String,
    /// The rule, as its robots.txt has it.
    pub rule: String,
    /// Requests that it refused, or would have without report mode.
    pub count: u64,
    /// Of these, requests that only report mode let out.
    pub reported: u64,
    /// Time of the first.
    pub first: String,
    /// Time of the last.
    pub last: String,
}

/// Decisions that record what the site says of use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageFacts {
    /// Their number.
    pub decisions: u64,
    /// Those that refused a purpose of the client, by purpose; one may refuse several.
    pub refused: Vec<NamedCount>,
}

/// A reason with its requests.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasonRow {
    /// The code.
    pub reason: String,
    /// The mode.
    pub mode: &'static str,
    /// The verdict.
    pub verdict: &'static str,
    /// Its meaning; "it" is the request.
    pub meaning: Option<&'static str>,
    /// The number of requests.
    pub count: u64,
    /// The identifier of one of them.
    pub example: Option<String>,
    /// Time of the first.
    pub first: String,
    /// Time of the last.
    pub last: String,
}

/// The states of robots.txt that decisions rest on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RobotsFacts {
    /// Requests by state.
    pub states: Vec<NamedCount>,
    /// Different states: of one origin, each fetch makes another.
    pub different: u64,
    /// Of these, files that were longer than the limit, of which the end was ignored.
    pub truncated: u64,
    /// Origins with a robots.txt.
    pub origins: u64,
    /// Of these, origins with more than one text.
    pub changed: u64,
    /// Requests that rest on a state that the store has lost.
    pub lost: u64,
    /// Fetches of robots.txt in the hours of the span. None in a report on one client or origin, for fetches are counted for
    /// all together; and where none was counted.
    pub fetches: Option<FetchCounts>,
    /// The number of outages.
    pub outage_count: u64,
    /// The outages with the most requests.
    pub outages: Vec<OutageRow>,
}

/// Fetches of robots.txt in whole hours, by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FetchCounts {
    /// The beginning of the first hour of which the store has counts.
    pub counted_since: String,
    /// True if that hour is within the span, so that earlier fetches of the span may be missing.
    pub is_cut_off: bool,
    /// All fetches.
    pub count: u64,
    /// Fetches that brought a robots.txt.
    pub successful: u64,
    /// Of these, fetches that brought the text that was known of the origin.
    pub unchanged: u64,
    /// Of these, fetches that brought another text than the one that was known.
    pub changed: u64,
    /// Of these, fetches of a text that was longer than the limit, of which the end was ignored.
    pub truncated: u64,
    /// Fetches that showed that the origin has no robots.txt.
    pub unavailable: u64,
    /// Fetches that failed.
    pub unreachable: u64,
}

/// A series of failed fetches.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OutageRow {
    /// The origin.
    pub origin: String,
    /// Time of the first failure.
    pub since: String,
    /// Time of the last request that it decided.
    pub last_request: String,
    /// The cause of the last failure.
    pub cause: String,
    /// Failed fetches.
    pub attempts: u32,
    /// Requests that the outage disallowed.
    pub disallowed: u64,
    /// Requests that the last good copy decided.
    pub by_last_good_copy: u64,
    /// Requests without any rules.
    pub without_rules: u64,
}

/// Settings that verdicts follow from.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettingsRow {
    /// The SHA-256 in the records.
    pub sha256: String,
    /// Requests.
    pub count: u64,
    /// Time of the first.
    pub first: String,
    /// Time of the last.
    pub last: String,
    /// The settings; none if the store has lost them.
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub settings: Option<serde_json::Value>,
}

/// An override.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OverrideRow {
    /// Its number, or its place in the configuration.
    pub id: String,
    /// The origin.
    pub origin: String,
    /// The paths.
    pub pattern: String,
    /// `allow` or `deny`.
    pub action: &'static str,
    /// The person who added it.
    pub by: String,
    /// The reason.
    pub reason: String,
    /// Time of its creation; none for one of the configuration.
    pub created: Option<String>,
    /// Its end.
    pub until: Option<String>,
    /// Time of its removal.
    pub removed: Option<String>,
    /// The person who removed it.
    pub removed_by: Option<String>,
    /// Requests that it decided.
    pub decisions: u64,
}

/// Exceptions from recording and enforcing.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Exceptions {
    /// Requests that only report mode let out, by reason.
    pub reported: Vec<NamedCount>,
    /// The origins of these.
    pub reported_origins: Vec<Row>,
    /// Origins that opaque tunnels led to.
    pub opaque_tunnels: Vec<Row>,
    /// Records that were lost before they were written, or from the store.
    pub lost: Vec<LostRow>,
    /// The times in which no process ran.
    pub gaps: Vec<GapRow>,
    /// Processes that began to record.
    pub started: Vec<StartRow>,
    /// Of these, processes that recorded no end within the span: still running, or killed.
    pub without_end: u64,
    /// Settings that came into force.
    pub settings: Vec<SettingsChange>,
    /// Records that retention has dropped.
    pub dropped: Vec<DropRow>,
    /// Changes of the log: new keys, and continuations of another log.
    pub log_changes: Vec<LogChange>,
    /// Events that were too many to tell.
    pub events_left_out: u64,
}

/// Lost records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LostRow {
    /// The log; none in a report of one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Number of records.
    pub count: u64,
    /// Time of the first.
    pub first: String,
    /// Time of the last.
    pub last: String,
}

/// A time in which no process ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct GapRow {
    /// The log; none in a report of one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The end of the last process.
    pub from: String,
    /// The start of the next.
    pub until: String,
}

/// The start of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StartRow {
    /// The log; none in a report of one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Its time.
    pub time: String,
    /// The version of crawlgate.
    pub release: String,
}

/// Settings that came into force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SettingsChange {
    /// The log; none in a report of one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Its time.
    pub time: String,
    /// SHA-256 of the settings that verdicts follow from.
    pub sha256: String,
    /// The mode.
    pub mode: &'static str,
    /// Origins in report mode.
    pub report_origins: Vec<String>,
    /// Clients in report mode.
    pub report_clients: Vec<String>,
    /// Clients that are exempt from what robots.txt disallows, with the operator's reasons.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt_clients: Vec<String>,
}

/// Records that retention has dropped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DropRow {
    /// The log; none in a report of one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// The cause: `keep` or `size`.
    pub cause: &'static str,
    /// Number of times.
    pub times: u64,
    /// The last time.
    pub last: String,
    /// The first record that stayed then.
    pub first_kept: u64,
}

/// A change of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogChange {
    /// The log; none in a report of one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<String>,
    /// Its time.
    pub time: String,
    /// The change.
    pub change: String,
}

/// Refusals that people have acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Acknowledgements {
    /// Refusals with a record of their own, those of report mode included.
    pub refusals: u64,
    /// Of these, acknowledged ones.
    pub acknowledged: u64,
    /// The others.
    pub unacknowledged: u64,
}

/// A checkpoint.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckpointFacts {
    /// Records that it covers.
    pub size: u64,
    /// Its time, by the clock of the log's machine. No signature covers it.
    pub signed_at: String,
    /// The signed note.
    pub note: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Verification {
    /// True without any fault.
    pub ok: bool,
    /// The records of the log that were checked.
    pub records: u64,
    /// The number of records that a checkpoint confirms.
    pub signed: Option<u64>,
    /// The number of configured witnesses.
    pub witnesses: usize,
    /// The number of witnesses that a witnessed checkpoint has (`[audit] quorum`).
    pub quorum: usize,
    /// The number of records in the newest witnessed checkpoint.
    pub witnessed: Option<u64>,
    /// The time by which it was witnessed, by the clocks of the witnesses.
    pub witnessed_at: Option<String>,
    /// Decisions of the span that follow from their evidence.
    pub proven: u64,
    /// Decisions of the span that their records alone attest.
    pub attested: u64,
    /// Decisions of the span that contradict their evidence.
    pub wrong: u64,
    /// The first faults, in words.
    pub faults: Vec<String>,
}

impl Verification {
    /// Returns the result of a verification that could not be ended.
    #[must_use]
    pub fn failed(why: String) -> Self {
        Self { faults: vec![why], ..Self::default() }
    }
}
