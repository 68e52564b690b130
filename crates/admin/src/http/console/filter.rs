//! The conditions of a list, for its form and its links. A condition that makes no sense is told beside its field.

use http::{HeaderMap, StatusCode};

use super::super::AppState;
use super::super::problem::Problem;
use super::problem_page::takes_html;
use crate::query::params::{Blank, Params};
use crate::query::{Conditions, InvalidParam, modes};
use crawlgate_policy::Reason;
use crawlgate_store::DecisionQuery;
use crawlgate_store::logs::ALL;
use crawlgate_system::clock::Moment;

/// The word for any verdict, in a list that shows denials by default.
const ANY: &str = "any";

/// The choices of a condition that is true or false.
const YES_OR_NO: [(&str, &str); 3] = [("", "either"), ("false", "no"), ("true", "yes")];

/// Conditions as a person wrote them.
pub(super) struct Filter {
    pub(super) since: String,
    pub(super) until: String,
    pub(super) origin: String,
    pub(super) path: String,
    pub(super) client: String,
    pub(super) agent: String,
    pub(super) rule: String,
    pub(super) reason: String,
    pub(super) verdict: String,
    pub(super) mode: String,
    pub(super) failed: String,
    pub(super) acknowledged: String,
    /// The logs to read, as written: nothing for the one of this process.
    pub(super) log: String,
    /// The names of all logs, if some are collected.
    logs: Vec<String>,
    conditions: Conditions,
    /// The verdict of the list unless its form names another.
    usual: &'static str,
    faults: FieldErrors,
}

/// The fields of a form that make no sense, each with the reason.
#[derive(Default)]
pub(super) struct FieldErrors(Vec<InvalidParam>);

/// A log to choose.
pub(super) struct LogChoice {
    pub(super) value: String,
    pub(super) name: String,
    pub(super) is_chosen: bool,
}

/// A choice of a select field.
pub(super) struct Choice {
    pub(super) value: &'static str,
    pub(super) name: &'static str,
    pub(super) is_chosen: bool,
}

impl Filter {
    /// Reads the conditions of a form. The default verdict is `usual`; any, for requests that failed: they were let
    /// through.
    pub(super) fn take(params: &mut Params, usual: &'static str) -> Result<Filter, Problem> {
        let mut conditions = params.conditions()?;
        let verdict = conditions.verdict.take().unwrap_or_else(|| match conditions.failed {
            Some(true) => ANY.to_owned(),
            _ => usual.to_owned(),
        });
        if verdict != ANY {
            conditions.verdict = Some(verdict.clone());
        }
        let said = |text: &Option<String>| text.clone().unwrap_or_default();
        let truth = |truth: Option<bool>| truth.map_or(String::new(), |truth| truth.to_string());
        Ok(Filter {
            since: said(&conditions.since),
            until: said(&conditions.until),
            origin: said(&conditions.origin),
            path: said(&conditions.path),
            client: said(&conditions.client),
            agent: said(&conditions.agent),
            rule: said(&conditions.rule),
            reason: said(&conditions.reason),
            verdict,
            mode: said(&conditions.mode),
            failed: truth(conditions.failed),
            acknowledged: truth(conditions.acknowledged),
            log: String::new(),
            logs: Vec::new(),
            conditions,
            usual,
            faults: FieldErrors::default(),
        })
    }

    /// Finds the fields that make no sense. A browser gets its form back with them and the status; a program gets the first
    /// one as a problem.
    pub(super) fn check(
        &mut self,
        app: &AppState,
        headers: &HeaderMap,
    ) -> Result<StatusCode, Problem> {
        self.faults = FieldErrors::find(&self.conditions, app.now(), |conditions, now| {
            conditions.query(now).map(drop)
        });
        self.faults.status(headers)
    }

    /// Returns what is wrong with a field.
    pub(super) fn fault(&self, name: &str) -> Option<String> {
        self.faults.of(name)
    }

    /// Tells whether any field makes no sense.
    pub(super) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// Tells whether the form has anything that the list has not by default: such a form is not folded.
    pub(super) fn is_set(&self) -> bool {
        self.said() > 0 || self.verdict != self.usual || self.has_faults()
    }

    /// Reads the logs of a form.
    pub(super) fn with_log(
        mut self,
        params: &mut Params,
        app: &AppState,
    ) -> Result<Filter, Problem> {
        self.log = params.text("log")?.unwrap_or_default();
        if app.has_collection() {
            let logs = app.all_logs()?;
            self.logs = logs.iter().map(|log| log.name().to_string()).collect();
        }
        Ok(self)
    }

