//! The list: one line per origin, page by page.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::{NOTHING, StateName};
use crate::audit::time_text;
use crate::cli::screen;
use crate::clock::Moment;
use crate::robots::memory::hex;
use crate::robots::state::{Fresh, Outage};
use crate::store::{CopyOf, OriginMemory, OriginQuery, Remembered, Store};

/// Origins that are read at once.
const PAGE: usize = 500;

/// Origins listed where nobody says how many.
const LIMIT: usize = 100;

/// Which origins, and how.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
pub(super) struct ListArgs {
    /// Those in this state
    #[arg(long, value_name = "STATE")]
    state: Option<StateName>,
    /// Those whose name holds this
    #[arg(long, value_name = "TEXT")]
    containing: Option<String>,
    /// Those after this one, in the order of their names
    #[arg(long, value_name = "ORIGIN")]
    after: Option<String>,
    /// So many
    #[arg(long, short = 'n', value_name = "COUNT", default_value_t = LIMIT)]
    limit: usize,
    /// All there are, page by page
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
}

impl Default for ListArgs {
    fn default() -> ListArgs {
        ListArgs {
            state: None,
            containing: None,
            after: None,
            limit: LIMIT,
            all: false,
            json: false,
        }
    }
}

/// Writes the list.
pub(super) async fn list(args: &ListArgs, store: &dyn Store, now: Moment) -> Result<u8, String> {
    let mut left = if args.all { usize::MAX } else { args.limit };
    let mut after = args.after.clone();
    let mut is_first = true;
    while left > 0 {
        let limit = left.min(PAGE);
        let query = OriginQuery {
            after: after.clone(),
            containing: args.containing.clone(),
            state: args.state.map(|state| state.as_str().to_owned()),
            limit,
        };
        let page = store.origins(query).await.map_err(|e| e.to_string())?;
        let mut text = String::new();
        if is_first && !args.json && !page.is_empty() {
            text.push_str(&line(["ORIGIN", "STATE", "SINCE", "NEXT"], "ABOUT"));
        }
        for found in &page {
            if args.json {
                text.push_str(&Entry::of(found).json()?);
                text.push('\n');
            } else {
                text.push_str(&row(found, now));
            }
        }
        if !screen::say(text.as_bytes())? {
            return Ok(0);
        }
        let is_last = page.len() < limit;
        if is_first && page.is_empty() {
            return Ok(NOTHING);
        }
        is_first = false;
        left -= page.len();
        after = page.last().map(|found| found.origin.to_string());
        if is_last {
            return Ok(0);
        }
    }
    // Only people want to be told; scripts have said how many they want.
    if let Some(after) = after.filter(|_| std::io::stdout().is_terminal()) {
        screen::say(format!("… there may be more: --after {after}, or --all\n").as_bytes())?;
    }
    Ok(0)
}

fn row(found: &OriginMemory, now: Moment) -> String {
    let state = &found.state;
    let since = match state {
        Remembered::Successful { copy, .. } => copy.fetched,
        Remembered::Unavailable { fetched, .. } => *fetched,
        Remembered::Unreachable { outage, .. } => outage.since,
    };
    let next = next_fetch(state);
    line(
        [
            found.origin.as_str(),
            state.name(),
            &ago(since, now),
            &to_come(next, now),
        ],
        &about(state),
    )
}

fn line([origin, state, since, next]: [&str; 4], about: &str) -> String {
    let origin = screen::printable(origin);
    let about = screen::printable(about);
    format!("{origin:<40} {state:<12} {since:>8} {next:>8}  {about}\n")
}

/// When the next request makes a fetch necessary or possible.
pub(super) fn next_fetch(state: &Remembered) -> Moment {
    let (fresh, outage) = lives(state);
    match (fresh, outage) {
        (_, Some(outage)) => outage.next_attempt,
        (Some(fresh), None) => fresh.until,
        (None, None) => Moment::default(),
    }
}

