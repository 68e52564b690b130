//! Decisions as they happen.

use std::convert::Infallible;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::routing::get;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;

use super::QueryParams;
use crate::http::problem::Problem;
use crate::http::{Actor, AppState};
use crate::query::params::CONDITIONS;
use crate::query::{Conditions, InvalidParam};
use crawlgate_evidence::live::{Line, LiveEvent, Watch};
use crawlgate_evidence::words::answer;
use crawlgate_record::Entry;
use crawlgate_store::search::Search;

/// The interval of the comments that keep the feed open.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// The interval of the checks that the reader may go on. A reload that removes the reader ends a feed without events, too.
const CHECK: Duration = Duration::from_secs(1);

/// Events that wait for a reader; the reader misses more.
const WAITING: usize = 16;

pub(super) fn routes() -> Router<AppState> {
    Router::new().route("/decisions/live", get(live))
}

/// Decisions as they happen, as server-sent events
///
/// Each event `decision` is an object with `recorded`, true if the decision is stored too, the `outcome` of the request, the
/// status and error of its `answer`, and `record`. Without
/// conditions, an event `event` is the line of a record that is no decision, once it is written. An event `missed` gives
/// as `count` the number of events left out, because there were too many or the reader was slow.
/// `since`, `until` and `acknowledged` do not apply here.
#[cfg_attr(feature = "openapi", utoipa::path(
    get, path = "/decisions/live", tag = "decisions",
    params(Conditions),
    responses(
        (status = 200, description = "Events, until either side ends it", body = String, content_type = "text/event-stream"),
        (status = "4XX", description = "The request is not valid"),
        (status = "5XX", description = "Too many readers (503)"),
    ),
))]
pub(super) async fn live(
    State(app): State<AppState>,
    actor: Actor,
    QueryParams(mut params): QueryParams,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Problem> {
    let conditions = params.conditions()?;
    params.finish(&CONDITIONS)?;
    let senseless = [
        ("since", conditions.since.is_some()),
        ("until", conditions.until.is_some()),
        ("acknowledged", conditions.acknowledged.is_some()),
    ];
    if let Some((name, _)) = senseless.iter().find(|(_, is_said)| *is_said) {
        return Err(InvalidParam::new(name, "does not apply to future decisions").into());
    }
    let is_all = conditions == Conditions::default();
    let search = Search::new(&conditions.query(app.now())?)?;
    let watch = app
        .proxy()
        .log()
        .watch()
        .ok_or_else(|| Problem::busy("too many live views are open; close another one"))?;
    let (events, waiting) = mpsc::channel(WAITING);
    // Ends with the reader: its end of the channel goes with the connection.
    let reader = Reader { app, actor, is_all };
    tokio::spawn(show(watch, search, reader, events));
    let heartbeat = KeepAlive::new().interval(HEARTBEAT);
    Ok(Sse::new(ReceiverStream::new(waiting)).keep_alive(heartbeat))
}

/// The reader of a feed.
struct Reader {
    app: AppState,
    actor: Actor,
    /// True if it reads records that are no decisions, too.
    is_all: bool,
}

impl Reader {
    /// Tells whether the reader may go on: a reload may have removed the user.
    fn stands(&self) -> bool {
        let settings = self.app.proxy().settings();
        self.actor.stands(&settings.admin)
    }
}

async fn show(
    mut watch: Watch,
    search: Search,
    reader: Reader,
    events: mpsc::Sender<Result<Event, Infallible>>,
) {
    let open = Event::default().event("open").data("{}");
    if events.send(Ok(open)).await.is_err() {
        return;
    }
    let mut checks = tokio::time::interval(CHECK);
    loop {
        let seen = tokio::select! {
            seen = watch.next() => seen,
            () = events.closed() => return,
            _ = checks.tick() => {
                if reader.stands() {
                    continue;
                }
                return;
            }
        };
        let event = match seen {
            LiveEvent::Line(line) if is_wanted(&search, &line) => decision(&line),
            LiveEvent::Event(line) if reader.is_all => Event::default().event("event").data(line),
            LiveEvent::Line(_) | LiveEvent::Event(_) => continue,
            LiveEvent::Missed(count) => {
                Event::default().event("missed").data(format!("{{\"count\":{count}}}"))
            }
        };
        if !reader.stands() || events.send(Ok(event)).await.is_err() {
            return;
        }
    }
}

fn is_wanted(search: &Search, line: &Line) -> bool {
    match Entry::read(&line.entry) {
        Ok(Entry::Decision(decision)) => search.admits(&decision, false),
        _ => false,
    }
}

fn decision(line: &Line) -> Event {
    let Line { text, is_recorded, entry, .. } = line;
    let (outcome, answer) = match Entry::read(entry) {
        Ok(Entry::Decision(one)) => (one.outcome().as_str(), answer(&one)),
        // An entry of ours can be read.
        _ => Default::default(),
    };
    // A record is a JSON object on one line, and the words beside it are ours.
    let data = format!(
        "{{\"recorded\":{is_recorded},\"outcome\":\"{outcome}\",\"answer\":\"{answer}\",\"record\":{text}}}"
    );
    Event::default().event("decision").data(data)
}