    /// Returns the logs that are asked for; `None` for the one of this process.
    pub(super) fn wanted(&self) -> Option<&str> {
        Some(&*self.log).filter(|log| !log.is_empty())
    }

    /// Returns the logs to choose; none if none are collected.
    pub(super) fn log_choices(&self) -> Vec<LogChoice> {
        log_choices(&self.logs, &self.log)
    }

    /// Returns the query for the store.
    pub(super) fn query(&self, app: &AppState) -> Result<DecisionQuery, Problem> {
        Ok(self.conditions.query(app.now())?)
    }

    /// Returns the conditions as a URL's query, together with `more`; it begins without `&`.
    pub(super) fn link(&self, more: &[(&str, &str)]) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for (name, value) in self.pairs() {
            // `more` replaces a condition of the same name.
            if !value.is_empty() && more.iter().all(|(other, _)| *other != name) {
                query.append_pair(name, value);
            }
        }
        query.extend_pairs(more.iter().filter(|(_, value)| !value.is_empty()));
        query.finish()
    }

    fn pairs(&self) -> [(&'static str, &str); 13] {
        [
            ("since", &self.since),
            ("until", &self.until),
            ("origin", &self.origin),
            ("path", &self.path),
            ("client", &self.client),
            ("agent", &self.agent),
            ("rule", &self.rule),
            ("reason", &self.reason),
            ("verdict", &self.verdict),
            ("mode", &self.mode),
            ("failed", &self.failed),
            ("acknowledged", &self.acknowledged),
            ("log", &self.log),
        ]
    }

    /// Returns the conditions that are given, in words.
    pub(super) fn described(&self) -> Vec<(&'static str, String)> {
        let given = self.pairs().into_iter();
        let given = given.filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| (name, value.to_owned())).collect()
    }

    /// Tells whether every decision meets the conditions.
    pub(super) fn is_empty(&self) -> bool {
        self.conditions == Conditions::default()
    }

    /// Returns the conditions for the page of a decision, as a URL's query; empty for the usual ones.
    pub(super) fn context(&self) -> String {
        let link = self.link(&[("log", ""), ("acknowledged", "")]);
        if link == "verdict=deny" { String::new() } else { link }
    }

    /// Counts the conditions besides the verdict.
    pub(super) fn said(&self) -> usize {
        let said = |(name, value): &(&str, &str)| *name != "verdict" && !value.is_empty();
        self.pairs().iter().filter(|pair| said(pair)).count()
    }

    pub(super) fn verdicts(&self) -> Vec<Choice> {
        let all = [("deny", "denied"), ("defer", "put off"), ("allow", "allowed"), (ANY, "any")];
        choices(&all, &self.verdict)
    }

    pub(super) fn reasons(&self) -> Vec<Choice> {
        let all = Reason::ALL.map(|reason| (reason.as_str(), reason.as_str()));
        let any = [("", "any")];
        choices(&[&any[..], &all[..]].concat(), &self.reason)
    }

    pub(super) fn modes(&self) -> Vec<Choice> {
        let all = modes().map(|mode| (mode, mode));
        choices(&[&[("", "any")][..], &all[..]].concat(), &self.mode)
    }

    pub(super) fn failures(&self) -> Vec<Choice> {
        choices(&YES_OR_NO, &self.failed)
    }

    pub(super) fn seen(&self) -> Vec<Choice> {
        choices(&YES_OR_NO, &self.acknowledged)
    }

    /// Tells whether the conditions ask for failed requests among those that were not let through.
    pub(super) fn is_failure_denied(&self) -> bool {
        self.failed == "true" && matches!(&*self.verdict, "deny" | "defer")
    }
}

impl FieldErrors {
    /// Returns the faults of a form.
    pub(super) fn all(faults: Vec<InvalidParam>) -> FieldErrors {
        FieldErrors(faults)
    }

    /// Reads conditions until all that is left makes sense.
    pub(super) fn find(
        conditions: &Conditions,
        now: Moment,
        read: impl Fn(&Conditions, Moment) -> Result<(), InvalidParam>,
    ) -> FieldErrors {
        let (mut left, mut faults) = (conditions.clone(), Vec::<InvalidParam>::new());
        while let Err(wrong) = read(&left, now) {
            let is_new = faults.iter().all(|known| known.name != wrong.name);
            let can_go_on = is_new && leave_out(&mut left, &wrong.name);
            if is_new {
                faults.push(wrong);
            }
            if !can_go_on {
                break;
            }
        }
        FieldErrors(faults)
    }

