//! Shows one origin: its state, its pace, its robots.txt, the last fetches.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use http::Method;
use serde::{Deserialize, Serialize};

use super::diff::{self, SnapshotRef};
use super::{NOTHING, identity, origin};
use crate::Failure;
use crate::running::ask;
use crate::terminal::escaped_on_terminal;
use crate::terminal::{json_line, print, printable};
use crawlgate_admin::encoded;
use crawlgate_admin::view::{self, FetchEntry, OriginEntry};
use crawlgate_config::{Config, CrawlDelayMode, format_duration};
use crawlgate_gate::explain::contents::File;
use crawlgate_gate::explain::states::{about, ago, cause, lives, other_answer, stance, to_come};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_origins::document::Document;
use crawlgate_origins::identity::{Identity, OWN_STATES};
use crawlgate_origins::state::State;
use crawlgate_robots::{LintKind, Origin};
use crawlgate_store::persist::from_stored;
use crawlgate_store::{FETCHES_KEPT, Fetch, Store, StoredOrigin, StoredState};
use crawlgate_system::clock::Moment;
use crawlgate_text::hex;
use crawlgate_text::time_text;
use crawlgate_turns::pace::{Pace, Source};

/// The origin, and the parts to show.
#[derive(Args, Clone, Debug)]
pub(super) struct ShowArgs {
    /// The origin, such as https://example.com
    #[arg(value_parser = origin)]
    origin: Origin,
    /// The identity: a product token, or *; its tdmrep.json: tdmrep.json:* [default: the first one with a state]
    #[arg(long = "as", value_name = "IDENTITY", value_parser = identity)]
    identity: Option<Identity>,
    /// Print the current robots.txt, and nothing else
    #[arg(long, conflicts_with_all = ["diff", "json"])]
    robots: bool,
    /// Print the changes from one robots.txt to another: digests or the first digits of them, or times
    ///
    /// Without A and B: the latest change. With A alone: from then to now.
    #[arg(long, num_args = 0..=2, value_names = ["A", "B"], conflicts_with = "json")]
    diff: Option<Vec<SnapshotRef>>,
    /// Print all of it as one JSON object
    #[arg(long)]
    json: bool,
    /// Number of fetches to show
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    history: usize,
}

/// Shows the origin.
pub(super) async fn show(
    args: &ShowArgs,
    store: &Store,
    config: &Config,
    now: Moment,
) -> Result<u8, Failure> {
    let origin = &args.origin;
    let all = store.origin(origin).await?;
    let found = match &args.identity {
        Some(identity) => all.iter().find(|one| one.identity == *identity),
        None => all.iter().min_by_key(|one| one.identity.document()),
    };
    let Some(found) = found else {
        let name = args.identity.as_ref().map(|name| format!(" as {name}"));
        let name = name.unwrap_or_default();
        print(format!("{origin}: nothing is known of it{name}\n").as_bytes())?;
        return Ok(NOTHING);
    };
    let limit = FETCHES_KEPT * (OWN_STATES + 1) * Document::ALL.len();
    let mut fetches = store.fetches(origin, limit).await?;
    fetches.retain(|fetch| fetch.identity == found.identity);
    if let Some(points) = &args.diff {
        return diff::diff(points, found, &fetches, store, now).await;
    }
    let text = match found.state.copy() {
        Some(copy) => store.snapshot(copy.sha256).await?,
        None => None,
    };
    if args.robots {
        return robots(found, text);
    }
    let state = from_stored(&found.state, text.as_deref(), config.robots.lenient)
        .map_err(|broken| format!("{origin}: {broken}; `crawlgate store check` tells more"))?;
    let document = found.identity.document();
    let of_robots = state.snapshot().filter(|_| document == Document::RobotsTxt);
    let file = of_robots.map_or_else(File::default, |snapshot| {
        File::of(&snapshot.robots).with_notes(&snapshot.robots)
    });
    let shown = fetches.get(..args.history).unwrap_or(&fetches);
    let text = if args.json {
        let entry = Report {
            entry: OriginEntry::of(found),
            states: all.iter().map(OriginEntry::of).collect(),
            stance: stance(document, &state, &config.robots.timing.profile, now).0,
            pace: Pace::planned(&config.pace, crawl_delay(&state, config).as_deref())
                .map(view::Pace::of),
            file,
            history: shown.iter().map(FetchEntry::of).collect(),
        };
        json_line(&entry)
    } else {
        let trouble = trouble(origin, config).await;
        let mut lines = page(found, &state, &file, shown, (config, trouble), now);
        lines.others(&all, found);
        lines.0.into_bytes()
    };
    print(&text)?;
    Ok(0)
}

