//! `[policy]` and `[[override]]`: the operator's rulings.

use toml::de::DeValue;

use super::super::{
    PolicyConfig, parse_moment,
    read::{Read, Refusal, Section, Value},
    values::{choice, list, text},
};
use super::{ACTIONS, COVERS, MODES, ingress::network, signals::purposes};
use crawlgate_policy::overrides::{Action, Override, OverrideId, words};
use crawlgate_robots::{Origin, PathPattern};
use crawlgate_system::clock::Moment;

pub(super) fn policy(mut section: Section<'_, '_>, to: &mut PolicyConfig) {
    section.set("mode", &mut to.mode, choice(&MODES));
    section.set("report_origins", &mut to.report_origins, list(text(origin)));
    section.set(
        "report_clients",
        &mut to.report_clients,
        list(text(network)),
    );
    section.set("purposes", &mut to.purposes, purposes);
    section.finish();
}

/// Reads an origin as people write it: a URL without anything after its authority.
fn origin(text: &str) -> Result<Origin, &'static str> {
    match Origin::parse(text) {
        Ok((origin, path)) if path == "/" => Ok(origin),
        _ => Err("expected an origin: \"https://site.example\", \"http://site.example:8080\""),
    }
}

/// Reads one `[[override]]`, the `place`th. `by` and `reason` are required: they stand in every record that the
/// override affects.
pub(super) fn override_(mut section: Section<'_, '_>, place: u32) -> Option<Override> {
    let mut said = (None, None, None, None);
    let (on, action, by, reason) = (&mut said.0, &mut said.1, &mut said.2, &mut said.3);
    section.set("origin", on, |value| text(origin)(value).map(Some));
    section.set("action", action, |value| choice(&ACTIONS)(value).map(Some));
    section.set("by", by, |value| text(words)(value).map(Some));
    section.set("reason", reason, |value| text(words)(value).map(Some));
    let mut pattern = "/".to_owned();
    section.set(
        "pattern",
        &mut pattern,
        text(|text| PathPattern::new(text).map(|_| text.to_owned())),
    );
    let mut until = None;
    section.set("until", &mut until, |value| moment(value).map(Some));
    let mut covers = Action::Allow;
    section.set("covers", &mut covers, choice(&COVERS));
    let is_deny = *action == Some(Action::Deny);
    section.require(!(is_deny && section.names("covers")), &["covers"], || {
        "it goes with action = \"allow\"; a deny covers everything".to_owned()
    });
    for key in ["origin", "action", "by", "reason"] {
        section.demand(key);
    }
    section.finish();
    let (Some(origin), Some(action), Some(by), Some(reason)) = said else {
        return None;
    };
    Some(Override {
        id: OverrideId::Configured(place),
        origin,
        pattern,
        action: match action {
            Action::Deny => Action::Deny,
            Action::Allow | Action::AllowUsage => covers,
        },
        until,
        by,
        reason,
        created: Moment::default(),
        instance: None,
    })
}

/// Reads a day or a moment, in quotes or as TOML's own.
fn moment(value: &Value<'_>) -> Read<Moment> {
    let written = match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Datetime(datetime) => Some(datetime.to_string()),
        _ => None,
    };
    written
        .and_then(|text| parse_moment(&text))
        .ok_or_else(|| {
            let why = "expected a day, \"2026-12-31\" (it ends with that day, UTC), or a time, \"2026-12-31T12:00:00Z\"";
            Refusal::new(value, why)
        })
}
