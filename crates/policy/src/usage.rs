//! Decisions about the use of a page: before the request is sent, and at the head of its response.
//!
//! Robots rules come first: a path that they disallow has no preferences (draft-ietf-aipref-attach section 3.1). A use
//! that robots.txt disallows to a declared purpose is refused before the request is sent; one that the response
//! disallows is withheld: not one octet of its body may pass without a [`Release`].

use std::sync::Arc;

use super::overrides::ActiveOverride;
use super::tdmrep::{Reservations, TdmRepStance};
use super::{Decision, Reason, Verdict};
use crate::agent::Agent;
use crawlgate_origins::snapshot::Snapshot;
use crawlgate_robots::ProductToken;
use crawlgate_usage::lines::{KeptLines, Lines};
use crawlgate_usage::record::{self, FieldRecord, UsageRecord};
use crawlgate_usage::{
    Categories, Category, Judged, Modes, Preference, Purposes, Said, SignalMode, Value, fields,
    judge, judge_response,
};

/// The grounds of a decision about use, besides what the site says.
#[derive(Debug, Clone)]
pub struct Signals {
    /// The purposes that the client declares.
    pub purposes: Purposes,
    /// The treatment of each signal.
    pub modes: Arc<Modes>,
    /// The override that lifts what the site says of use, if there is one.
    pub lifted: Option<Arc<ActiveOverride>>,
    /// The origin's tdmrep.json; `None` if it is not asked.
    pub tdmrep: Option<Arc<Reservations>>,
}

impl Signals {
    /// Returns the grounds without an override.
    #[must_use]
    pub fn of(purposes: Purposes, modes: &Arc<Modes>) -> Signals {
        Signals { purposes, modes: Arc::clone(modes), lifted: None, tdmrep: None }
    }

    /// Tells whether robots.txt disallows a declared purpose on any path, which a tunnel could be about.
    pub(super) fn refuse_somewhere(&self, snapshot: &Snapshot, agent: &Agent) -> bool {
        !self.purposes.is_empty()
            && snapshot
                .statements(&agent.tokens)
                .is_some_and(|statements| statements.refuses_somewhere(self.purposes, &self.modes))
    }
}

impl Signals {
    /// Tells whether the file must be known before a request leaves: it is enforced, a purpose asks for `tdm`, and no
    /// override lifts what it says.
    #[must_use]
    pub fn wait_for_tdmrep(&self) -> bool {
        self.ask_for_tdmrep() && self.lifted.is_none()
    }

    /// Tells whether the file is enforced, and a purpose asks for `tdm`.
    #[must_use]
    pub fn ask_for_tdmrep(&self) -> bool {
        let tdm = Categories::one(Category::Tdm);
        self.modes.tdmrep == SignalMode::Enforce && !self.purposes.refused_by(tdm).is_empty()
    }

    /// Tells whether a request must wait for the file, which has not come.
    pub(super) fn lack_tdmrep(&self) -> bool {
        let is_pending = |file: &Arc<Reservations>| matches!(file.stance, TdmRepStance::Pending);
        self.tdmrep.as_ref().is_some_and(is_pending) && self.wait_for_tdmrep()
    }

    /// Returns the override that spares a request the wait for a file that has not come.
    pub(super) fn exempting_override(&self) -> Option<&Arc<ActiveOverride>> {
        let is_pending = |file: &Arc<Reservations>| matches!(file.stance, TdmRepStance::Pending);
        let is_spared = self.tdmrep.as_ref().is_some_and(is_pending) && self.ask_for_tdmrep();
        self.lifted.as_ref().filter(|_| is_spared)
    }

    /// Tells whether the file reserves any path for a declared purpose.
    pub(super) fn reserved_somewhere(&self) -> bool {
        self.tdmrep.as_ref().is_some_and(|file| {
            let TdmRepStance::Copy(snapshot) = &file.stance else {
                return false;
            };
            let read = snapshot.tdmrep();
            read.is_ok_and(|file| file.refuses_somewhere(self.purposes, &self.modes))
        })
    }
}

/// The known statements about the use of one page.
#[derive(Debug, Clone)]
pub struct Usage {
    /// The purposes that the client declares.
    pub purposes: Purposes,
    /// The origin's tdmrep.json, if it was asked.
    pub tdmrep: Option<Arc<Reservations>>,
    /// The statements of robots.txt and tdmrep.json.
    pub before: Said,
    /// The statements of the response; `None` before it came, and if it has none.
    pub after: Option<Response>,
    /// The judgement that follows from both.
    pub judged: Judged,
    /// When the use was refused.
    pub stage: Option<Stage>,
    /// The reason under which a request went out that was withheld later.
    pub let_out_by: Option<Reason>,
    /// The status that the origin answered with, once its response came.
    pub received_status: Option<u16>,
}

