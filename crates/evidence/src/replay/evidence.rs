//! A record read back: the grounds of its decision.

use std::borrow::Cow;
use std::str::FromStr as _;

use serde::Deserialize;

use crawlgate_usage::record::UsageRecord;

use super::Missing;
use crawlgate_policy::Outcome;
use crawlgate_record::{Mode, Verdict, has_failed, outcome};
use crawlgate_store::Sha256;
use crawlgate_system::clock::Moment;
use crawlgate_text::{from_hex, timestamp::rfc3339};

/// The fields of a record's line, in text form.
///
/// Fields unknown to this crawlgate are ignored; fields that an earlier one did not write are `None`. A field of the
/// wrong type is an error: crawlgate never wrote it.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Evidence<'a> {
    #[serde(borrow)]
    pub time: Cow<'a, str>,
    #[serde(borrow)]
    pub id: Cow<'a, str>,
    #[serde(borrow)]
    pub mode: Cow<'a, str>,
    #[serde(borrow)]
    pub verdict: Cow<'a, str>,
    #[serde(borrow)]
    pub reason: Cow<'a, str>,
    #[serde(borrow)]
    pub client: Client<'a>,
    pub agent: Agent,
    #[serde(borrow)]
    pub user_agent: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub method: Cow<'a, str>,
    #[serde(borrow)]
    pub url: Cow<'a, str>,
    #[serde(borrow)]
    pub scheme: Cow<'a, str>,
    #[serde(borrow)]
    pub host: Cow<'a, str>,
    pub port: u16,
    #[serde(borrow)]
    pub via: Cow<'a, str>,
    #[serde(borrow, default)]
    pub version: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub upstream_version: Option<Cow<'a, str>>,
    pub opaque: bool,
    #[serde(borrow, default)]
    pub signed: Option<Signed<'a>>,
    #[serde(borrow)]
    pub rule: Option<Rule<'a>>,
    #[serde(borrow, default)]
    pub reading: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub robots: Option<Robots<'a>>,
    #[serde(borrow, default)]
    pub decided_at: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub policy: Option<Cow<'a, str>>,
    #[serde(default, rename = "override")]
    pub overridden: Option<Overridden>,
    #[serde(default)]
    pub exempt: Option<Exempt>,
    pub status: Option<u16>,
    pub error: Option<String>,
    #[serde(borrow, default)]
    pub detail: Option<Cow<'a, str>>,
    /// Statements of the site about the use of its content, and the purposes that they refused.
    #[serde(default)]
    pub usage: Option<UsageRecord<'static>>,
    /// The object without which the line was made: the store does not have what the entry names, or another body.
    #[serde(borrow, default)]
    pub missing: Option<Cow<'a, str>>,
}

impl Evidence<'_> {
    /// Returns the outcome of the request.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let mode = Mode::from_name(&self.mode).unwrap_or(Mode::Enforce);
        // A verdict of another version lets nothing look forwarded.
        let verdict = Verdict::from_name(&self.verdict).unwrap_or(Verdict::Deny);
        let has_failed = has_failed(self.error.as_deref(), self.status);
        outcome(mode, verdict, &self.reason, has_failed)
    }

    /// Returns the answer in a few words: its status, and the error unless it is that of every refusal.
    #[must_use]
    pub fn answer(&self) -> String {
        let error = self
            .error
            .as_deref()
            .filter(|error| *error != "http_request_denied");
        match (self.status, error) {
            (Some(status), Some(error)) => format!("{status} {error}"),
            (Some(status), None) => status.to_string(),
            (None, Some(error)) => error.to_owned(),
            (None, None) => "-".to_owned(),
        }
    }
}

/// The exemption of the client.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Exempt {
    pub from: String,
    pub reason: String,
}

/// The signature of the request.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Signed<'a> {
    #[serde(borrow, default, rename = "as")]
    pub identity: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub keyid: Option<Cow<'a, str>>,
    #[serde(default)]
    pub created: Option<u64>,
    #[serde(default)]
    pub left: bool,
}

impl Signed<'_> {
    /// Describes the signature in words.
    fn words(&self) -> String {
        match (&self.identity, &self.keyid, self.created) {
            (Some(identity), Some(key), Some(created)) => {
                let created = Moment::from_millis(created.saturating_mul(1_000));
                let created = rfc3339(created);
                let created = String::from_utf8_lossy(&created);
                format!("as {identity}, with the key {key}, at {created}")
            }
            _ if self.left => "by the crawler itself".to_owned(),
            _ => "no: it could not be signed".to_owned(),
        }
    }
}

/// The client.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Client<'a> {
    #[serde(borrow)]
    pub address: Cow<'a, str>,
    pub name: Option<String>,
}

/// The identity by which the crawler was judged.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Agent {
    pub chain: Vec<String>,
    pub source: String,
}

