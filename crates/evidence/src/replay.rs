//! A repeated decision, made only from its record and the evidence that the record names.
//!
//! A record holds the premises of a decision as well as its result: the client and the request, the time, the state of
//! the origin's robots.txt, the settings, the override. [`replay`] restores the premises, calls the very functions that
//! decided then ([`State::stance`](crawlgate_origins::state::State::stance), [`policy::decide`]), and compares their answer
//! with the recorded result. The rules are not written down twice, and a replay needs no clock and no network.
//!
//! # What a replay proves, and what it takes on trust
//!
//! It proves that verdict, reason, rule, line, group and the reading of the path follow from the robots.txt, the state,
//! the settings and the override that the record names. It takes their truth on trust: that the site did answer so,
//! that the crawler did ask so, and that no other override was in force. The signed log, not the replay, proves that
//! the record is unchanged (see [`super::verify`]).
//!
//! Some decisions rest on facts that cannot be kept. They are [attested](NotReplayable), not proven.

mod not_replayable;
pub mod otherwise;
mod premises;

use std::borrow::Cow;
use std::sync::Arc;

pub use self::not_replayable::NotReplayable;
use self::premises::{
    NoDecision, agent, asserted, contradiction, is_of_its_origin, reservations, state, target,
};
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_origins::state::{Stance, State};
use crawlgate_policy::agent::Agent;
use crawlgate_policy::overrides::Overrides;
use crawlgate_policy::settings::{PolicyDigest, PolicySettings};
use crawlgate_policy::usage::{Head, Signals};
use crawlgate_policy::{self as policy, Decision, Mode, Reason, Replay, Ruling, Target};
use crawlgate_record::{Octets, Text, Told};
use crawlgate_system::clock::Moment;
use crawlgate_usage::{FieldName, Purposes};

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The same decision.
    Same,
    /// Another decision, or a record that contradicts itself.
    Differs(Vec<Difference>),
    /// Evidence that the record names is missing.
    Missing(Missing),
    /// There is nothing to replay.
    Attested(NotReplayable),
}

/// A field in which record and replay differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The field of the record.
    pub what: &'static str,
    /// The recorded value.
    pub recorded: String,
    /// The replayed value.
    pub replayed: String,
}

/// Missing one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The text of robots.txt.
    Snapshot,
    /// The text of tdmrep.json.
    TdmRep,
    /// The settings of the decision.
    PolicySettings,
    /// The state of robots.txt.
    State,
    /// The override.
    Override,
}

/// Restores a robots.txt, once for all replays of the decisions that name it. `text` is the part in force at the fetch,
/// and `truncated` tells whether the file was longer: the limit may have differed then. Facts of its fetch are unknown;
/// a replay does not need them.
pub fn snapshot(text: &[u8], terms: &PolicySettings, truncated: bool) -> Arc<Snapshot> {
    let robots = Snapshot::reread(text, terms.lenient, truncated);
    Arc::new(Snapshot::new(robots, Moment::default(), 200, ""))
}

/// The files that a record names.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'f> {
    /// The file of its `robots.sha256`.
    pub robots: Option<&'f Arc<Snapshot>>,
    /// The file of its `usage.tdmrep.sha256`.
    pub tdmrep: Option<&'f Arc<Snapshot>>,
}

/// Makes a decision again. The caller guarantees that `terms` are those of the record's `policy`, and `files` those of
/// its digests.
pub fn replay(one: &Told<'_>, terms: Option<&PolicySettings>, files: Files<'_>) -> Outcome {
    let Some(reason) = Reason::from_name(one.reason) else {
        return Outcome::Attested(NotReplayable::Unknown);
    };
    let mut differences = Vec::new();
    compare(
        &mut differences,
        "verdict",
        of(one.verdict.as_str().into()),
        reason.verdict().as_str(),
    );
    let replayed = match one.missing {
        Some(missing) => Err(NoDecision::Missing(match missing.what {
            "override" => Missing::Override,
            _ => Missing::State,
        })),
        None => decide(one, reason, terms, files),
    };
    let decision = match replayed {
        Ok(decision) => decision,
        Err(_) if !differences.is_empty() => return Outcome::Differs(differences),
        Err(gap) => return gap.into(),
    };
    compare(&mut differences, "reason", of(one.reason.into()), decision.reason.as_str());
    compare_rule(&mut differences, one, &decision);
    compare_usage(&mut differences, one, &decision);
    compare_reading(&mut differences, one, &decision);
    compare_exemption(&mut differences, one, &decision);
    if differences.is_empty() { Outcome::Same } else { Outcome::Differs(differences) }
}

