//! A robots.txt at the time of a decision, with line numbers as rules name them.

use askama::Template;
use axum::extract::{Path, RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CONTENT_TYPE;

use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::params;
use super::format::{line, number, octets};
use super::layout::{Layout, Page, Section};
use crawlgate_robots::{Explanation, decoded, lines};
use crawlgate_store::Sha256;
use crawlgate_text::{from_hex, hex};

/// Lines shown around each important one in a long file.
const AROUND: u32 = 100;

/// Lines of a file to show.
const MAX_SHOWN: usize = 3_000;

/// Characters of a line.
const WIDE: usize = 2_000;

/// Some lines of a file.
pub(super) struct Text {
    pub(super) lines: Vec<Line>,
    /// The URL of the whole file.
    pub(super) href: Option<String>,
    /// Number of lines.
    pub(super) count: String,
    /// True if lines are left out.
    pub(super) is_cut: bool,
}

/// A line.
pub(super) struct Line {
    pub(super) number: u32,
    pub(super) text: String,
    /// `decides`, `speaks`, or nothing.
    pub(super) class: &'static str,
}

impl Text {
    /// Returns the lines of `text`, or only those around important ones if there are too many.
    pub(super) fn of(
        text: &[u8],
        sha256: Option<&Sha256>,
        deciding: Option<u32>,
        explained: Option<&Explanation>,
    ) -> Text {
        let groups = explained.map_or(&[][..], |explained| &explained.groups);
        let speakers: Vec<u32> = groups.iter().map(|group| group.line).collect();
        let text = &*decoded(text);
        let count = lines(text).count();
        let is_long = count > MAX_SHOWN;
        let is_near = |line: u32| {
            let near = |other: &u32| line.abs_diff(*other) <= AROUND;
            deciding.iter().chain(&speakers).any(near)
        };
        let nothing_matters = deciding.is_none() && speakers.is_empty();
        let shown = (1_u32..)
            .zip(lines(text))
            .filter(|(line, _)| !is_long || nothing_matters || is_near(*line))
            .take(MAX_SHOWN);
        let lines: Vec<Line> = shown
            .map(|(number, text)| Line {
                number,
                text: cut(line(&octets(text))),
                class: match () {
                    () if deciding == Some(number) => "decides",
                    () if speakers.contains(&number) => "speaks",
                    () => "",
                },
            })
            .collect();
        Text {
            is_cut: lines.len() < count,
            lines,
            href: sha256.map(|sha256| format!("/robots/{}", hex(sha256))),
            count: number(count as u64),
        }
    }
}

fn cut(text: String) -> String {
    match text.char_indices().nth(WIDE) {
        None => text,
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
    }
}

#[derive(Template)]
#[template(path = "robots.html", config = "src/http/console/askama.toml")]
struct TextPage {
    layout: Layout,
    sha256: String,
    bytes: String,
    text: Text,
}

/// Serves `/robots/{sha256}`: the text, octet for octet with `?raw=true`.
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    Path(named): Path<String>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = params(query.as_deref());
    let is_raw = params.truth("raw")?.unwrap_or_default();
    params.finish(&["raw"])?;
    let sha256 = from_hex(&named.to_ascii_lowercase())
        .ok_or_else(|| Problem::bad(format!("{named}: a digest is 64 hexadecimal digits")))?;
    let text = app.require_store()?.snapshot(sha256).await?.ok_or_else(|| {
        Problem::missing(format!(
            "{named}: no robots.txt of this digest is in the store (any more)"
        ))
    })?;
    if is_raw {
        let mut response = text.into_response();
        // A browser shows the file as text, even if it holds HTML.
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        response.headers_mut().insert(CONTENT_TYPE, plain);
        return Ok(response);
    }
    let page = TextPage {
        layout: Layout::new(&app, &actor, Section::Origins, "A robots.txt"),
        sha256: hex(sha256),
        bytes: number(text.len() as u64),
        text: Text::of(&text, None, None, None),
    };
    Ok(Page(page).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_robots::{ParseOptions, Robots};

    #[test]
    fn a_long_file_shows_its_important_lines() {
        let rules: String = (2..=10_000).map(|n| format!("Disallow: /{n}\n")).collect();
        let long = format!("User-agent: *\n{rules}");
        let robots = Robots::parse(long.as_bytes(), ParseOptions::default());
        let explained = robots.explain(&[], b"/");
        let text = Text::of(long.as_bytes(), None, Some(9_000), Some(&explained));
        let numbers: Vec<u32> = text.lines.iter().map(|line| line.number).collect();
        assert!(text.is_cut);
        assert_eq!((numbers[0], numbers.len()), (1, 101 + 201));
        let deciding = text.lines.iter().find(|line| line.class == "decides");
        assert_eq!(deciding.map(|line| &*line.text), Some("Disallow: /9000"));

        let short = Text::of(b"User-agent: *\r\nDisallow: /\x1b", None, Some(2), None);
        assert!(!short.is_cut);
        assert_eq!(short.lines.len(), 2);
        assert_eq!(short.lines[1].text, "Disallow: /\\u{1b}");
    }
}
