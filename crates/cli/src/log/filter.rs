//! The conditions of `crawlgate log`.

use clap::Args;

use crate::Failure;
use crawlgate_admin::query::Conditions;
use crawlgate_policy::Reason;
use crawlgate_store::DecisionQuery;
use crawlgate_system::clock::Moment;

/// Conditions; all that are given must hold.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilterArgs {
    /// Earliest time
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Latest time, exclusive; a day counts whole
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// The origin (https://example.com), or a host with any scheme and port
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// A pattern that matches the path, as in robots.txt
    #[arg(long, value_name = "PATTERN")]
    path: Option<String>,
    /// The client's address or name
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// The product token that judges the crawler
    #[arg(long, value_name = "TOKEN")]
    agent: Option<String>,
    /// The reason, such as robots_disallow
    #[arg(long, value_name = "REASON")]
    reason: Option<String>,
    /// Only requests that robots.txt disallows and the exemption of their client let out: --reason client_exempt
    #[arg(long, conflicts_with = "reason")]
    exempt: bool,
    /// The text of the deciding rule, such as 'Disallow: /private'
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// The verdict: allow, deny or defer
    #[arg(long, value_name = "VERDICT")]
    verdict: Option<String>,
    /// The mode: enforce or report
    #[arg(long, value_name = "MODE")]
    mode: Option<String>,
    /// Only requests that were let through and then failed
    #[arg(long)]
    failed: bool,
    /// Only acknowledged decisions
    #[arg(long)]
    acknowledged: bool,
    /// Only decisions without an acknowledgement
    #[arg(long, conflicts_with = "acknowledged")]
    unacknowledged: bool,
}

impl FilterArgs {
    /// Tells whether there is a condition that only a decision can meet.
    pub(super) fn asks_for_decisions(&self) -> bool {
        let times =
            Self { since: self.since.clone(), until: self.until.clone(), ..Self::default() };
        *self != times
    }

    /// Tells whether only acknowledged decisions are meant.
    pub(super) fn is_of_acknowledged(&self) -> bool {
        self.acknowledged
    }

    /// Returns the query for the store.
    pub(crate) fn query(&self, now: Moment) -> Result<DecisionQuery, Failure> {
        let conditions = Conditions {
            since: self.since.clone(),
            until: self.until.clone(),
            origin: self.origin.clone(),
            path: self.path.clone(),
            rule: self.rule.clone(),
            client: self.client.clone(),
            agent: self.agent.clone(),
            reason: if self.exempt {
                Some(Reason::ClientExempt.as_str().to_owned())
            } else {
                self.reason.clone()
            },
            verdict: self.verdict.clone(),
            mode: self.mode.clone(),
            failed: self.failed.then_some(true),
            acknowledged: match (self.acknowledged, self.unacknowledged) {
                (true, _) => Some(true),
                (false, true) => Some(false),
                (false, false) => None,
            },
        };
        Ok(conditions.query(now).map_err(|wrong| format!("--{wrong}"))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_passed_on_and_mistakes_name_the_option() {
        let now = Moment::from_millis(1_795_176_000_123);
        let args = FilterArgs {
            origin: Some("A.Example.".into()),
            reason: Some("paced".into()),
            failed: true,
            unacknowledged: true,
            ..FilterArgs::default()
        };
        let query = args.query(now).expect("valid");
        assert_eq!(query.origin.as_deref(), Some("a.example"));
        assert_eq!(query.reason.as_deref(), Some("paced"));
        assert_eq!(query.failed, Some(true));
        assert_eq!(query.acknowledged, Some(false));
        let args = FilterArgs { exempt: true, ..FilterArgs::default() };
        let query = args.query(now).expect("valid");
        assert_eq!(query.reason.as_deref(), Some("client_exempt"));
        let args = FilterArgs { since: Some("soon".into()), ..FilterArgs::default() };
        let error = args.query(now).expect_err("no time").to_string();
        assert!(error.starts_with("--since soon: not a time"), "{error}");
    }
}