/// The fields of a response that speak of use.
#[derive(Debug, Clone)]
pub struct Response {
    /// The field lines, in order.
    pub lines: KeptLines,
    /// The statements in these lines.
    pub said: Said,
}

crawlgate_text::spelled! {
    /// The time of a refusal.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Stage {
        /// No request was sent.
        Before = "before",
        /// The origin's response had come.
        After = "after",
    }
}

/// Proof that a response was judged and its body may pass. Only [`release`] makes one:
///
/// ```compile_fail,E0423
/// fn forge() -> crawlgate_policy::usage::Release {
///     crawlgate_policy::usage::Release(())
/// }
/// ```
#[derive(Debug)]
pub struct Release(());

/// The head of a final response, as far as it speaks of use.
#[derive(Debug)]
pub struct Head<'a> {
    /// The status code.
    pub status: u16,
    /// The field lines that speak of use, in order.
    pub lines: Lines<'a>,
    /// The crawler's product tokens, most specific first.
    pub tokens: &'a [ProductToken],
}

/// Returns the reason to refuse a use before the request is sent, if the judgement refuses it.
#[must_use]
pub fn refusal(judged: &Judged) -> Option<Reason> {
    if !judged.refused.is_empty() {
        Some(Reason::UsageDisallow)
    } else if judged.unlicensed {
        Some(Reason::LicenseRequired)
    } else {
        None
    }
}

impl Usage {
    /// Returns the usage of a page of which nothing is known yet.
    fn new(purposes: Purposes, tdmrep: Option<Arc<Reservations>>) -> Box<Usage> {
        Box::new(Usage {
            purposes,
            tdmrep,
            before: Said::default(),
            after: None,
            judged: Judged::default(),
            stage: None,
            let_out_by: None,
            received_status: None,
        })
    }

    /// Takes the refusal back: an override lifts it.
    fn lift(&mut self) {
        self.judged.refused = Purposes::NONE;
        self.judged.unlicensed = false;
    }

    /// Tells whether there is nothing to record.
    pub fn is_silent(&self) -> bool {
        let silent_response = self.after.as_ref().is_none_or(|after| after.said.is_empty());
        self.purposes.is_empty() && self.before.is_empty() && silent_response
    }

    /// Returns the text for the record of a request of which nothing was asked but these purposes; `None` without any.
    #[must_use]
    pub fn text_of(purposes: Purposes) -> Option<String> {
        (!purposes.is_empty()).then(|| Usage::new(purposes, None).record().text())
    }

    /// Returns the text for records; `None` where nothing was said and no purpose declared.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        (!self.is_silent()).then(|| self.record().text())
    }

    /// Returns the first preferences that disallow something, if a purpose was refused.
    pub fn refusing(&self) -> impl Iterator<Item = &Preference> {
        let disallows = |one: &&Preference| one.value == Value::Disallow;
        let all = self.said().flat_map(|said| &said.preferences);
        all.filter(disallows).take(if self.judged.refused.is_empty() { 0 } else { MAX_ANSWERED })
    }

    /// Returns the text for answers: purposes, what was refused, and the first preferences.
    #[must_use]
    pub fn answer(&self) -> Option<String> {
        if self.is_silent() {
            return None;
        }
        let mut record = UsageRecord::of(self.purposes, self.said(), &self.judged);
        record.preferences.truncate(MAX_ANSWERED);
        let answered = record::Answered {
            purposes: record.purposes,
            refused: record.refused,
            preferences: record.preferences,
            licenses: record.licenses,
        };
        Some(answered.text())
    }

    /// Returns what was said, before and after the request was sent.
    fn said(&self) -> impl Iterator<Item = &Said> + Clone {
        let after = self.after.as_ref().map(|after| &after.said);
        std::iter::once(&self.before).chain(after)
    }

    /// Returns the object for records.
    #[must_use]
    pub fn record(&self) -> UsageRecord<'_> {
        let lines = self.after.as_ref().map(|after| &after.lines);
        let fields = lines.into_iter().flat_map(|lines| {
            lines
                .iter()
                .map(|(name, line)| FieldRecord::of(name.as_str(), line, lines.is_too_long(name)))
        });
        UsageRecord {
            stage: self.stage.map(|stage| stage.as_str().into()),
            let_out_by: self.let_out_by.map(|reason| reason.as_str().into()),
            received_status: self.received_status,
            fields: fields.take(MAX_LINES).collect(),
            cut: lines.is_some_and(|lines| lines.len() > MAX_LINES),
            ..UsageRecord::of(self.purposes, self.said(), &self.judged)
        }
    }
}

