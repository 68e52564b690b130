//! The report on a span, as the API and the console give it.

use std::time::Duration;

use http::StatusCode;

use super::AppState;
use super::problem::Problem;
use crate::query::{Conditions, InvalidParam};
use crawlgate_evidence::report::{Gathering, Report, ReportQuery};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_system::clock::Moment;

/// The span of a report unless the request names one.
pub(super) const DEFAULT_SINCE: &str = "30d";

/// Time for the records and counts so far to be written.
const PATIENCE: Duration = Duration::from_secs(1);

/// The parameters of a report.
pub(super) const PARAMETERS: [&str; 5] = ["since", "until", "client", "origin", "log"];

/// Reads the conditions of a report.
///
/// # Errors
/// The first condition that can never hold.
pub(super) fn question(conditions: &Conditions, now: Moment) -> Result<ReportQuery, InvalidParam> {
    let conditions = Conditions {
        since: (conditions.since.clone()).or_else(|| Some(DEFAULT_SINCE.to_owned())),
        until: (conditions.until.clone()).or_else(|| Some("now".to_owned())),
        ..conditions.clone()
    };
    let query = conditions.query(now)?;
    let question = ReportQuery {
        since: query.since.unwrap_or(now),
        until: query.until.unwrap_or(now),
        client: query.client,
        origin: query.origin,
        by: None,
    };
    if question.since < question.until {
        Ok(question)
    } else {
        Err(InvalidParam::new(
            "since",
            "is not before `until`, so the span is empty: begin it earlier",
        ))
    }
}

/// Returns the report on the span, the client and the origin of `conditions`, of the logs that `wanted` names. It is not
/// verified.
pub(super) async fn report(
    app: &AppState,
    conditions: &Conditions,
    wanted: Option<&str>,
) -> Result<Report, Problem> {
    let now = app.now();
    let question = question(conditions, now)?;
    let logs = app.logs(wanted)?;
    let _export = app.export_permit()?;
    // A log that cannot be written now is told of elsewhere.
    let _ = tokio::time::timeout(PATIENCE, app.proxy().log().flush_counts()).await;
    let mut gathering = {
        let _permit = app.work_permit().await?;
        Gathering::begin(&logs, question).await?
    };
    loop {
        // Each step waits for a permit like any other request: a report is as long as the log.
        let _permit = app.work_permit().await?;
        if gathering.step(&logs).await?.is_none() {
            break;
        }
    }
    let settings = app.proxy().settings();
    let _permit = app.work_permit().await?;
    let faults = gathering.faults();
    let mut trusted = Vec::new();
    for log in &logs {
        let config = log.config(&settings);
        let keys = if faults.iter().any(|fault| fault.log == *log.name()) {
            Trusted::of(&[], &config)
        } else {
            Trusted::of_store(&[], &config, &*logs.open(log).await?).await
        };
        trusted.push(match keys {
            Ok(keys) => keys,
            Err(error) if logs.only().is_none() => Trusted::unread(&error),
            Err(error) => return Err(Problem::new(StatusCode::CONFLICT, error.to_string())),
        });
    }
    Ok(Report::of(&gathering, &logs, &settings, &trusted, now).await?)
}