/// The rule that decided.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Rule<'a> {
    #[serde(borrow)]
    pub group: Cow<'a, str>,
    #[serde(borrow)]
    pub text: Cow<'a, str>,
    pub line: u32,
}

/// The copy of robots.txt, or of tdmrep.json, that was in force.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Robots<'a> {
    #[serde(borrow)]
    pub url: Cow<'a, str>,
    #[serde(borrow, default)]
    pub identity: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub user_agent: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub final_url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub state: Cow<'a, str>,
    pub status: Option<u16>,
    #[serde(borrow)]
    pub fetched_at: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub sha256: Option<Cow<'a, str>>,
    pub bytes: Option<u64>,
    pub truncated: bool,
    #[serde(borrow, default)]
    pub fresh_until: Option<Cow<'a, str>>,
    #[serde(default)]
    pub unreachable: Option<Unreachable>,
}

/// The outage at that time.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Unreachable {
    pub since: String,
    pub last_failure: Option<String>,
    pub cause: String,
    pub answers: bool,
    pub attempts: u32,
    pub next_attempt: String,
}

/// The override that decided.
#[derive(Clone, Debug, Deserialize)]
#[expect(missing_docs, reason = "each is what its name says: see `field`")]
pub struct Overridden {
    pub id: String,
    pub origin: String,
    pub pattern: String,
    pub action: String,
    pub by: String,
    pub reason: String,
    pub until: Option<String>,
    /// The instance of a fleet that added it.
    #[serde(default)]
    pub instance: Option<String>,
}

impl Overridden {
    /// Returns the person who answers for it, with the instance of a fleet where the person added it.
    pub fn author(&self) -> String {
        match &self.instance {
            Some(instance) => format!("{} at {instance}", self.by),
            None => self.by.clone(),
        }
    }
}

impl<'a> Evidence<'a> {
    /// Returns what the record rests on and the store does not have.
    pub fn lacks(&self) -> Option<Missing> {
        let missing = self.missing.as_deref()?;
        Some(match missing.starts_with("the override ") {
            true => Missing::Override,
            false => Missing::State,
        })
    }

    /// Reads a record.
    ///
    /// # Errors
    /// When the text is no record.
    pub fn read(record: &'a str) -> Result<Self, Unreadable> {
        serde_json::from_str(record).map_err(|error| Unreadable(error.to_string()))
    }

    /// Returns the way that the request came, with the version of HTTP that the crawler spoke.
    pub fn came_by(&self) -> String {
        match &self.version {
            Some(version) => format!("{}, HTTP/{version}", self.via),
            None => self.via.to_string(),
        }
    }

    /// Returns the answer's status and error, with the version of HTTP that the origin spoke; `None` without an answer.
    pub fn answered(&self) -> Option<String> {
        let version = self.upstream_version.as_ref();
        let parts = [
            self.status.map(|status| status.to_string()),
            self.error.clone(),
            version.map(|version| format!("the origin by HTTP/{version}")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// Describes the signature that the request had; `None` if its client has no identity.
    pub fn signature(&self) -> Option<String> {
        self.signed.as_ref().map(Signed::words)
    }

    /// Returns the digest of the robots.txt behind the decision, if there is one.
    ///
    /// # Errors
    /// When the field is no digest.
    pub fn snapshot(&self) -> Result<Option<Sha256>, Unreadable> {
        let robots = self.robots.as_ref();
        robots.map_or(Ok(None), |robots| robots.digest("robots.sha256"))
    }

    /// Returns the tdmrep.json that was asked, if one was.
    ///
    /// # Errors
    /// When the field is no such state.
    pub fn tdmrep(&self) -> Result<Option<Robots<'_>>, Unreadable> {
        let text = self.usage.as_ref().and_then(|usage| usage.tdmrep.as_ref());
        let read = text.map(|text| serde_json::from_str(text)).transpose();
        read.map_err(|error| Unreadable(format!("usage.tdmrep: {error}")))
    }
}

impl Robots<'_> {
    /// Returns the digest of the file, if there is one. `what` names the field.
    ///
    /// # Errors
    /// When the field is no digest.
    pub fn digest(&self, what: &str) -> Result<Option<Sha256>, Unreadable> {
        let Some(text) = &self.sha256 else {
            return Ok(None);
        };
        let digest = from_hex(text);
        let digest = digest.ok_or_else(|| Unreadable(format!("{what}: \"{text}\" is no digest")));
        digest.map(Some)
    }
}

/// A record that crawlgate did not write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub(super) String);

/// Parses a moment as a record writes it.
pub fn moment(text: &str) -> Option<Moment> {
    let millis = jiff::Timestamp::from_str(text).ok()?.as_millisecond();
    u64::try_from(millis).ok().map(Moment::from_millis)
}