/// Preferences that an answer names.
const MAX_ANSWERED: usize = 8;

/// Field lines that a record keeps.
const MAX_LINES: usize = 64;

impl Decision {
    /// Judges the use of a page that the rules of robots.txt allow, by what it `said` of it.
    pub(super) fn with_usage(mut self, signals: Signals, said: Said) -> Decision {
        if said.is_empty() && signals.purposes.is_empty() {
            self.signals = Some(signals);
            return self;
        }
        let mut usage = Usage::new(signals.purposes, signals.tdmrep.clone());
        usage.judged = judge(signals.purposes, &signals.modes, &said, None);
        usage.before = said;
        match (refusal(&usage.judged), &signals.lifted) {
            (Some(_), Some(lifted)) => {
                usage.lift();
                self.asserted = Some(Arc::clone(lifted));
            }
            (Some(reason), None) => {
                usage.stage = Some(Stage::Before);
                self.refuse_use(reason);
            }
            (None, _) => {
                if let Some(exempting_override) = signals.exempting_override() {
                    self.asserted = Some(Arc::clone(exempting_override));
                }
            }
        }
        self.usage = Some(usage);
        self.signals = Some(signals);
        self
    }

    /// Enters the declared purposes into a refusal that asks for no statement of use.
    pub(super) fn with_purposes(mut self, signals: &Signals) -> Decision {
        let purposes = signals.purposes;
        self.usage = (!purposes.is_empty()).then(|| Usage::new(purposes, signals.tdmrep.clone()));
        self
    }

    /// Returns the status that the origin answered with, if its response is withheld.
    #[must_use]
    pub fn received_status(&self) -> Option<u16> {
        let usage = self.usage.as_ref()?;
        let is_withheld = self.reason == Reason::UsageWithheld;
        usage.received_status.filter(|_| is_withheld)
    }

    /// Refuses for a reason of use. No rule decided.
    fn refuse_use(&mut self, reason: Reason) {
        self.reason = reason;
        self.rule = None;
        self.reading = None;
    }
}

/// Judges the response to a request that was let out, and enters what it says into the decision. `None`: its use is
/// refused, and its body is withheld.
///
/// Only a 2xx response is withheld: any other carries what the crawler needs, and no content to use. In report mode the
/// decision tells the refusal, and the body passes.
pub fn release(decision: &mut Decision, mut head: Head<'_>) -> Option<Release> {
    let Some(Signals { purposes, modes, lifted, tdmrep }) = &decision.signals else {
        return Some(Release(()));
    };
    let said = fields::read(&head.lines, head.tokens, modes);
    head.lines.retain(|(name, _)| fields::tells(*name, &said, modes));
    if said.is_empty() && decision.usage.is_none() {
        return Some(Release(()));
    }
    let usage = decision.usage.get_or_insert_with(|| {
        let tdmrep = tdmrep.clone();
        Usage::new(*purposes, tdmrep)
    });
    usage.received_status = Some(head.status);
    // A refusal that was told before rests on the entries of tdmrep.json, whatever the response says.
    if usage.stage.is_none() {
        usage.before.drop_superseded(&said);
    }
    let first = std::mem::replace(
        &mut usage.judged,
        judge_response(*purposes, modes, &usage.before, &said, head.status),
    );
    // As above.
    if usage.stage == Some(Stage::Before) {
        usage.judged.refused = first.refused;
        usage.judged.unlicensed = first.unlicensed;
    }
    if !(said.is_empty() && head.lines.is_empty()) {
        usage.after = Some(Response { lines: KeptLines::of(&head.lines), said });
    }
    // A refusal that was told before stays: the request went out in report mode.
    if decision.reason.verdict() != Verdict::Allow || refusal(&usage.judged).is_none() {
        return Some(Release(()));
    }
    if let Some(lifted) = lifted {
        usage.lift();
        decision.asserted = Some(Arc::clone(lifted));
        return Some(Release(()));
    }
    usage.stage = Some(Stage::After);
    usage.let_out_by = Some(decision.reason);
    decision.refuse_use(Reason::UsageWithheld);
    decision.lets_out().then_some(Release(()))
}
