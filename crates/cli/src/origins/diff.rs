//! Shows the changes from one robots.txt of an origin to another.

use std::fmt;
use std::str::FromStr;

use similar::TextDiff;

use super::NOTHING;
use crate::Failure;
use crate::terminal::escaped_on_terminal;
use crate::terminal::print;
use crawlgate_admin::query::when::{Edge, moment};
use crawlgate_robots::decoded;
use crawlgate_store::{Fetch, Sha256, Store, StoredOrigin};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_text::time_text;

/// Digits of a digest that suffice for a search.
const SHORTEST: usize = 6;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// One robots.txt of several: by its digest, or by a time when it was in force.
#[derive(Clone, Debug)]
pub(super) struct SnapshotRef(String);

impl FromStr for SnapshotRef {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<SnapshotRef, Self::Err> {
        Ok(SnapshotRef(text.to_owned()))
    }
}

impl fmt::Display for SnapshotRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A robots.txt and the time from which it was in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    sha256: Sha256,
    since: Moment,
}

/// Writes the difference in the unified format.
pub(super) async fn diff(
    points: &[SnapshotRef],
    found: &StoredOrigin,
    fetches: &[Fetch],
    store: &Store,
    now: Moment,
) -> Result<u8, Failure> {
    let versions = versions(fetches, found);
    let latest = versions.last().copied();
    let pair = match points {
        [] => {
            let before = versions.len().checked_sub(2);
            let before = before.and_then(|at| versions.get(at)).copied();
            before.zip(latest)
        }
        [a] => match latest {
            Some(latest) => Some((find(a, &versions, now)?, latest)),
            None => None,
        },
        [a, b, ..] => Some((find(a, &versions, now)?, find(b, &versions, now)?)),
    };
    let Some((old, new)) = pair else {
        let origin = &found.origin;
        print(format!("{origin}: no two robots.txt of it are known\n").as_bytes())?;
        return Ok(NOTHING);
    };
    let old_text = text_of(old, store).await?;
    let new_text = text_of(new, store).await?;
    print(&escaped_on_terminal(unified(old, &old_text, new, &new_text).as_bytes()))?;
    Ok(0)
}

fn unified(old: Version, old_text: &str, new: Version, new_text: &str) -> String {
    let name = |version: Version| {
        let digest = hex(version.sha256);
        format!("{}\t{}", digest, time_text(version.since))
    };
    TextDiff::from_lines(old_text, new_text)
        .unified_diff()
        .context_radius(CONTEXT)
        .header(&name(old), &name(new))
        .to_string()
}

/// Returns the robots.txt that were in force, oldest first, each with the first fetch that found it.
fn versions(fetches: &[Fetch], found: &StoredOrigin) -> Vec<Version> {
    let mut versions: Vec<Version> = Vec::new();
    for fetch in fetches.iter().rev() {
        if let Some(sha256) = fetch.sha256
            && versions.last().is_none_or(|last| last.sha256 != sha256)
        {
            let since = fetch.time;
            versions.push(Version { sha256, since });
        }
    }
    // The last good copy may be older than all stored fetches.
    if let Some(copy) = found.state.copy()
        && !versions.iter().any(|one| one.sha256 == copy.sha256)
    {
        let since = copy.fetched;
        let sha256 = copy.sha256;
        versions.insert(0, Version { sha256, since });
    }
    versions
}

fn find(point: &SnapshotRef, versions: &[Version], now: Moment) -> Result<Version, Failure> {
    let text = point.0.to_ascii_lowercase();
    let is_digest = text.len() >= SHORTEST && text.bytes().all(|octet| octet.is_ascii_hexdigit());
    if is_digest {
        let named = |version: &&Version| hex(version.sha256).starts_with(&text);
        let mut named = versions.iter().filter(named);
        let first = named.next().copied();
        return match (first, named.find(|other| Some(other.sha256) != first.map(|v| v.sha256))) {
            (Some(version), None) => Ok(version),
            (Some(_), Some(_)) => Err(format!("{point}: several robots.txt begin so").into()),
            (None, _) => {
                Err(format!("{point}: no robots.txt of this origin has that digest").into())
            }
        };
    }
    let then = moment(&point.0, Edge::Until, now)
        .map_err(|error| format!("{error}; or at least {SHORTEST} digits of a digest"))?;
    let in_force = versions.iter().rfind(|version| version.since <= then);
    let missing = || format!("{point}: no robots.txt from before that is known");
    Ok(in_force.copied().ok_or_else(missing)?)
}

async fn text_of(version: Version, store: &Store) -> Result<String, Failure> {
    let text = store.snapshot(version.sha256).await;
    let text = text?.ok_or_else(|| {
        format!("the robots.txt {} is no longer in the store", hex(version.sha256))
    })?;
    Ok(String::from_utf8_lossy(&decoded(&text)).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(first: u8, since: u64) -> Version {
        let mut sha256 = [0xab; 32];
        sha256[0] = first;
        let since = Moment::from_millis(since);
        Version { sha256, since }
    }

    #[test]
    fn a_version_is_found_by_digest_or_time() {
        let day = 86_400_000;
        // 2026-11-18 to 2026-11-20
        let start = 1_794_960_000_000;
        let versions = [0, 1, 2].map(|n| version(n as u8, start + n * day));
        let now = Moment::from_millis(start + 9 * day);
        for (name, text, expected) in [
            ("digits of a digest", "01abab", Some(1)),
            ("upper case", "02ABABAB", Some(2)),
            ("a time between two", "2026-11-18T12:00", Some(0)),
            ("the end of a day", "2026-11-18", Some(1)),
            ("a span", "6d ago", Some(2)),
            ("before all", "2026-11-01", None),
            ("another digest", "ffffff", None),
            ("too few digits", "01ab", None),
            ("neither", "yesterday-ish", None),
        ] {
            let found = find(&SnapshotRef(text.to_owned()), &versions, now);
            let expected = expected.and_then(|n: usize| versions.get(n).copied());
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_difference_is_unified() {
        let (old, new) = (version(1, 0), version(2, 1));
        let text =
            unified(old, "User-agent: *\nDisallow: /a\n", new, "User-agent: *\nDisallow: /b");
        assert!(text.starts_with("--- 01ab"), "{text}");
        assert!(text.contains("\n+++ 02ab"), "{text}");
        assert!(text.contains("\n-Disallow: /a\n+Disallow: /b\n"), "{text}");
    }
}