fn decide(
    one: &Told<'_>,
    reason: Reason,
    terms: Option<&PolicySettings>,
    files: Files<'_>,
) -> Result<Decision, NoDecision> {
    let snapshot = files.robots;
    if let Some(why) = unproven(reason, one) {
        return Err(NoDecision::Attested(why));
    }
    if one.url.is_cut() && reason.info().replay == Replay::Url {
        return Err(NoDecision::Attested(NotReplayable::Cut));
    }
    let question = match without_robots(one)? {
        Ok(ruling) => return Ok(ruling.into_decision()),
        Err(question) => question,
    };
    let terms = terms_of(one, terms)?;
    let robots = one
        .robots
        .ok_or_else(|| contradiction("robots", "null", "what the decision rests on".to_owned()))?;
    is_of_its_origin(one, "robots.url", &robots)?;
    // A path that is cut may meet other statements of use than the whole one.
    let speaks = |snapshot: &Arc<Snapshot>| snapshot.robots.has_usage();
    let reserves = |file: &Arc<Snapshot>| file.tdmrep().is_ok_and(|file| !file.is_empty());
    let is_spoken_of = snapshot.is_some_and(speaks) || files.tdmrep.is_some_and(reserves);
    if one.url.is_cut() && !one.opaque && is_spoken_of {
        return Err(NoDecision::Attested(NotReplayable::Cut));
    }
    let state = Arc::new(state(&robots, snapshot)?);
    by_robots(one, question, terms, state, files.tdmrep)
}

/// A request that robots.txt decides about.
struct UndecidedRequest {
    target: Target,
    mode: Mode,
    decided: Moment,
    /// The operator's reason for exempting the client.
    exempt: Option<Arc<str>>,
}

/// Decides without robots.txt where that suffices, or returns the question.
fn without_robots(one: &Told<'_>) -> Result<Result<Ruling, UndecidedRequest>, NoDecision> {
    let target = target(one)?;
    let (mode, decided) = (one.mode, Moment::from_millis(one.decided()));
    let ruled = by_path_or_override(target, one, mode, decided)?;
    Ok(ruled.map_err(|target| UndecidedRequest {
        target,
        mode,
        decided,
        exempt: one.exempt.map(|one| one.reason.into()),
    }))
}

/// Returns the settings of the decision.
fn terms_of<'t>(
    one: &Told<'_>,
    terms: Option<&'t PolicySettings>,
) -> Result<&'t PolicySettings, NoDecision> {
    match one.policy {
        None => Err(contradiction("policy", "null", "a digest".to_owned())),
        Some(_) => terms.ok_or(NoDecision::Missing(Missing::PolicySettings)),
    }
}

/// Decides by this state of the origin's robots.txt.
fn by_robots(
    one: &Told<'_>,
    question: UndecidedRequest,
    terms: &PolicySettings,
    state: Arc<State>,
    tdmrep: Option<&Arc<Snapshot>>,
) -> Result<Decision, NoDecision> {
    let UndecidedRequest { target, mode, decided, exempt } = question;
    let agent = agent(one)?;
    let tdmrep = reservations(one, tdmrep, decided, terms)?;
    let stance = state.stance(decided, &terms.profile());
    let settings = policy::DecisionInputs {
        mode,
        generation: policy::generation::Generation::default(), // no request is sent
        path_guard: terms.path_guard,
        policy: PolicyDigest(one.policy.copied().unwrap_or_default()), // never read
        exempt,
        signals: Signals { tdmrep, ..signals(one, terms, &target, decided)? },
    };
    let ruling = if let Stance::Unknown = stance {
        policy::await_robots(target, state, decided, settings, decided)
    } else if one.opaque {
        policy::decide_tunnel(target, &agent, &state, &stance, settings, decided)
    } else {
        policy::decide(target, &agent, &state, &stance, settings, decided)
    };
    Ok(answered(ruling.into_decision(), one, &agent))
}

