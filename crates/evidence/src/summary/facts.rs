//! A summary for programs: the facts of its text, and the first denials one by one.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Denials, EndedSession, Mismatched, OfKind, Summary};
use crawlgate_policy::{Mode, Outcome};
use crawlgate_record::Decision;
use crawlgate_text::{DecisionId, public_url};

/// Denials of each outcome that are remembered one by one.
const FIRST: usize = 20;

/// All facts of a summary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Facts {
    /// All requests.
    pub requests: u64,
    /// Requests that went out and were answered.
    pub forwarded: u64,
    /// Denials by reason.
    pub denied: Codes,
    /// Of these, what the site disallows, by reason.
    pub disallowed: Codes,
    /// Of these, what cannot be judged, by the cause that robots.txt is unreachable.
    pub unreachable: Codes,
    /// Of these, what the proxy or its operator refuses, by reason.
    pub refused_here: Codes,
    /// Requests put off, by reason.
    pub deferred: Codes,
    /// Requests that went out and failed, by error.
    pub failed: Codes,
    /// Requests that went out only in report mode, by the reason that would have kept them back.
    pub reported: Codes,
    /// Requests that were judged by other product tokens than their User-Agent names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatched: Option<Mismatched>,
    /// TLS sessions that clients ended before a request: such a client does not trust the local CA.
    pub ended_sessions: Vec<EndedSession>,
    /// The origins of denials, enforced or not, most denied first.
    pub origins: Vec<OriginFacts>,
    /// Denials of origins that are too many to be listed.
    pub denied_at_further_origins: u64,
    /// The first denials, enforced or not, in their order.
    pub first_denials: Vec<Denial>,
}

/// A count, and its parts by code.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Codes {
    /// The sum.
    pub count: u64,
    /// The parts.
    pub codes: BTreeMap<String, u64>,
}

/// The denials of one origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OriginFacts {
    /// The origin.
    pub origin: String,
    /// Its denials.
    pub denied: u64,
    /// The rules that decided, or else the reasons, or the causes that robots.txt is unreachable; the rarer ones of many are
    /// left out.
    pub grounds: BTreeMap<String, u64>,
}

/// One denial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// The identifier of its record.
    pub id: String,
    /// The URL, as the record has it.
    pub url: String,
    /// The reason code.
    pub reason: String,
    /// `disallowed`, `unreachable` or `refused_here`.
    pub outcome: &'static str,
    /// The rule that decided, as the file has it.
    pub rule: Option<String>,
    /// The line of the rule.
    pub line: Option<u32>,
    /// False if the request went out all the same, in report mode.
    pub enforced: bool,
}

/// A denial as it is remembered.
#[derive(Debug)]
pub(super) struct Remembered {
    id: DecisionId,
    url: Box<[u8]>,
    reason: Box<str>,
    outcome: Outcome,
    rule: Option<(Box<str>, u32)>,
    enforced: bool,
}

impl Remembered {
    /// Remembers a denial, if it is among the first with its outcome: a dead host hides no rule.
    pub(super) fn add(first: &mut Vec<Self>, decision: &Decision<'_>, outcome: Outcome) {
        let like = first.iter().filter(|one| one.outcome == outcome);
        if like.count() >= FIRST {
            return;
        }
        first.push(Self {
            id: DecisionId::from_octets(decision.id),
            url: decision.url.pieces(decision.origin).0.concat().into(),
            reason: decision.reason.into(),
            outcome,
            rule: decision.rule.map(|rule| {
                let text = String::from_utf8_lossy(rule.text.kept);
                (text.into(), rule.line)
            }),
            enforced: decision.mode != Mode::Report,
        });
    }

    fn denial(&self, redact_query: bool) -> Denial {
        let url = public_url(&self.url, redact_query);
        Denial {
            id: self.id.to_string(),
            url: String::from_utf8_lossy(&url).into_owned(),
            reason: self.reason.to_string(),
            outcome: self.outcome.as_str(),
            rule: self.rule.as_ref().map(|(text, _)| text.to_string()),
            line: self.rule.as_ref().map(|(_, line)| *line),
            enforced: self.enforced,
        }
    }
}

