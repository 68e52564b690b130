//! Short descriptions of an origin's state for people.

use std::fmt::Write as _;
use std::time::Duration;

use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::document::Document;
use crawlgate_origins::state::{Fresh, Outage, Stance, State};
use crawlgate_origins::timing::ProfileRules;
use crawlgate_store::{OtherAnswer, SnapshotMeta, StoredState};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;

/// Returns the name and a description of the present stance of a document.
pub fn stance(
    document: Document,
    state: &State,
    profile: &ProfileRules,
    now: Moment,
) -> (&'static str, String) {
    let since = state.outage().map(|outage| outage.since);
    match state.stance_of(document, now, profile) {
        Stance::Rules(file) if document == Document::TdmRep => match file.tdmrep() {
            Ok(_) => ("entries", "its entries decide".to_owned()),
            Err(_) => ("unset", "it is no tdmrep.json, so nothing is reserved".to_owned()),
        },
        Stance::AllowAll if document == Document::TdmRep => {
            ("unset", "nothing is reserved".to_owned())
        }
        Stance::Unknown => ("unknown", "the next request fetches it first".to_owned()),
        Stance::Rules(_) if matches!(state, State::Unreachable { .. }) => {
            ("rules", "the last good copy decides".to_owned())
        }
        Stance::Rules(_) => ("rules", "its rules decide".to_owned()),
        Stance::AllowAll => ("allow_all", "no restrictions".to_owned()),
        Stance::DisallowAll { .. } => {
            let mut text = "complete disallow".to_owned();
            if let Some(end) = since.map(|since| since + profile.disallow_for)
                && end > now
            {
                let _ = write!(text, " until {} ({})", time_text(end), to_come(end, now));
            }
            ("disallow_all", text)
        }
    }
}

/// Returns when an origin came into a state.
pub fn since(state: &StoredState) -> Moment {
    match state {
        StoredState::Successful { copy, .. } => copy.fetched,
        StoredState::Unavailable { fetched, .. } => *fetched,
        StoredState::Unreachable { outage, .. } => outage.since,
    }
}

/// Returns when the next request makes a fetch necessary or possible.
pub fn next_fetch(state: &StoredState) -> Moment {
    let (fresh, outage) = lives(state);
    match (fresh, outage) {
        (_, Some(outage)) => outage.next_attempt,
        (Some(fresh), None) => fresh.until,
        (None, None) => Moment::default(),
    }
}

/// Returns the life of a state, and the failures since.
pub fn lives(state: &StoredState) -> (Option<&Fresh>, Option<&Outage>) {
    match state {
        StoredState::Successful { fresh, outage, .. }
        | StoredState::Unavailable { fresh, outage, .. } => (Some(fresh), outage.as_ref()),
        StoredState::Unreachable { outage, .. } => (None, Some(outage)),
    }
}

/// Describes a state in a few words.
pub fn about(state: &StoredState) -> String {
    let (_, outage) = lives(state);
    let mut text = match state {
        StoredState::Successful { copy, .. } => octets(copy),
        StoredState::Unavailable { why, .. } => why.to_string(),
        StoredState::Unreachable { last_good: Some(copy), .. } => {
            format!("last good copy: {}", octets(copy))
        }
        StoredState::Unreachable { last_good: None, .. } => "no copy".to_owned(),
    };
    if let Some(outage) = outage {
        let times = match outage.attempts {
            1 => "once".to_owned(),
            attempts => format!("{attempts} times"),
        };
        text = format!("failed {times}: {}; {text}", outage.cause);
    }
    text
}

fn octets(copy: &SnapshotMeta) -> String {
    let cut = if copy.truncated { ", cut at the size limit" } else { "" };
    format!("{} octets{cut}", copy.bytes)
}

/// Writes the time since then: `3h`.
pub fn ago(then: Moment, now: Moment) -> String {
    rough(now.since(then))
}

/// Writes the time until then: `in 3h`, or `now` if that is over.
pub fn to_come(then: Moment, now: Moment) -> String {
    if then <= now { "now".to_owned() } else { format!("in {}", rough(then.since(now))) }
}

/// Writes when a fetch comes next: it waits for a request, even when it is due.
pub fn at_a_request(due: Moment, now: Moment) -> String {
    if due <= now {
        "at the next request".to_owned()
    } else {
        format!("{} at the earliest", to_come(due, now))
    }
}

/// Writes a duration in its largest unit, with a count of at least two.
fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    for (unit, scale) in [("d", 86_400), ("h", 3_600), ("m", 60)] {
        if seconds >= 2 * scale {
            return format!("{}{unit}", seconds / scale);
        }
    }
    format!("{seconds}s")
}

/// Describes the answer to another User-Agent.
pub fn other_answer(other: &OtherAnswer) -> String {
    let text = match Absence::from_code(&other.code) {
        Some(why) => why.to_string(),
        None => other.code.clone(),
    };
    format!("as {}: {text}", other.user_agent)
}

/// Describes a cause's code.
pub fn cause(code: &str, result: &str) -> String {
    let words = match result {
        "unavailable" => Absence::from_code(code).map(|why| why.to_string()),
        _ => Cause::from_code(code).map(|cause| cause.to_string()),
    };
    words.unwrap_or_else(|| code.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_rough() {
        for (seconds, text) in [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_199, "119m"),
            (7_200, "2h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (2_592_000, "30d"),
        ] {
            assert_eq!(rough(Duration::from_secs(seconds)), text);
        }
        let then = Moment::from_millis(5_000);
        assert_eq!(to_come(then, then), "now");
        assert_eq!(to_come(then, Moment::default()), "in 5s");
        assert_eq!(ago(then, Moment::from_millis(8_000)), "3s");
        assert_eq!(at_a_request(then, then), "at the next request");
        assert_eq!(at_a_request(then, Moment::default()), "in 5s at the earliest");
    }
}
