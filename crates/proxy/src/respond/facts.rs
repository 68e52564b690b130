//! The facts of a decision in an answer, as members of a JSON object or as lines of text.

use std::fmt::Write;

use super::{Audience, MAX};
use crate::recorder::Recorder;
use crawlgate_origins::state::State;
use crawlgate_policy::usage::Usage;
use crawlgate_policy::{Decision, Reason};
use crawlgate_robots::{Origin, Rule};
use crawlgate_text::hex;
use crawlgate_text::json::{Object, printable};

/// Facts of a decision in an answer, in members that never change their names.
pub struct Facts<'a> {
    decision: &'a Decision,
    /// The error of an exchange that failed: it has the place of the decision's reason.
    failure: Option<&'static str>,
    id: String,
    rule: Option<&'a Rule>,
    asserted: Option<String>,
    robots_url: Option<String>,
}

impl<'a> Facts<'a> {
    /// Collects the facts of this decision; `decided` unless the answer is about the request's form or its way, or the
    /// exchange failed with the error `failure`.
    pub fn of(recorder: &'a Recorder, decided: bool, failure: Option<&'static str>) -> Facts<'a> {
        let decision = recorder.decision();
        let asked_robots = !matches!(
            decision.reason,
            Reason::OperatorAllow | Reason::OperatorDeny | Reason::AddressProhibited
        ) && !decision.reason.is_unidentified();
        let origin = recorder.origin();
        Facts {
            decision,
            failure,
            id: recorder.id().to_string(),
            rule: decision.rule.as_ref().filter(|_| decided),
            asserted: decision
                .asserted
                .as_ref()
                .filter(|_| decided)
                .map(|asserted| asserted.id.to_string()),
            robots_url: origin.filter(|_| decided && asked_robots).map(Origin::robots_url),
        }
    }

    /// Writes the facts as members of a JSON object.
    pub fn write(&self, object: &mut Object<'_>, audience: Audience) {
        let decision = self.decision;
        if audience != Audience::Crawler {
            object.plain("verdict", decision.verdict().as_str().as_bytes());
            object.plain("mode", decision.mode.as_str().as_bytes());
        }
        match self.failure {
            None => object.plain("reason", decision.reason.as_str().as_bytes()),
            Some(error) => {
                object.null("reason");
                object.plain("error", error.as_bytes());
            }
        }
        let reading = decision.reading.as_deref().filter(|_| self.failure.is_none());
        let reading = reading.map(str::as_bytes);
        object.text_or_null("rule", self.rule.map(|rule| rule.text.as_bytes()), MAX);
        object.number_or_null("line", self.rule.map(|rule| u64::from(rule.line)));
        object.text_or_null("group", self.rule.map(|rule| rule.group.as_bytes()), MAX);
        if let Some(reading) = reading {
            object.text("reading", reading, MAX);
        }
        object.text_or_null("override", self.asserted.as_deref().map(str::as_bytes), MAX);
        object.text_or_null("robots_url", self.robots_url.as_deref().map(str::as_bytes), MAX);
        if audience != Audience::Crawler {
            let snapshot = decision.basis.as_deref().and_then(State::snapshot);
            let digest = snapshot.map(|snapshot| hex(snapshot.sha256));
            object.text_or_null("sha256", digest.as_deref().map(str::as_bytes), MAX);
            let age = snapshot.map(|snapshot| decision.at.since(snapshot.fetched).as_secs());
            object.number_or_null("age_s", age);
        }
        let usage = decision.usage.as_deref().and_then(Usage::answer);
        if let Some(usage) = usage.filter(|_| self.failure.is_none()) {
            object.verbatim("usage", &usage);
        }
        object.plain("id", self.id.as_bytes());
    }

    /// Writes the facts as lines.
    pub(super) fn write_lines(&self, text: &mut String) {
        let _ = match self.failure {
            None => writeln!(text, "reason: {}", self.decision.reason.as_str()),
            Some(error) => writeln!(text, "error: {error}"),
        };
        if let Some(rule) = self.rule {
            let _ =
                writeln!(text, "rule: {} (line {}, group {})", rule.text, rule.line, rule.group);
        }
        if let Some(reading) = &self.decision.reading {
            let _ = writeln!(text, "read as: {reading}");
        }
        let usage = self.decision.usage.as_deref();
        for preference in usage.into_iter().flat_map(Usage::refusing) {
            let _ = writeln!(text, "the site says: {}", printable(&preference.text));
        }
        if let Some(id) = &self.asserted {
            let _ = writeln!(text, "override: {id}");
        }
        if let Some(url) = &self.robots_url {
            let _ = writeln!(text, "robots.txt: {url}");
        }
        let _ = writeln!(text, "decision: {}", self.id);
    }
}
