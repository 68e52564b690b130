//! The report on a span, as a page and as files.

use askama::Template;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, StatusCode};
use url::form_urlencoded::Serializer;

use super::super::problem::Problem;
use super::super::report::{DEFAULT_SINCE, PARAMETERS, question, report};
use super::super::{Actor, AppState};
use super::filter::{FieldErrors, LogChoice, log_choices, params};
use super::layout::{FormResult, Layout, Page, Section};
use crate::query::Conditions;

#[derive(Template)]
#[template(path = "report.html", config = "src/http/console/askama.toml")]
pub(super) struct ReportPage {
    layout: Layout,
    since: String,
    until: String,
    client: String,
    origin: String,
    logs: Vec<LogChoice>,
    /// The query of the same report.
    link: String,
    is_kept: bool,
    /// The sections, as HTML.
    sections: String,
    faults: FieldErrors,
}

impl ReportPage {
    fn fault(&self, name: &str) -> Option<String> {
        self.faults.of(name)
    }

    fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Tells whether the form has anything that a report has not by default: such a form is not folded.
    fn is_set(&self) -> bool {
        let texts = [&self.until, &self.client, &self.origin];
        let is_usual = self.since == DEFAULT_SINCE && texts.iter().all(|text| text.is_empty());
        !is_usual
            || self.has_faults()
            || self.logs.iter().any(|log| log.is_chosen && !log.value.is_empty())
    }
}

/// Reads the conditions of a form, and the logs.
fn asked(query: Option<&str>) -> Result<(Conditions, Option<String>), Problem> {
    let mut params = params(query);
    let conditions = Conditions {
        since: params.text("since")?,
        until: params.text("until")?,
        client: params.text("client")?,
        origin: params.text("origin")?,
        ..Conditions::default()
    };
    let log = params.text("log")?;
    params.finish(&PARAMETERS)?;
    Ok((conditions, log))
}

/// `/report`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> FormResult<ReportPage> {
    let (conditions, log) = asked(query.as_deref())?;
    let is_kept = app.store().is_some() || log.is_some();
    let faults = FieldErrors::find(&conditions, app.now(), |conditions, now| {
        question(conditions, now).map(drop)
    });
    let status = faults.status(&headers)?;
    let sections = if is_kept && status == StatusCode::OK {
        let report = report(&app, &conditions, log.as_deref()).await?;
        report.sections().map_err(|error| unwritten(&error))?
    } else {
        String::new()
    };
    let names: Vec<String> = if app.has_collection() {
        app.all_logs()?.iter().map(|log| log.name().to_string()).collect()
    } else {
        Vec::new()
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let mut link = Serializer::new(String::new());
    let since = conditions.since.as_deref().unwrap_or(DEFAULT_SINCE);
    link.append_pair("since", since);
    for (name, value) in [
        ("until", &conditions.until),
        ("client", &conditions.client),
        ("origin", &conditions.origin),
        ("log", &log),
    ] {
        if let Some(value) = value {
            link.append_pair(name, value);
        }
    }
    let page = ReportPage {
        layout: Layout::new(&app, &actor, Section::Report, "Report"),
        since: since.to_owned(),
        until: text(&conditions.until),
        client: text(&conditions.client),
        origin: text(&conditions.origin),
        logs: log_choices(&names, &text(&log)),
        link: link.finish(),
        is_kept,
        sections,
        faults,
    };
    Ok((status, Page(page)))
}

/// `/report/crawlgate-report.html`
pub(super) async fn html(
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (conditions, log) = asked(query.as_deref())?;
    let report = report(&app, &conditions, log.as_deref()).await?;
    let page = report.html().map_err(|error| unwritten(&error))?;
    let name = "attachment; filename=\"crawlgate-report.html\"";
    Ok(file("text/html; charset=utf-8", name, page.into_bytes()))
}

/// `/report/crawlgate-report.json`
pub(super) async fn json(
    State(app): State<AppState>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let (conditions, log) = asked(query.as_deref())?;
    let report = report(&app, &conditions, log.as_deref()).await?;
    let json = report.json().map_err(|error| unwritten(&error))?;
    let name = "attachment; filename=\"crawlgate-report.json\"";
    Ok(file("application/json", name, json))
}

fn file(media_type: &'static str, name: &'static str, octets: Vec<u8>) -> Response {
    let mut response = octets.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(name));
    response
}

fn unwritten(error: &dyn std::fmt::Display) -> Problem {
    let why = format!("the report cannot be written: {error}");
    Problem::new(http::StatusCode::INTERNAL_SERVER_ERROR, why)
}
