//! The changes from one robots.txt to another, line by line.

use std::time::Duration;

use askama::Template;
use axum::extract::{RawQuery, State};
use similar::{ChangeTag, TextDiff};

use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::denials::origin_link;
use super::filter::params;
use super::layout::{Layout, Page, PageResult, Section};
use super::origin::named;
use crawlgate_robots::decoded;
use crawlgate_store::Store;
use crawlgate_text::from_hex;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// Time to look for the shortest edit; after it, a longer one will do.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Lines shown at most.
const MAX_SHOWN: usize = 3_000;

#[derive(Template)]
#[template(path = "diff.html", config = "src/http/console/askama.toml")]
pub(super) struct DiffPage {
    layout: Layout,
    name: String,
    back: String,
    old: String,
    new: String,
    hunks: Vec<Vec<Change>>,
    is_cut: bool,
}

/// A line of one file, or of both.
struct Change {
    class: &'static str,
    sign: &'static str,
    old: Option<usize>,
    new: Option<usize>,
    text: String,
}

/// `/origin/diff?of=…&old=…&new=…`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<DiffPage> {
    let mut params = params(query.as_deref());
    let of = params.text("of")?;
    let old = params.text("old")?.unwrap_or_default();
    let new = params.text("new")?.unwrap_or_default();
    params.finish(&["of", "old", "new"])?;
    let origin = named(of)?;
    let store = app.require_store()?;
    let old_text = text(store, "old", &old).await?;
    let new_text = text(store, "new", &new).await?;
    let permit = app.work_permit().await?;
    // Comparing two long files may take a while: not on a thread that serves others.
    let compared = tokio::task::spawn_blocking(move || compare(&old_text, &new_text));
    let (hunks, is_cut) = compared
        .await
        .map_err(|error| Problem::busy(format!("they cannot be compared: {error}")))?;
    drop(permit);
    Ok(Page(DiffPage {
        layout: Layout::new(&app, &actor, Section::Origins, "What has changed"),
        name: origin.to_string(),
        back: origin_link(origin.as_str()),
        old,
        new,
        hunks,
        is_cut,
    }))
}

async fn text(store: &Store, name: &str, named: &str) -> Result<String, Problem> {
    let sha256 = from_hex(&named.to_ascii_lowercase()).ok_or_else(|| {
        Problem::bad(format!("{name} {named}: a digest is 64 hexadecimal digits"))
    })?;
    let text = store.snapshot(sha256).await?.ok_or_else(|| {
        Problem::missing(format!("{name} {named}: this robots.txt is not in the store (any more)"))
    })?;
    Ok(String::from_utf8_lossy(&decoded(&text)).into_owned())
}

/// Returns the changes with the lines around them, and whether some are left out.
fn compare(old: &str, new: &str) -> (Vec<Vec<Change>>, bool) {
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(old, new);
    let (mut hunks, mut count) = (Vec::new(), 0);
    for group in diff.grouped_ops(CONTEXT) {
        let mut hunk = Vec::new();
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            count += 1;
            if count > MAX_SHOWN {
                hunks.push(hunk);
                return (hunks, true);
            }
            let (class, sign) = match change.tag() {
                ChangeTag::Delete => ("removed", "−"),
                ChangeTag::Insert => ("added", "+"),
                ChangeTag::Equal => ("", " "),
            };
            hunk.push(Change {
                class,
                sign,
                old: change.old_index().map(|index| index + 1),
                new: change.new_index().map(|index| index + 1),
                text: change.value().trim_end_matches(['\r', '\n']).to_owned(),
            });
        }
        hunks.push(hunk);
    }
    (hunks, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_shown_with_what_is_around_it() {
        let old: String = (1..=20).map(|n| format!("Disallow: /{n}\n")).collect();
        let new = old.replace("Disallow: /10\n", "Disallow: /ten\n");
        let (hunks, is_cut) = compare(&old, &new);
        assert!(!is_cut);
        let [hunk] = &*hunks else { panic!("one change") };
        let lines: Vec<(&str, Option<usize>, Option<usize>)> =
            hunk.iter().map(|one| (one.sign, one.old, one.new)).collect();
        assert_eq!(lines.len(), 3 + 2 + 3);
        assert_eq!(lines[3], ("−", Some(10), None));
        assert_eq!(lines[4], ("+", None, Some(10)));
        assert_eq!(compare(&old, &old).0.len(), 0);
    }
}