/// Returns the grounds of the decision about use.
fn signals(
    one: &Told<'_>,
    terms: &PolicySettings,
    target: &Target,
    decided: Moment,
) -> Result<Signals, NoDecision> {
    let usage = one.usage_record();
    if usage.as_ref().is_some_and(|usage| !usage.has_all_fields()) {
        return Err(NoDecision::Attested(NotReplayable::Cut));
    }
    let overrides = match &one.overridden {
        Some(named) => Overrides::new([asserted(named)?]),
        None => Overrides::default(),
    };
    let path = target.path.as_str().as_bytes();
    let lifted = match one.opaque {
        true => overrides.about_all_usage(&target.origin, decided),
        false => overrides.about_usage(&target.origin, path, decided),
    };
    Ok(Signals {
        purposes: usage.map_or(Purposes::NONE, |usage| usage.purposes),
        modes: Arc::new(terms.modes()),
        lifted: lifted.cloned(),
        tdmrep: None,
    })
}

/// Judges the response by the fields that the record has of it.
fn answered(mut decision: Decision, one: &Told<'_>, agent: &Agent) -> Decision {
    let usage = one.usage_record();
    if let Some(usage) = usage
        && let Some(status) = usage.received_status
    {
        let lines = usage.fields.iter().filter_map(|field| {
            let name = FieldName::of(&field.name)?;
            Some((name, field.line()?))
        });
        let lines: Vec<_> = lines.collect();
        let lines = lines.iter().map(|(name, line)| (*name, line.as_slice()));
        let head = Head { status, lines: lines.collect(), tokens: &agent.tokens };
        // The verdict is compared, and no body waits for the release.
        let _ = policy::usage::release(&mut decision, head);
    }
    decision
}

/// Decides without robots.txt: only by the path (RFC 9309 2.2.2), or by the override that the record names.
fn by_path_or_override(
    target: Target,
    one: &Told<'_>,
    mode: Mode,
    decided: Moment,
) -> Result<Result<Ruling, Target>, NoDecision> {
    let target = if one.opaque {
        target
    } else {
        match policy::clear_robots_txt(target, mode, decided) {
            Ok(ruling) => return Ok(Ok(ruling)),
            Err(target) => target,
        }
    };
    let Some(named) = &one.overridden else {
        return Ok(Err(target));
    };
    let overrides = Overrides::new([asserted(named)?]);
    Ok(if one.opaque {
        policy::decide_tunnel_by_override(target, &overrides, mode, decided)
    } else {
        policy::decide_by_override(target, &overrides, mode, decided)
    })
}

/// Returns the reason why a decision for this reason cannot be made again; `None` if it can.
fn unproven(reason: Reason, one: &Told<'_>) -> Option<NotReplayable> {
    match reason.info().replay {
        Replay::Url | Replay::Origin => None,
        // A tunnel refused as opaque by a rule names its policy; this one was intercepted.
        Replay::Tunnel => one.policy.is_none().then_some(NotReplayable::NotHttp),
        Replay::Unjudged => Some(NotReplayable::Unjudged),
        Replay::Pending => Some(NotReplayable::Pending),
        Replay::Paced => Some(NotReplayable::Paced),
        Replay::Unrecorded => Some(NotReplayable::Unrecorded),
    }
}

