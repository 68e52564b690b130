//! The facts of a record in words, for people.

use std::str::FromStr as _;

use crawlgate_record::{Asserted, Decision, Signed};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// Returns a time of a record as its line has it.
#[must_use]
pub fn time(millis: u64) -> String {
    time_text(Moment::from_millis(millis))
}

/// Returns the answer in a few words: its status, and the error unless it is that of every refusal.
#[must_use]
pub fn answer(one: &Decision<'_>) -> String {
    let error = one.error.filter(|error| error.kept != "http_request_denied");
    match (one.status, error) {
        (Some(status), Some(error)) => format!("{status} {error}"),
        (Some(status), None) => status.to_string(),
        (None, Some(error)) => error.to_string(),
        (None, None) => "-".to_owned(),
    }
}

/// Returns the way that the request came, with the version of HTTP that the crawler spoke.
#[must_use]
pub fn came_by(one: &Decision<'_>) -> String {
    let via = one.via.as_str();
    match one.version {
        Some(version) => format!("{via}, HTTP/{version}"),
        None => via.to_owned(),
    }
}

/// Returns the answer's status and error, with the version of HTTP that the origin spoke; `None` without an answer.
#[must_use]
pub fn answered(one: &Decision<'_>) -> Option<String> {
    let version = one.upstream_version;
    let parts = [
        one.status.map(|status| status.to_string()),
        one.error.map(|error| error.to_string()),
        version.map(|version| format!("the origin by HTTP/{version}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// Describes the signature that the request had; `None` if its client has no identity.
#[must_use]
pub fn signature(one: &Decision<'_>) -> Option<String> {
    Some(match one.signed? {
        Signed::With { identity, key, created } => {
            let created = time(created.saturating_mul(1_000));
            format!("as {identity}, with the key {key}, at {created}")
        }
        Signed::Left => "by the crawler itself".to_owned(),
        Signed::Unsignable => "no: it could not be signed".to_owned(),
    })
}

/// Returns the person who answers for an override, with the instance of a fleet where the person added it.
#[must_use]
pub fn author(one: &Asserted<'_>) -> String {
    match one.instance {
        Some(instance) => format!("{} at {instance}", one.by),
        None => one.by.to_owned(),
    }
}

/// Parses a time as records have it.
#[must_use]
pub fn moment(text: &str) -> Option<Moment> {
    let millis = jiff::Timestamp::from_str(text).ok()?.as_millisecond();
    u64::try_from(millis).ok().map(Moment::from_millis)
}
