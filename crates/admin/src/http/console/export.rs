//! Exports the decisions of a filter as a file: oldest first, page by page, as they are read.

use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tracing::warn;

use super::super::logs::MAX_PASSED;
use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::{Filter, params};
use crawlgate_evidence::csv::{heading, row, to_csv};
use crawlgate_store::logs::{ALL, EntryKind, Fault, Listed, Logs, MergedList, Places};
use crawlgate_store::{DecisionQuery, StoreError};

/// Decisions to read at once.
const PAGE: usize = 100;

/// Pages that wait for the client: a slow client does not grow memory.
const WAITING: usize = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Csv,
    Jsonl,
}

/// `/denials/export`
pub(super) async fn stream(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = params(query.as_deref());
    let filter = Filter::take(&mut params, "deny")?.with_log(&mut params, &app)?;
    let format = match params.word("format", &["csv", "jsonl"])?.as_deref() {
        Some("csv") => Format::Csv,
        _ => Format::Jsonl,
    };
    params.finish(&["format", "log"])?;
    let query = filter.query(&app)?;
    let permit = app.export_permit()?;
    let logs = app.logs(filter.wanted())?;
    let request = ExportRequest {
        actor,
        query,
        format,
        with_log: logs.only().is_none() || filter.log == ALL,
    };
    // Decisions made during the export are left out.
    let (head, faults) = {
        let _permit = app.work_permit().await?;
        logs.ends().await
    };
    // A file would not tell that a log is missing.
    if let Some(fault) = faults.into_iter().next() {
        let why = format!("{fault}; an export has all logs or none: choose the others");
        return Err(Problem::busy(why));
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        if let Err(error) = write(&app, &logs, &request, &head, &sender).await {
            warn!(%error, "an export has ended early");
            // The client sees that the file is not complete.
            let _ = sender.send(Err(std::io::Error::other(error))).await;
        }
        drop(permit);
    });
    let (media_type, name) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "decisions.csv"),
        Format::Jsonl => ("application/jsonl", "decisions.jsonl"),
    };
    let mut response = Body::from_stream(ReceiverStream::new(receiver)).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    let name = format!("attachment; filename=\"{name}\"");
    if let Ok(name) = HeaderValue::try_from(name) {
        headers.insert(CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

type Sender = mpsc::Sender<Result<Bytes, std::io::Error>>;

/// The end of an export before its last record.
#[derive(Debug, Error)]
enum ExportError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] Fault),
    #[error(transparent)]
    Problem(#[from] Problem),
    #[error(transparent)]
    Cells(#[from] csv::Error),
    #[error("a reload has removed or changed the user that asked for it")]
    Removed,
}

/// The decisions to write, and their form.
struct ExportRequest {
    /// The sender that asks for them.
    actor: Actor,
    query: DecisionQuery,
    format: Format,
    /// True if each has the name of its log.
    with_log: bool,
}

/// Writes the matching decisions up to `head`, in short steps that delay no other request.
async fn write(
    app: &AppState,
    logs: &Logs,
    request: &ExportRequest,
    head: &Places,
    sender: &Sender,
) -> Result<(), ExportError> {
    if request.format == Format::Csv {
        let log = request.with_log.then(|| "log".to_owned());
        let heading = log.into_iter().chain(heading().map(str::to_owned));
        let heading = to_csv([heading].into_iter())?;
        if sender.send(Ok(heading.into())).await.is_err() {
            return Ok(());
        }
    }
    let mut from: Option<Places> = None;
    loop {
        let query = request.query.clone();
        let mut list = MergedList::new(logs, EntryKind::Decisions, query).passing(MAX_PASSED);
        if let Some(from) = &from {
            list = list.after(from);
        }
        list = list.up_to(head);
        loop {
            let page = {
                // Each step waits for a permit like any other request: an export is as long as the store.
                let _permit = app.work_permit().await?;
                list.page(PAGE).await?
            };
            if !request.actor.stands(&app.proxy().settings().admin) {
                return Err(ExportError::Removed);
            }
            let octets = written(&page, request)?;
            if !page.is_empty() && sender.send(Ok(octets)).await.is_err() {
                return Ok(()); // the client has gone
            }
            if page.len() < PAGE {
                break;
            }
        }
        if let Some(fault) = list.faults().into_iter().next() {
            return Err(fault.into());
        }
        from = list.next_places();
        if from.is_none() {
            return Ok(());
        }
    }
}

fn written(page: &[Listed], request: &ExportRequest) -> Result<Bytes, csv::Error> {
    Ok(match request.format {
        Format::Csv => {
            let rows = page.iter().map(|one| {
                let log = request.with_log.then(|| one.log.to_string());
                log.into_iter().chain(row(&one.entry))
            });
            to_csv(rows)?.into()
        }
        Format::Jsonl => {
            let lines = page.iter().map(|one| {
                if request.with_log { one.line() + "\n" } else { format!("{}\n", one.entry.record) }
            });
            lines.collect::<String>().into()
        }
    })
}