impl Summary {
    /// Returns all facts so far. `redact_query` leaves the queries of URLs out, as in records.
    #[must_use]
    pub fn facts(&self, redact_query: bool) -> Facts {
        let totals = self.totals();
        let rest = self.rest.lock();
        let mut origins: Vec<OriginFacts> = rest.origins.iter().map(OriginFacts::of).collect();
        origins.sort_unstable_by(|one, other| {
            let by_count = other.denied.cmp(&one.denied);
            by_count.then_with(|| one.origin.cmp(&other.origin))
        });
        let first = rest.first.iter();
        Facts {
            requests: totals.requests(),
            forwarded: totals.forwarded,
            denied: Codes::of(totals.denied),
            disallowed: Codes::of(totals.disallowed),
            unreachable: Codes::of(totals.unreachable),
            refused_here: Codes::of(totals.refused_here),
            deferred: Codes::of(totals.deferred),
            failed: Codes::of(totals.failed),
            reported: Codes::of(totals.reported),
            mismatched: self.mismatched.all(),
            ended_sessions: self.ended_sessions.all(),
            origins,
            denied_at_further_origins: rest.denied_elsewhere,
            first_denials: first.map(|denial| denial.denial(redact_query)).collect(),
        }
    }
}

impl Codes {
    fn of(codes: Vec<(String, u64)>) -> Self {
        Self { count: super::sum(&codes), codes: codes.into_iter().collect() }
    }
}

impl OriginFacts {
    fn of((origin, denials): (&String, &Denials)) -> Self {
        let Denials(kinds) = denials;
        let grounds = kinds.iter().flat_map(|OfKind { grounds, .. }| &grounds.0);
        Self {
            origin: origin.clone(),
            denied: denials.count(),
            grounds: grounds.cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grounds::{Grounds, tests::unreachable};
    use crawlgate_record::{Bounds, Url};

    #[test]
    fn the_facts_are_those_of_the_text_and_the_first_denials() {
        let summary = Summary::default();
        let url = b"https://user:secret@site.example/private?token=1";
        let mut record = Decision::sample();
        record.url = Url::public(url, record.origin, false, Bounds::CLIENTS);
        summary.count(&record, &Grounds::default());
        record.mode = Mode::Report;
        record.status = Some(200);
        summary.count(&record, &Grounds::default());
        summary.count_forwarded();
        let facts = summary.facts(true);
        assert_eq!((facts.requests, facts.forwarded), (3, 2));
        let one = Codes { count: 1, codes: [("robots_disallow".to_owned(), 1)].into() };
        assert_eq!((&facts.denied, &facts.reported), (&one, &one));
        assert_eq!(facts.deferred, Codes::default());
        let [origin] = &facts.origins[..] else {
            panic!("{facts:?}");
        };
        assert_eq!((&*origin.origin, origin.denied), ("https://site.example", 2));
        assert_eq!(origin.grounds, [("Disallow: /private".to_owned(), 2)].into());
        let [first, second] = &facts.first_denials[..] else {
            panic!("{facts:?}");
        };
        assert_eq!((first.enforced, second.enforced), (true, false));
        assert_eq!(first.rule.as_deref(), Some("Disallow: /private"));
        assert_eq!(first.id, DecisionId::from_octets(record.id).to_string());
        assert!(!first.url.contains("secret") && !first.url.contains("token"), "{first:?}");
        let whole = &summary.facts(false).first_denials[0].url;
        assert_eq!(whole, "https://site.example/private?token=1");
    }

    #[test]
    fn only_the_first_denials_are_remembered() {
        let summary = Summary::default();
        for _ in 0..FIRST + 5 {
            summary.count(&Decision::sample(), &Grounds::default());
        }
        let facts = summary.facts(false);
        assert_eq!(facts.first_denials.len(), FIRST);
        assert_eq!(facts.denied.count, 25);
        let mut record = Decision::sample();
        (record.reason, record.rule) = ("robots_unreachable", None);
        let state = unreachable();
        let grounds = Grounds { robots: Some((&state, None)), ..Grounds::default() };
        summary.count(&record, &grounds);
        let facts = summary.facts(false);
        let last = facts.first_denials.last().map(|one| one.outcome);
        assert_eq!(last, Some("unreachable"));
        assert_eq!(facts.unreachable.codes, [("status_503".to_owned(), 1)].into());
        let counts = [&facts.disallowed, &facts.unreachable, &facts.refused_here];
        assert_eq!(counts.map(|codes| codes.count), [25, 1, 0]);
    }
}
