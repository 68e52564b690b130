//! The overrides in force, and a form for more.

use askama::Template;
use axum::extract::{RawQuery, State};
use serde::Deserialize;

use super::super::problem::Problem;
use super::super::{Actor, AppState};
use super::filter::{FieldErrors, params};
use super::format::{encoded, line};
use super::layout::{Layout, Page, PageResult, Section};
use crawlgate_policy::overrides::Override;

#[derive(Template)]
#[template(path = "overrides.html", config = "src/http/console/askama.toml")]
pub(super) struct OverridesPage {
    layout: Layout,
    done: Option<String>,
    /// True if some instances of the fleet lack the change.
    is_partly: bool,
    listed: Vec<Override>,
    expired: Vec<Override>,
    is_kept: bool,
    /// The form, as it is filled in.
    form: OverrideForm,
    faults: FieldErrors,
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
        (Some(id), _) => Some(format!("Override {id} holds from the next request on.")),
        (None, Some(id)) => Some(format!("Override {id} is out of force.")),
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
        let all = app.overrides().await?.into_iter();
        let (listed, expired) = all.partition(|one| one.holds(now));
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
            ("allow_usage", "forward, regardless of what the site says of use"),
            ("deny", "refuse, regardless of robots.txt"),
        ]
        .map(|(action, effect)| (action, effect, action == self.form.action))
    }
}
