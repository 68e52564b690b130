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
pub(super) const PARAMETERS: [&str; 4] = ["since", "until", "client", "origin"];

/// Returns the report on the span, the client and the origin of `conditions`. It is not verified.
pub(super) async fn report(site: &Site, conditions: Conditions) -> Result<Report, Problem> {
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
    let store = site.kept()?;
    let _place = site.export()?;
    let mut gathering = {
        let _turn = site.turn().await?;
        Gathering::begin(&**store, question).await?
    };
    loop {
        // Each step waits for a permit like any other request: a report is as long as the log.
        let _turn = site.turn().await?;
        if gathering.step(&**store).await?.is_none() {
            break;
        }
    }
    let settings = site.proxy().settings();
    let trusted = Trusted::of_store(&[], &settings, &**store)
        .await
        .map_err(|error| Problem::new(StatusCode::CONFLICT, error.to_string()))?;
    let _turn = site.turn().await?;
    Ok(Report::of(&gathering, &**store, &settings, &trusted, now).await?)
}