fn robots(found: &StoredOrigin, text: Option<Vec<u8>>) -> Result<u8, Failure> {
    match (found.state.copy(), text) {
        (None, _) => {
            let about = about(&found.state);
            let document = found.identity.document();
            let said = format!("{}: there is no {document}: {about}", found.origin);
            Err(said.into())
        }
        (Some(copy), None) => Err(Failure::from(format!(
            "{}: its {} {} is not in the store; `crawlgate store check` tells more",
            found.origin,
            found.identity.document(),
            hex(copy.sha256)
        ))),
        (Some(_), Some(text)) => {
            print(&escaped_on_terminal(&text))?;
            Ok(0)
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    #[serde(flatten)]
    entry: OriginEntry,
    /// The state for each identity.
    states: Vec<OriginEntry>,
    stance: &'static str,
    /// The planned pace. Only the running process knows a backoff.
    pace: Option<view::Pace>,
    #[serde(flatten)]
    file: File,
    history: Vec<FetchEntry>,
}

/// The part that only a running process knows.
#[derive(Deserialize)]
struct OfProcess {
    pace: Option<view::Pace>,
}

/// Returns the crawl delay for the configured crawler; without one, for any.
fn crawl_delay(state: &State, config: &Config) -> Option<Arc<CrawlDelay>> {
    state.snapshot()?.crawl_delay(&config.agent.product_tokens)
}

/// Returns the interval of an origin in backoff, which only a running process knows.
async fn trouble(origin: &Origin, config: &Config) -> Option<Duration> {
    let target = format!("/api/v1/origins/{}", encoded(origin.as_str()));
    let report = ask::<OfProcess>(config, Method::GET, &target, None, TIMEOUT).await;
    let pace = report.ok()??.pace?;
    let is_backoff = pace.source == Source::Backoff.as_str();
    is_backoff.then(|| Duration::from_millis(pace.interval_ms))
}

/// Describes the pace in words: the one in force, and the robots.txt's crawl delay.
fn pace(state: &State, config: &Config) -> String {
    let crawl_delay = crawl_delay(state, config);
    let in_force = Pace::planned(&config.pace, crawl_delay.as_deref());
    let mut text = match in_force {
        None => "as many requests as come".to_owned(),
        Some(pace) => format!("one request every {}", format_duration(pace.interval)),
    };
    if in_force.is_some_and(|pace| pace.source == Source::Own) {
        text.push_str(" ([pace] requests_per_second)");
    }
    if let Some(limit) = config.pace.concurrency {
        let _ = write!(text, ", {limit} at a time ([pace] concurrency)");
    }
    if let Some(crawl_delay) = crawl_delay {
        let kept = match in_force {
            Some(pace) if pace.clamped => " shortened by [pace] max_crawl_delay",
            Some(pace) if pace.source != Source::Own => " kept",
            _ if config.pace.crawl_delay == CrawlDelayMode::Record => {
                " not kept ([pace] crawl_delay = \"record\")"
            }
            _ => " kept: that is less",
        };
        let interval = format_duration(crawl_delay.interval);
        let (field, line, group) =
            (crawl_delay.field.as_str(), crawl_delay.line, &crawl_delay.group);
        let _ = write!(text, "; {group} is asked for {interval} ({field}, line {line}),{kept}");
    }
    text
}

/// Time for a running process to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Names to list; the others are counted.
const MAX_NAMED: usize = 20;

/// Returns the whole page, for people.
fn page(
    found: &StoredOrigin,
    state: &State,
    file: &File,
    fetches: &[Fetch],
    (config, trouble): (&Config, Option<Duration>),
    now: Moment,
) -> LabelledLines {
    let mut lines = LabelledLines(format!("{}\n", found.origin));
    let when = |then: Moment| format!("{} ({} ago)", time_text(then), ago(then, now));
    let to_be = |then: Moment| format!("{} ({})", time_text(then), to_come(then, now));
    let (fresh, outage) = lives(&found.state);
    lines.line("state", &format!("{}: {}", state.name(), about(&found.state)));
    lines.line("known as", &found.identity.to_string());
    lines.line("fetched with", &found.user_agent);
    lines.line(
        "requests",
        &stance(found.identity.document(), state, &config.robots.timing.profile, now).1,
    );
    lines.line("pace", &pace(state, config));
    if let Some(interval) = trouble {
        let interval = format_duration(interval);
        let text = format!(
            "asked at most once in {interval} at present: it asks for that, is slow or cannot be reached"
        );
        lines.line("in trouble", &text);
    }
    if let Some(copy) = found.state.copy() {
        lines.line(
            match found.identity.document() {
                Document::RobotsTxt => "robots",
                Document::TdmRep => "tdmrep",
            },
            &format!("{} from {}", copy.status, copy.final_url),
        );
        lines.line("sha256", &hex(copy.sha256));
        lines.line("fetched", &when(copy.fetched));
    }
    if let StoredState::Unavailable { fetched, .. } = &found.state {
        lines.line("fetched", &when(*fetched));
    }
    if let Some(fresh) = fresh {
        lines.line("fresh until", &to_be(fresh.until));
        lines.line("refreshed", &format!("on demand from {}", to_be(fresh.refresh_from)));
    }
    if let Some(outage) = outage {
        lines.line("failing since", &when(outage.since));
        lines.line("last attempt", &when(outage.last_attempt));
        lines.line("next attempt", &to_be(outage.next_attempt));
    }
    lines.file(file);
    lines.history(fetches);
    lines
}

/// Lines with a label each; control characters in foreign text are spelt out.
struct LabelledLines(String);

impl LabelledLines {
    fn line(&mut self, label: &str, text: &str) {
        let text = printable(text);
        let _ = writeln!(self.0, "  {label:<14} {text}"); // a String takes all
    }

    fn file(&mut self, file: &File) {
        for group in file.groups.iter().take(MAX_NAMED) {
            let names = group.user_agents.join(", ");
            let rules = match group.rules {
                1 => "1 rule".to_owned(),
                rules => format!("{rules} rules"),
            };
            self.line("group", &format!("{names} (line {}): {rules}", group.line));
        }
        self.left_out("group", file.groups.len());
        for sitemap in file.sitemaps.iter().take(MAX_NAMED) {
            self.line("sitemap", sitemap);
        }
        self.left_out("sitemap", file.sitemaps.len());
        for one in file.usage.iter().take(MAX_NAMED) {
            let group = if one.user_agents.is_empty() {
                one.speakers()
            } else {
                format!("group {}", one.speakers())
            };
            let note = one.note.map_or("", LintKind::as_str);
            let gap = if note.is_empty() { "" } else { "; " };
            let text = format!("{} (line {}, {group}{gap}{note})", one.value, one.line);
            self.line(one.field, &text);
        }
        self.left_out("usage", file.usage.len());
        for other in file.others.iter().take(MAX_NAMED) {
            self.line(other.field, &format!("{} (line {})", other.value, other.line));
        }
        self.left_out("others", file.others.len());
        for note in file.notes.iter().take(MAX_NAMED) {
            let gap = if note.text.is_empty() { "" } else { ": " };
            let text = format!("line {}: {}{gap}{}", note.line, note.message, note.text);
            self.line("note", &text);
        }
        self.left_out("note", file.notes.len());
    }

    fn left_out(&mut self, label: &str, count: usize) {
        if let Some(more) = count.checked_sub(MAX_NAMED).filter(|more| *more > 0) {
            self.line(label, &format!("… and {more} more, see --robots or --json"));
        }
    }

    /// Writes the states of other identities.
    fn others(&mut self, all: &[StoredOrigin], shown: &StoredOrigin) {
        let others: Vec<_> = all.iter().filter(|one| one.identity != shown.identity).collect();
        if !others.is_empty() {
            self.0.push_str("  known as others, too (--as IDENTITY shows more)\n");
        }
        for one in others {
            let (state, agent) = (&one.state, &one.user_agent);
            let text = format!("{}: {}, with {agent}", state.name(), about(state));
            self.line(&format!("  {}", one.identity), &text);
        }
    }

    fn history(&mut self, fetches: &[Fetch]) {
        if !fetches.is_empty() {
            self.0.push_str("  fetches, newest first\n");
        }
        for fetch in fetches {
            let cause = fetch.cause.as_deref().map(|code| cause(code, &fetch.result));
            let what = match (&fetch.sha256, &cause) {
                (Some(sha256), _) => hex(sha256).get(..12).unwrap_or_default().to_owned(),
                (None, Some(cause)) => cause.clone(),
                (None, None) => String::new(),
            };
            let hops = match fetch.hops.as_slice() {
                [] | [_] => String::new(),
                hops => format!(", by way of {}", hops.join(" → ")),
            };
            let text = format!(
                "{}  {:<11} {} ms  {what}{hops}",
                time_text(fetch.time),
                fetch.result,
                fetch.duration.as_millis(),
            );
            let other = fetch.other.as_ref().map(other_answer);
            let text = match other {
                Some(other) => format!("{text}, with {}; {other}", fetch.user_agent),
                None => text,
            };
            let _ = writeln!(self.0, "    {}", printable(&text)); // a String takes all
        }
    }
}