    /// Returns what is wrong with a field.
    pub(super) fn of(&self, name: &str) -> Option<String> {
        let found = self.0.iter().find(|fault| fault.name == name);
        found.map(|fault| fault.message.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the status of a page with this form. A program reads no page: it gets the first fault as a problem.
    pub(super) fn status(&self, headers: &HeaderMap) -> Result<StatusCode, Problem> {
        match self.0.first() {
            None => Ok(StatusCode::OK),
            Some(_) if takes_html(headers) => Ok(StatusCode::BAD_REQUEST),
            Some(fault) => Err(fault.clone().into()),
        }
    }
}

/// Leaves a condition out that can make no sense; false for another name.
fn leave_out(conditions: &mut Conditions, name: &str) -> bool {
    let field = match name {
        "since" => &mut conditions.since,
        "until" => &mut conditions.until,
        "origin" => &mut conditions.origin,
        "path" => &mut conditions.path,
        "reason" => &mut conditions.reason,
        "verdict" => &mut conditions.verdict,
        "mode" => &mut conditions.mode,
        _ => return false,
    };
    field.take().is_some()
}

fn choices(all: &[(&'static str, &'static str)], chosen: &str) -> Vec<Choice> {
    let choice = |(value, name): &(&'static str, &'static str)| Choice {
        value,
        name,
        is_chosen: *value == chosen,
    };
    all.iter().map(choice).collect()
}

/// Returns the choices of a field for logs, of these names; none without collected logs.
pub(super) fn log_choices(logs: &[String], chosen: &str) -> Vec<LogChoice> {
    if logs.is_empty() {
        return Vec::new();
    }
    let fixed = [("", "this instance's own"), (ALL, "all")];
    let fixed = fixed.map(|(value, name)| (value.to_owned(), name.to_owned()));
    let mut choices: Vec<(String, String)> = fixed.into();
    choices.extend(logs.iter().map(|log| (log.clone(), log.clone())));
    if choices.iter().all(|(value, _)| value != chosen) {
        choices.push((chosen.to_owned(), chosen.to_owned()));
    }
    let choice =
        |(value, name): (String, String)| LogChoice { is_chosen: value == chosen, value, name };
    choices.into_iter().map(choice).collect()
}

/// Reads the parameters of a list.
pub(super) fn params(query: Option<&str>) -> Params {
    Params::of(query, Blank::Unsaid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_without_sense_is_found() {
        let conditions = Conditions {
            since: Some("soon".to_owned()),
            path: Some("x".to_owned()),
            reason: Some("because".to_owned()),
            agent: Some("any text".to_owned()),
            ..Conditions::default()
        };
        let now = Moment::from_millis(1_795_176_000_000);
        let read = |conditions: &Conditions, now| conditions.query(now).map(drop);
        let faults = FieldErrors::find(&conditions, now, read);
        for (name, is_wrong) in
            [("since", true), ("path", true), ("reason", true), ("agent", false)]
        {
            assert_eq!(faults.of(name).is_some(), is_wrong, "{name}");
        }
        // A fault that stays without its field ends the search.
        let read = |_: &Conditions, _| Err(InvalidParam::new("until", "never"));
        assert!(!FieldErrors::find(&conditions, now, read).is_empty());
    }

    #[test]
    fn links_keep_conditions_unless_new_ones_replace_them() {
        let mut params = params(Some("origin=a.example&reason=paced&path=&acknowledged=false"));
        let filter = Filter::take(&mut params, "deny").expect("valid");
        assert_eq!(filter.said(), 3);
        assert_eq!(filter.conditions.verdict.as_deref(), Some("deny"));
        assert_eq!(
            filter.link(&[("before", "7"), ("reason", "")]),
            "origin=a.example&verdict=deny&acknowledged=false&before=7"
        );
        let any = Filter::take(&mut super::params(Some("verdict=any")), "deny").expect("valid");
        assert_eq!(any.conditions.verdict, None);
        assert_eq!(any.link(&[]), "verdict=any");
        let mut params = super::params(Some("failed=true"));
        let failed = Filter::take(&mut params, "deny").expect("valid");
        assert_eq!((failed.conditions.verdict, failed.conditions.failed), (None, Some(true)));
    }
}
