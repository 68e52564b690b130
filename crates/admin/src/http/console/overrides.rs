//! The overrides in force, and a form for more.

use askama::Template;
use axum::extract::{RawQuery, State};
use serde::Deserialize;

use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::{FieldErrors, params};
use super::format::{Timestamp, encoded, line};
use super::layout::{Layout, Page, PageResult, Section};
use crawlgate_policy::overrides::Override;
use crawlgate_system::clock::Moment;

#[derive(Template)]
#[template(path = "overrides.html", config = "src/http/console/askama.toml")]
pub(super) struct OverridesPage {
    layout: Layout,
    done: Option<String>,
    /// True if some instances of the fleet lack the change.
    is_partly: bool,
    listed: Vec<OverrideRow>,
    expired: Vec<OverrideRow>,
    is_kept: bool,
    /// The form, as it is filled in.
    form: OverrideForm,
    faults: FieldErrors,
}

/// An override, as a list shows it.
pub(super) struct OverrideRow {
    pub(super) id: String,
    /// The identifier, if this page can take the override out of force.
    pub(super) number: Option<String>,
    pub(super) action: &'static str,
    pub(super) origin: String,
    pub(super) origin_link: String,
    pub(super) pattern: String,
    pub(super) until: Option<Timestamp>,
    pub(super) by: String,
    pub(super) reason: String,
}

impl OverrideRow {
    pub(super) fn of(one: &Override, now: Moment) -> OverrideRow {
        OverrideRow {
            id: one.id.to_string(),
            number: (!one.id.is_configured()).then(|| one.id.to_string()),
            action: one.action.as_str(),
            origin: line(one.origin.as_str()),
            origin_link: encoded(one.origin.as_str()),
            pattern: line(&one.pattern),
            until: one.until.map(|until| Timestamp::at(until, now)),
            by: match &one.instance {
                Some(instance) => line(&format!("{} at {instance}", one.by)),
                None => line(&one.by),
            },
            reason: line(&one.reason),
        }
    }
}

/// An override to add.
#[derive(Default, Deserialize)]
pub(super) struct OverrideForm {
    pub(super) origin: String,
    pub(super) pattern: String,
    pub(super) action: String,
    pub(super) until: String,
    #[serde(default)]
    pub(super) by: String,
    pub(super) reason: String,
}

/// `/overrides`
pub(super) async fn page(
    State(app): State<AppState>,
    actor: Actor,
    RawQuery(query): RawQuery,
) -> PageResult<OverridesPage> {
    let mut params = params(query.as_deref());
    let added = params.text("added")?;
    let removed = params.text("removed")?;
    let origin = params.text("origin")?;
    let pattern = params.text("pattern")?;
    let is_partly = params.truth("partly")?.unwrap_or(false);
    params.finish(&["added", "removed", "origin", "pattern", "partly"])?;
    let form = OverrideForm {
        origin: line(&origin.unwrap_or_default()),
        pattern: line(&pattern.unwrap_or_else(|| "/".to_owned())),
        ..OverrideForm::default()
    };
    let done = match (added, removed) {
        (Some(number), _) => Some(format!(
            "Override {} holds from the next request on.",
            line(&number)
        )),
        (None, Some(number)) => Some(format!("Override {} is out of force.", line(&number))),
        (None, None) => None,
    };
    Ok(Page(OverridesPage {
        done,
        is_partly,
        ..OverridesPage::with_form(&app, &actor, form, FieldErrors::default()).await?
    }))
}

impl OverridesPage {
    /// Returns the page with this form.
    pub(super) async fn with_form(
        app: &AppState,
        actor: &Actor,
        form: OverrideForm,
        faults: FieldErrors,
    ) -> Result<OverridesPage, Problem> {
        let now = app.now();
        let (mut listed, mut expired) = (Vec::new(), Vec::new());
        for one in app.overrides().await? {
            let list = if one.holds(now) {
                &mut listed
            } else {
                &mut expired
            };
            list.push(OverrideRow::of(&one, now));
        }
        Ok(OverridesPage {
            layout: Layout::new(app, actor, Section::Overrides, "Overrides"),
            done: None,
            is_partly: false,
            listed,
            expired,
            is_kept: app.store().is_some(),
            form,
            faults,
        })
    }

    fn fault(&self, name: &str) -> Option<String> {
        self.faults.of(name)
    }

    /// Returns the effects to choose from, each with its words.
    fn actions(&self) -> [(&'static str, &'static str, bool); 3] {
        [
            ("allow", "forward, regardless of robots.txt"),
            (
                "allow_usage",
                "forward, regardless of what the site says of use",
            ),
            ("deny", "refuse, regardless of robots.txt"),
        ]
        .map(|(action, effect)| (action, effect, action == self.form.action))
    }
}
