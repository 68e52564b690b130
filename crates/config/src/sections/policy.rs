//! `[policy]` and `[[override]]`: the operator's rulings.
//!
//! `[agent]`: the product tokens that judge crawlers.

use std::sync::Arc;

use ipnet::IpNet;
use toml::de::DeValue;

use super::listener::network;
use super::robots::purposes;
use super::signing::identity;
use super::*;
use crawlgate_policy::Mode;
use crawlgate_policy::identity::Mismatch;
use crawlgate_policy::overrides::{Action, Override, OverrideId, words as reason_words};
use crawlgate_robots::{Origin, PathPattern, ProductToken};
use crawlgate_system::clock::Moment;
use crawlgate_usage::Purposes;

section! {
    /// `[policy]` and `[[override]]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PolicyConfig "policy" {
        /// The mode: denials are enforced or only reported.
        mode: Mode = Mode::Enforce, word(), AtReload;
        /// Origins in report mode, in any `mode`.
        report_origins: Vec<Origin> = Vec::new(), list(text(origin)), AtReload;
        /// Crawlers' networks in report mode, in any `mode`.
        report_clients: Vec<IpNet> = Vec::new(), list(network()), AtReload;
        /// The purposes of clients that declare none.
        purposes: Purposes = Purposes::NONE, purposes(), AtReload;
        /// `[[override]]`: overrides of origins' robots.txt, in the order of the file.
        overrides: Vec<Override> = Vec::new(), NoKey, AtReload;
    }
}

words! { for Mode { Enforce = "enforce", Report = "report", } }
words! { for Action { Allow = "allow", Deny = "deny", } }

/// The restrictions that an allow lifts, each with the allow that lifts them.
const COVERS: &[(&str, Action)] = &[("all", Action::Allow), ("usage", Action::AllowUsage)];

pub(crate) const OVERRIDES: Tables<Override> =
    Tables { name: "[override]", read: override_, write: Keys::write };

table! {
    struct Keys of it: Override {
        origin: Origin, text(origin), Some(it.origin.clone());
        pattern: String, text(|text| PathPattern::new(text).map(|_| text.to_owned())), Some(it.pattern.clone());
        action: Action, word(), Some(if it.action == Action::Deny { Action::Deny } else { Action::Allow });
        covers: Action, choice(COVERS), Some(it.action).filter(|action| *action == Action::AllowUsage);
        until: Moment, moment(), it.until;
        by: String, text(reason_words), Some(it.by.clone());
        reason: String, text(reason_words), Some(it.reason.clone());
    }
}

/// Reads one `[[override]]`. `by` and `reason` are required: they stand in every record that the override affects.
fn override_(table: &mut Section<'_, '_>, cx: &Context, before: &[Override]) -> Option<Override> {
    let keys = Keys::read(table, cx);
    let is_deny = keys.action == Some(Action::Deny);
    let why = "it goes with action = \"allow\"; a deny covers everything";
    table.require(!(is_deny && table.names("covers")), &["covers"], why);
    table.demand(&["origin", "action", "by", "reason"]);
    let place = u32::try_from(before.len() + 1).ok()?;
    Some(Override {
        id: OverrideId::Configured(place),
        origin: keys.origin?,
        pattern: keys.pattern.unwrap_or_else(|| "/".to_owned()),
        action: match keys.action? {
            Action::Deny => Action::Deny,
            Action::Allow | Action::AllowUsage => keys.covers.unwrap_or(Action::Allow),
        },
        until: keys.until,
        by: keys.by?,
        reason: keys.reason?,
        created: Moment::default(),
        instance: None,
    })
}

/// Reads an origin as people write it: a URL without anything after its authority.
fn origin(text: &str) -> Result<Origin, &'static str> {
    match Origin::parse(text) {
        Ok((origin, path)) if path == "/" => Ok(origin),
        _ => Err("expected an origin: \"https://site.example\", \"http://site.example:8080\""),
    }
}

/// A day or a moment, in quotes or as TOML's own.
fn moment() -> Form<Moment> {
    let read = |value: &Value<'_>| match value.get_ref() {
        DeValue::String(text) => parse_moment(text),
        DeValue::Datetime(datetime) => parse_moment(&datetime.to_string()),
        _ => None,
    };
    let why = "expected a day, \"2026-12-31\" (it ends with that day, UTC), or a time, \"2026-12-31T12:00:00Z\"";
    checked(read, why, |until| quoted(&format_moment(*until)))
}

section! {
    /// `[agent]`
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AgentConfig "agent" {
        /// Product tokens that every crawler is judged as, most specific first. Empty: taken from each User-Agent field.
        product_tokens: Vec<ProductToken> = Vec::new(), one_or_list(|| text(ProductToken::new)), AtReload;
        /// The reaction to a User-Agent that contains none of the configured product tokens, here or of a client (RFC 9309,
        /// section 2.2.1).
        mismatch: Mismatch = Mismatch::Record, word(), AtReload;
        /// True to deny crawlers that name no product token.
        require_identity: bool = false, boolean(), AtReload;
        /// The `[[signing]]` of clients that name none; none: their requests are not signed.
        signing: Option<Arc<str>> = None, unless("", identity()), AtReload;
    }
}

words! { for Mismatch { Record = "record", Deny = "deny", } }
