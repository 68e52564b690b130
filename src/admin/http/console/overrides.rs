//! The overrides in force, and a form for more.

use askama::Template;
use axum::extract::{RawQuery, State};

use super::super::Site;
use super::filter::{params, wrong};
use super::shell::{Page, Place, Shell, Shown};
use super::words::{When, encoded, line};
use crate::clock::Moment;
use crate::policy::overrides::Override;

#[derive(Template)]
#[template(path = "overrides.html", config = "src/admin/http/console/askama.toml")]
pub(super) struct OverridesPage {
    shell: Shell,
    done: Option<String>,
    /// True if some instances of the fleet lack the change.
    is_partly: bool,
    listed: Vec<Listed>,
    expired: Vec<Listed>,
    is_kept: bool,
    /// The origin that the form begins with.
    origin: String,
    pattern: String,
}

/// An override, as a list shows it.
pub(super) struct Listed {
    pub(super) id: String,
    /// The identifier, if this page can take the override out of force.
    pub(super) number: Option<String>,
    pub(super) action: &'static str,
    pub(super) origin: String,
    pub(super) origin_link: String,
    pub(super) pattern: String,
    pub(super) until: Option<When>,
    pub(super) by: String,
    pub(super) reason: String,
}

impl Listed {
    pub(super) fn of(one: &Override, now: Moment) -> Listed {
        Listed {
            id: one.id.to_string(),
            number: (!one.id.is_configured()).then(|| one.id.to_string()),
            action: one.action.as_str(),
            origin: line(one.origin.as_str()),
            origin_link: encoded(one.origin.as_str()),
            pattern: line(&one.pattern),
            until: one.until.map(|until| When::at(until, now)),
            by: match &one.instance {
                Some(instance) => line(&format!("{} at {instance}", one.by)),
                None => line(&one.by),
            },
            reason: line(&one.reason),
        }
    }
}

/// `/overrides`
pub(super) async fn page(
    State(site): State<Site>,
    RawQuery(query): RawQuery,
) -> Shown<OverridesPage> {
    let mut params = params(query.as_deref());
    let added = params.text("added").map_err(wrong)?;
    let removed = params.text("removed").map_err(wrong)?;
    let origin = params.text("origin").map_err(wrong)?;
    let pattern = params.text("pattern").map_err(wrong)?;
    let is_partly = params.truth("partly").map_err(wrong)?.unwrap_or(false);
    params
        .finish(&["added", "removed", "origin", "pattern", "partly"])
        .map_err(wrong)?;
    let now = site.now();
    let (mut listed, mut expired) = (Vec::new(), Vec::new());
    for one in site.overrides().await? {
        let list = if one.holds(now) {
            &mut listed
        } else {
            &mut expired
        };
        list.push(Listed::of(&one, now));
    }
    Ok(Page(OverridesPage {
        shell: Shell::new(&site, Place::Overrides, "Overrides"),
        done: match (added, removed) {
            (Some(number), _) => Some(format!(
                "Override {} holds from the next request on.",
                line(&number)
            )),
            (None, Some(number)) => Some(format!("Override {} is out of force.", line(&number))),
            (None, None) => None,
        },
        is_partly,
        listed,
        expired,
        is_kept: site.store().is_some(),
        origin: line(&origin.unwrap_or_default()),
        pattern: line(&pattern.unwrap_or_else(|| "/".to_owned())),
    }))
}
