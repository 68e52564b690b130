//! The outcome of a request: the one classification by which summaries, reports, lists and charts count.

use super::{Reason, Verdict};

crawlgate_text::spelled! {
    /// The outcome of a request.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Outcome {
        /// It went out and was answered.
        Forwarded = "forwarded",
        /// It went out and failed.
        Failed = "failed",
        /// The site disallows it: a rule of its robots.txt, or what it says of use.
        Disallowed = "disallowed",
        /// The robots.txt of its origin is unreachable, so nothing may be crawled there for now.
        Unreachable = "unreachable",
        /// The proxy or its operator refuses it, whatever the site says.
        RefusedHere = "refused_here",
        /// It is put off: the same request may go out later.
        Deferred = "deferred",
    }
}

impl Outcome {
    /// The outcomes of requests that are denied.
    pub const DENIALS: [Outcome; 3] =
        [Outcome::Disallowed, Outcome::Unreachable, Outcome::RefusedHere];

    /// Returns the outcome of a request that is denied for this reason, or would be without report mode. A reason that this
    /// version does not know counts as one of the site.
    #[must_use]
    pub fn of_denial(reason: &str) -> Outcome {
        let outcome = Reason::from_name(reason).map(|reason| reason.info().outcome);
        let denial = outcome.filter(|outcome| outcome.verdict() == Verdict::Deny);
        denial.unwrap_or(Outcome::Disallowed)
    }

    /// Returns the verdict of the decision behind it, as far as it is enforced.
    #[must_use]
    pub fn verdict(self) -> Verdict {
        match self {
            Outcome::Forwarded | Outcome::Failed => Verdict::Allow,
            Outcome::Disallowed | Outcome::Unreachable | Outcome::RefusedHere => Verdict::Deny,
            Outcome::Deferred => Verdict::Defer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rules_disallow_is_apart_from_what_is_unreachable_or_refused_here() {
        for (reason, want) in [
            ("robots_disallow", Outcome::Disallowed),
            ("path_guard", Outcome::Disallowed),
            ("usage_withheld", Outcome::Disallowed),
            ("robots_unreachable", Outcome::Unreachable),
            ("operator_deny", Outcome::RefusedHere),
            ("bad_request", Outcome::RefusedHere),
            ("of another version", Outcome::Disallowed),
        ] {
            assert_eq!(Outcome::of_denial(reason), want, "{reason}");
        }
    }
}