fn compare_rule(differences: &mut Vec<Difference>, one: &Told<'_>, decision: &Decision) {
    match (one.rule, &decision.rule) {
        (None, None) => {}
        (Some(recorded), Some(rule)) => {
            compare(differences, "rule.text", recorded.text, &rule.text);
            compare(differences, "rule.group", of(recorded.group), &rule.group);
            let (recorded, line) = (recorded.line.to_string(), rule.line.to_string());
            compare(differences, "rule.line", of((&*recorded).into()), &line);
        }
        (recorded, rule) => {
            let recorded = recorded.map(|rule| format!("{} (line {})", rule.text, rule.line));
            let replayed = rule.as_ref();
            let replayed = replayed.map(|rule| format!("{} (line {})", rule.text, rule.line));
            differences.push(Difference {
                what: "rule",
                recorded: recorded.unwrap_or_else(|| "none".to_owned()),
                replayed: replayed.unwrap_or_else(|| "none".to_owned()),
            });
        }
    }
}

/// Compares what the site says of use. A decision that did not ask robots.txt has no settings to read it again by.
fn compare_usage(differences: &mut Vec<Difference>, one: &Told<'_>, decision: &Decision) {
    if one.policy.is_none() {
        return;
    }
    let recorded = one.usage_record();
    let replayed = decision.usage.as_deref().and_then(|usage| {
        let mut record = (!usage.is_silent()).then(|| usage.record())?;
        let fields = recorded.iter().flat_map(|usage| &usage.fields);
        for (field, recorded) in record.fields.iter_mut().zip(fields) {
            // The record has a part of the line, and the digest of the whole: it cannot be computed again.
            if field.cut && recorded.cut {
                field.octets = recorded.octets;
                field.sha256 = Cow::Borrowed(&recorded.sha256);
            }
        }
        Some(record.text())
    });
    let recorded = of(one.usage.unwrap_or("null").into());
    compare(differences, "usage", recorded, replayed.as_deref().unwrap_or("null"));
}

fn compare_reading(differences: &mut Vec<Difference>, one: &Told<'_>, decision: &Decision) {
    let none = "none";
    let recorded = one.reading.unwrap_or(of(none.into()));
    let replayed = decision.reading.as_deref().unwrap_or(none);
    compare(differences, "reading", recorded, replayed);
}

fn compare_exemption(differences: &mut Vec<Difference>, one: &Told<'_>, decision: &Decision) {
    let none = "none";
    let recorded = one.exempt.map_or(none, |one| one.from);
    let replayed = decision.exempt.as_ref();
    let replayed = replayed.map_or(none, |one| one.from.as_str());
    compare(differences, "exempt.from", of(recorded.into()), replayed);
}

fn of(text: Text<'_>) -> Octets<'_> {
    Octets { kept: text.kept.as_bytes(), cut: text.cut }
}

/// Compares a recorded value, of which the end may be cut off, with the replayed one.
fn compare(
    differences: &mut Vec<Difference>,
    what: &'static str,
    recorded: Octets<'_>,
    replayed: &str,
) {
    let kept = replayed.as_bytes().get(..recorded.kept.len());
    let length = (recorded.kept.len() as u64).saturating_add(recorded.cut);
    if kept != Some(recorded.kept) || replayed.len() as u64 != length {
        differences.push(Difference {
            what,
            recorded: recorded.to_string(),
            replayed: replayed.to_owned(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_text_agrees_with_its_original() {
        let cases = [
            ("the same", "Disallow: /x", 0, "Disallow: /x", true),
            ("another", "Disallow: /x", 0, "Disallow: /y", false),
            ("cut", "Disallow: /a", 3, "Disallow: /abcd", true),
            ("cut, of another length", "Disallow: /a", 3, "Disallow: /abc", false),
            ("cut, of another beginning", "Disallow: /a", 3, "Disallow: /bbcd", false),
            ("what only looks cut", "/a…[+3 bytes]", 0, "/a…[+3 bytes]", true),
            ("what only looks cut, of another text", "/a…[+3 bytes]", 0, "/abcd", false),
        ];
        for (name, kept, cut, replayed, agree) in cases {
            let mut differences = Vec::new();
            let recorded = of(Text { kept, cut });
            compare(&mut differences, "rule.text", recorded, replayed);
            assert_eq!(differences.is_empty(), agree, "{name}");
        }
    }
}