/// How long it holds, and what has failed since.
pub(super) fn lives(state: &Remembered) -> (Option<&Fresh>, Option<&Outage>) {
    match state {
        Remembered::Successful { fresh, outage, .. }
        | Remembered::Unavailable { fresh, outage, .. } => (Some(fresh), outage.as_ref()),
        Remembered::Unreachable { outage, .. } => (None, Some(outage)),
    }
}

/// What there is to say of a state in a few words.
pub(super) fn about(state: &Remembered) -> String {
    let (_, outage) = lives(state);
    let mut text = match state {
        Remembered::Successful { copy, .. } => octets(copy),
        Remembered::Unavailable { why, .. } => why.to_string(),
        Remembered::Unreachable {
            last_good: Some(copy),
            ..
        } => format!("last good copy: {}", octets(copy)),
        Remembered::Unreachable {
            last_good: None, ..
        } => "no copy".to_owned(),
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

fn octets(copy: &CopyOf) -> String {
    let cut = if copy.truncated {
        ", cut at the size limit"
    } else {
        ""
    };
    format!("{} octets{cut}", copy.bytes)
}

/// How long ago: `3h`.
pub(super) fn ago(then: Moment, now: Moment) -> String {
    rough(now.since(then))
}

/// How long until then: `in 3h`, or `now` where that is over.
pub(super) fn to_come(then: Moment, now: Moment) -> String {
    if then <= now {
        "now".to_owned()
    } else {
        format!("in {}", rough(then.since(now)))
    }
}

/// A duration in its largest unit, of which there are two at least.
fn rough(duration: Duration) -> String {
    let seconds = duration.as_secs();
    for (unit, scale) in [("d", 86_400), ("h", 3_600), ("m", 60)] {
        if seconds >= 2 * scale {
            return format!("{}{unit}", seconds / scale);
        }
    }
    format!("{seconds}s")
}

/// An origin as JSON.
#[derive(Debug, Serialize)]
pub(super) struct Entry {
    origin: String,
    state: &'static str,
    updated: String,
    /// The file that is held.
    robots: Option<CopyEntry>,
    /// Why it counts as having none.
    why: Option<String>,
    /// When that was learnt.
    fetched: Option<String>,
    refresh_from: Option<String>,
    fresh_until: Option<String>,
    outage: Option<OutageEntry>,
}

#[derive(Debug, Serialize)]
struct CopyEntry {
    sha256: String,
    fetched: String,
    status: u16,
    url: String,
    bytes: u64,
    truncated: bool,
}

#[derive(Debug, Serialize)]
struct OutageEntry {
    since: String,
    cause: String,
    attempts: u32,
    next_attempt: String,
}

impl Entry {
    pub(super) fn of(found: &OriginMemory) -> Entry {
        let state = &found.state;
        let (fresh, outage) = lives(state);
        let (why, fetched) = match state {
            Remembered::Successful { copy, .. } => (None, Some(time_text(copy.fetched))),
            Remembered::Unavailable { why, fetched, .. } => {
                (Some(why.code()), Some(time_text(*fetched)))
            }
            Remembered::Unreachable { .. } => (None, None),
        };
        Entry {
            origin: found.origin.to_string(),
            state: state.name(),
            updated: time_text(found.updated),
            robots: state.copy().map(|copy| CopyEntry {
                sha256: hex(&copy.sha256),
                fetched: time_text(copy.fetched),
                status: copy.status,
                url: copy.final_url.clone(),
                bytes: copy.bytes,
                truncated: copy.truncated,
            }),
            why,
            fetched,
            refresh_from: fresh.map(|fresh| time_text(fresh.refresh_from)),
            fresh_until: fresh.map(|fresh| time_text(fresh.until)),
            outage: outage.map(|outage| OutageEntry {
                since: time_text(outage.since),
                cause: outage.cause.code(),
                attempts: outage.attempts,
                next_attempt: time_text(outage.next_attempt),
            }),
        }
    }

    fn json(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|error| error.to_string())
    }
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
    }
}
