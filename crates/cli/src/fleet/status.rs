//! `crawlgate fleet status`: the link, the engine and the members.

use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use http::Method;

use super::require;
use crate::running::ask;
use crate::service::join;
use crate::terminal::{self, printable};
use crate::{Failure, small_runtime};
use crawlgate_config::Config;
use crawlgate_turns::fleet::overview::{EngineView, FleetCounts, FleetView, LinkView, MemberView};
use crawlgate_turns::fleet::view_from_outside;

/// The time for the running process to answer.
const TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args, Clone, Debug)]
pub(super) struct StatusArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Shows the fleet as the running process sees it, or as the engine tells.
pub(super) fn run(args: &StatusArgs, config: &Config) -> Result<(), Failure> {
    require(config)?;
    let view = small_runtime()?.block_on(view(config))?;
    let text = if args.json {
        let text = serde_json::to_string(&view);
        format!("{}\n", text?)
    } else {
        as_text(&view, terminal::width())
    };
    terminal::print(text.as_bytes()).map(drop)
}

async fn view(config: &Config) -> Result<FleetView, Failure> {
    if let Some(view) = ask(config, Method::GET, "/api/v1/fleet", None, TIMEOUT).await? {
        return Ok(view);
    }
    let engine = join::engine(config)?;
    let view = view_from_outside(&engine, config).await;
    Ok(view.map_err(|error| format!("{error}; `crawlgate fleet check` says more"))?)
}

fn as_text(view: &FleetView, width: Option<usize>) -> String {
    let mut text = String::new();
    match (&view.instance, &view.link) {
        (Some(name), Some(link)) => tell_link(&mut text, name, link),
        _ => text.push_str("instance    none runs here; the engine tells this itself\n"),
    }
    if let Some(engine) = &view.engine {
        tell_engine(&mut text, engine);
    }
    if let Some(counts) = &view.counts {
        tell_counts(&mut text, counts);
    }
    text.push('\n');
    const HEADING: [&str; 7] =
        ["MEMBER", "LINK", "HEARD", "OVERRIDES", "SINCE", "VERSION", "DIFFERS IN"];
    text + &terminal::table(HEADING, view.members.iter().map(row), width)
}

fn row(one: &MemberView) -> [String; 7] {
    let or_dash = |text: &str| match text {
        "" => "-".to_owned(),
        text => text.to_owned(),
    };
    [
        one.name.clone(),
        or_dash(&one.link),
        format!("{} ago", span(one.silent_ms)),
        one.overrides.to_string(),
        or_dash(one.since.as_deref().unwrap_or_default()),
        or_dash(&one.version),
        or_dash(&one.differs.join(", ")),
    ]
}

fn tell_link(text: &mut String, name: &str, link: &LinkView) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "instance    {}", printable(name));
    let since = link.since.as_deref().unwrap_or("-");
    let _ = write!(text, "link        {} since {since}", link.state.replace('_', " "));
    let _ = match (link.heard_ms, link.round_trip_us) {
        (Some(heard), Some(trip)) => {
            let trip = Duration::from_micros(trip).as_secs_f64() * 1_000.0;
            writeln!(text, ", last answer {} ago after {trip:.1} ms", span(heard))
        }
        _ => writeln!(text, ", no answer yet"),
    };
    let _ = writeln!(text, "overrides   change {}", link.overrides);
    if link.generations > 1 {
        let _ = writeln!(text, "losses      {} since this instance began", link.generations - 1);
    }
}

fn tell_engine(text: &mut String, engine: &EngineView) {
    let mebibytes = |octets: u64| format!("{:.1} MiB", octets as f64 / f64::from(1 << 20));
    let limit = match engine.memory_limit {
        Some(limit) => format!("of {}", mebibytes(limit)),
        None => "without a limit".to_owned(),
    };
    let _ = writeln!(
        text,
        "engine      {}, {}, {} {limit}",
        printable(&engine.address),
        printable(&engine.version),
        mebibytes(engine.memory_used)
    );
    if let Some(ahead) = engine.clock_ahead_ms.filter(|ahead| ahead.unsigned_abs() >= 1_000) {
        let side = if ahead > 0 { "ahead of" } else { "behind" };
        let apart = span(ahead.unsigned_abs());
        let _ = writeln!(text, "clock       {apart} {side} the engine's");
    }
    if let Some(age) = engine.generation_age_ms {
        let _ =
            writeln!(text, "generation  {} old: the engine has forgotten nothing since", span(age));
    }
    if engine.observed_ms >= 1_000 {
        let _ = writeln!(text, "observed    {} ago", span(engine.observed_ms));
    }
}

fn tell_counts(text: &mut String, counts: &FleetCounts) {
    let FleetCounts {
        heartbeats_failed,
        leases_held,
        leases_acquired,
        leases_lost,
        results_refused,
        turns_asked,
        turns_granted,
        scripts_refused,
        scripts_unanswered,
        unsealed,
    } = counts;
    let _ = writeln!(
        text,
        "leases      {leases_held} held, {leases_acquired} acquired, {leases_lost} lost; {results_refused} late results refused"
    );
    let _ = writeln!(text, "turns       {turns_asked} asked for, {turns_granted} granted");
    let _ = writeln!(
        text,
        "failures    {heartbeats_failed} heartbeats and {scripts_unanswered} scripts without an answer, {scripts_refused} scripts refused"
    );
    let _ = writeln!(
        text,
        "unsealed    {unsealed} states and overrides that the fleet's key did not make"
    );
}

/// Writes a time in its largest unit: `120 ms`, `4 s`, `3 min`, `7 h`.
fn span(millis: u64) -> String {
    match millis {
        0..1_000 => format!("{millis} ms"),
        1_000..120_000 => format!("{} s", millis / 1_000),
        120_000..7_200_000 => format!("{} min", millis / 60_000),
        _ => format!("{} h", millis / 3_600_000),
    }
}
