//! The report on a span, as the API and the console give it.

use http::StatusCode;

use super::Site;
use super::problem::Problem;
use crate::admin::query::Conditions;
use crate::audit::report::{Gathering, Question, Report};
use crate::audit::verify::case::Trusted;

/// The span of a report unless the request names one.
pub(super) const USUAL_SINCE: &str = "30d";

/// The parameters of a report.
pub(super) const PARAMETERS: [&str; 5] = ["since", "until", "client", "origin", "log"];

/// Returns the report on the span, the client and the origin of `conditions`, of the logs that `wanted` names. It is not
/// verified.
pub(super) async fn report(
    site: &Site,
    conditions: Conditions,
    wanted: Option<&str>,
) -> Result<Report, Problem> {
    let now = site.now();
    let conditions = Conditions {
        since: conditions.since.or_else(|| Some(USUAL_SINCE.to_owned())),
        until: conditions.until.or_else(|| Some("now".to_owned())),
        ..conditions
    };
    let query = conditions.query(now)?;
    let question = Question {
        since: query.since.unwrap_or(now),
        until: query.until.unwrap_or(now),
        client: query.client,
        origin: query.origin,
        by: None,
    };
    if question.since >= question.until {
        let why = "the span is empty: begin it with a `since` before its `until`";
        return Err(Problem::bad(why.to_owned()));
    }
    let logs = site.logs(wanted)?;
    let _place = site.export()?;
    let mut gathering = {
        let _turn = site.turn().await?;
        Gathering::begin(&logs, question).await?
    };
    loop {
        // Each step waits for a permit like any other request: a report is as long as the log.
        let _turn = site.turn().await?;
        if gathering.step(&logs).await?.is_none() {
            break;
        }
    }
    let settings = site.proxy().settings();
    let _turn = site.turn().await?;
    let faults = gathering.faults();
    let mut trusted = Vec::new();
    for log in &logs {
        let config = log.config(&settings);
        let keys = match faults.iter().any(|fault| fault.log == *log.name()) {
            true => Trusted::of(&[], &config),
            false => Trusted::of_store(&[], &config, &*logs.open(log).await?).await,
        };
        trusted.push(match keys {
            Ok(keys) => keys,
            Err(error) if logs.only().is_none() => Trusted::unread(&error),
            Err(error) => return Err(Problem::new(StatusCode::CONFLICT, error.to_string())),
        });
    }
    Ok(Report::of(&gathering, &logs, &settings, &trusted, now).await?)
}
