//! The identification that a crawler must send to be let out (RFC 9309, section 2.2.1).
//!
//! It is checked before the origin is asked anything and before overrides: an override is about an origin, not about a
//! crawler. `/robots.txt` itself stays allowed to every crawler, so that a denied crawler can still learn the reason.
//! In report mode denials are only reported.

use super::{Decision, DecisionContext, Reason, Ruling, Target};
use crate::agent::Agent;
use crawlgate_text::Moment;

/// The reaction to a crawler that names itself differently from the tokens that judge it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mismatch {
    /// Record the mismatch.
    Record,
    /// Deny the request.
    Deny,
}

/// The required identification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Required {
    /// The action if the crawler is judged by another name than the one in its User-Agent.
    pub mismatch: Mismatch,
    /// True if the crawler must name a product token.
    pub token: bool,
}

impl Required {
    /// Returns the reason to deny this crawler, if there is one.
    fn refuses(self, agent: &Agent) -> Option<Reason> {
        if self.token && agent.tokens.is_empty() {
            Some(Reason::AgentRequired)
        } else if self.mismatch == Mismatch::Deny && agent.mismatch {
            Some(Reason::AgentMismatch)
        } else {
            None
        }
    }
}

/// Judges one request, or tunnel, by the crawler's identification; returns the target if that does not decide.
///
/// # Errors
/// The target, when nothing is missing.
pub fn decide_by_identity(
    target: Target,
    agent: &Agent,
    required: Required,
    context: impl Into<DecisionContext>,
    now: Moment,
) -> Result<Ruling, Target> {
    let Some(reason) = required.refuses(agent) else {
        return Err(target);
    };
    let DecisionContext { mode, generation } = context.into();
    let decision = Decision { mode, ..Decision::bare(reason, now) };
    Ok(Ruling::of(target, Box::new(decision), generation))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;
    use crawlgate_robots::{Origin, ProductToken};

    #[test]
    fn only_the_required_identification_decides() {
        let agent = |names: &[&str], mismatch| Agent {
            tokens: names.iter().map(|name| ProductToken::new(name).expect("a token")).collect(),
            mismatch,
            ..Agent::default()
        };
        let required = |mismatch, token| Required { mismatch, token };
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("nothing is required", agent(&[], false), required(Mismatch::Record, false), None),
            ("a token is missing", agent(&[], false), required(Mismatch::Record, true), Some(Reason::AgentRequired)),
            ("a token is there", agent(&["A"], false), required(Mismatch::Deny, true), None),
            ("another one is recorded", agent(&["A"], true), required(Mismatch::Record, true), None),
            ("another one is denied", agent(&["A"], true), required(Mismatch::Deny, false), Some(Reason::AgentMismatch)),
        ];
        for (name, agent, required, want) in cases {
            for (mode, goes_out) in [(Mode::Enforce, false), (Mode::Report, true)] {
                let (origin, _) = Origin::parse("http://site.example/").expect("a URL");
                let path = http::uri::PathAndQuery::from_static("/x");
                let target = Target { origin, path };
                let now = Moment::default();
                let ruling = decide_by_identity(target, &agent, required, mode, now).ok();
                let reason = ruling.as_ref().map(|ruling| ruling.decision().reason);
                assert_eq!(reason, want, "{name}");
                if let Some(ruling) = ruling {
                    let is_clear = matches!(ruling, Ruling::Allow(..));
                    assert_eq!(is_clear, goes_out, "{name}, {mode:?}");
                }
            }
        }
    }
}
