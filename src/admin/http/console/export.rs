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

use super::super::Site;
use super::super::problem::Problem;
use super::denials::REACH;
use super::filter::{Filter, params, wrong};
use crate::audit::cells::{HEADING, cells, row};
use crate::store::{DecisionQuery, StoreError, StoredDecision};

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
    State(site): State<Site>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let mut params = params(query.as_deref());
    let filter = Filter::take(&mut params, "deny")?;
    let format = match params
        .word("format", &["csv", "jsonl"])
        .map_err(wrong)?
        .as_deref()
    {
        Some("csv") => Format::Csv,
        _ => Format::Jsonl,
    };
    params.finish(&["format"]).map_err(wrong)?;
    let query = filter.query(&site)?;
    let place = site.export()?;
    let last = {
        // Decisions made during the export are left out.
        let newest = DecisionQuery {
            newest_first: true,
            limit: 1,
            ..DecisionQuery::default()
        };
        let _turn = site.turn().await?;
        let newest = site.kept()?.decisions(newest).await?;
        newest.first().map_or(0, |newest| newest.seq)
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    tokio::spawn(async move {
        if let Err(error) = write(&site, query, format, last, &sender).await {
            warn!(%error, "an export has ended early");
            // The client sees that the file is not complete.
            let _ = sender.send(Err(std::io::Error::other(error))).await;
        }
        drop(place);
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
    Problem(#[from] Problem),
    #[error(transparent)]
    Cells(#[from] csv::Error),
}

/// Writes the matching decisions up to the record `last`, in short steps that delay no other request.
async fn write(
    site: &Site,
    query: DecisionQuery,
    format: Format,
    last: u64,
    sender: &Sender,
) -> Result<(), ExportError> {
    let store = site.kept()?;
    if format == Format::Csv {
        let heading = cells([HEADING.map(str::to_owned)].into_iter())?;
        if sender.send(Ok(heading.into())).await.is_err() {
            return Ok(());
        }
    }
    let mut from = 1;
    if let Some(first) = store.records(0, 1).await?.first() {
        from = first.seq;
    }
    while from <= last {
        let until = from.saturating_add(REACH);
        let mut after = from.saturating_sub(1);
        loop {
            let page = DecisionQuery {
                after: Some(after),
                to: Some(until.saturating_sub(1).min(last)),
                limit: PAGE,
                ..query.clone()
            };
            let page = {
                // Each step waits for a permit like any other request: an export is as long as the store.
                let _turn = site.turn().await?;
                store.decisions(page).await?
            };
            let Some(end) = page.last() else { break };
            after = end.seq;
            if sender.send(Ok(written(&page, format)?)).await.is_err() {
                return Ok(()); // the client has gone
            }
            if page.len() < PAGE {
                break;
            }
        }
        from = until;
    }
    Ok(())
}

fn written(page: &[StoredDecision], format: Format) -> Result<Bytes, csv::Error> {
    Ok(match format {
        Format::Csv => cells(page.iter().map(row))?.into(),
        Format::Jsonl => {
            let lines = page.iter().flat_map(|one| [&*one.record, "\n"]);
            lines.collect::<String>().into()
        }
    })
}
