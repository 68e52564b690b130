//! One line of input and its answer.

use std::borrow::Cow;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::NO_PAD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::error::Category;

use super::lines::{LONGEST, Line};
use crate::Failure;
use crawlgate_config::Config;
use crawlgate_gate::cache::RobotsCache;
use crawlgate_gate::explain::Documents;
use crawlgate_gate::explain::document::{NoteOf, notes_of};
use crawlgate_gate::explain::usage::{self, File, Head, UsageQuery};
use crawlgate_origins::state::Stance;
use crawlgate_policy::agent::Agent;
use crawlgate_policy::overrides::Overrides;
use crawlgate_policy::usage::Signals;
use crawlgate_policy::{Reason, Verdict};
use crawlgate_robots::{
    ComparisonPath, GuardVerdict, Origin, ParseOptions, ProductToken, Robots, RuleKind, Rules,
    Selection,
};
use crawlgate_text::guarded::write;
use crawlgate_usage::record::UsageRecord;
use crawlgate_usage::{Statements, notes};

/// Compiled rules to keep of the last line's file.
const COMPILED: usize = 8;

/// A line of standard input.
#[derive(Deserialize)]
#[serde(expecting = "a JSON object with at least `url`")]
struct InputLine<'a> {
    #[serde(borrow)]
    url: Cow<'a, str>,
    agents: Option<Vec<String>>,
    robots: Option<String>,
    robots_base64: Option<String>,
    notes: Option<bool>,
    purposes: Option<Vec<String>>,
    response: Option<String>,
    #[serde(default, deserialize_with = "brought")]
    tdmrep: Option<Option<String>>,
    // A misspelt `agents` would judge for another crawler: refuse it.
    agent: Option<IgnoredAny>,
    user_agent: Option<IgnoredAny>,
}

#[derive(Serialize)]
struct OutputLine<'a> {
    verdict: &'static str,
    reason: &'static str,
    rule: Option<&'a str>,
    line: Option<u32>,
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guard: Option<Guard<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notes: Option<Vec<NoteOf<'a>>>,
    /// Left out where the line asks about no use.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<Option<UsageRecord<'a>>>,
}

/// The path guard's reason to deny; all `null` if the path has more readings than are judged.
#[derive(Default, Serialize)]
struct Guard<'a> {
    reading: Option<Cow<'a, str>>,
    rule: Option<&'a str>,
    line: Option<u32>,
    group: Option<&'a str>,
}

#[derive(Serialize)]
struct ErrorLine<'a> {
    error: &'a str,
    line: u64,
}

/// The result of a line.
pub(super) enum LineOutcome {
    /// The answer is written.
    Answered,
    /// The line needs the documents of its origin.
    ToFetch(Arc<PendingLine>),
}

/// A line that waits for the documents of its origin.
pub(super) struct PendingLine {
    origin: Origin,
    agent: Arc<Agent>,
    path: String,
    with_notes: bool,
    asked: Option<UsageQuery>,
    /// True if the line says what tdmrep.json counts, or that none does.
    brings_tdmrep: bool,
    number: u64,
}

/// Answers lines. Keeps the last line's file: many lines in a row share one.
pub(super) struct LineJudge {
    options: ParseOptions,
    path_guard: bool,
    default: Arc<Agent>,
    /// The purposes, the response and the tdmrep.json of the command line.
    usage: UsageQuery,
    asked: u64,
    last: Option<Parsed>,
    decoder: GeneralPurpose,
}

struct Parsed {
    robots: Robots,
    rules: Vec<(Selection, Arc<Rules>)>,
    /// The statements of the last selection that a line asked about use for.
    statements: Option<(Selection, Arc<Statements>)>,
}

impl LineJudge {
    pub(super) fn new(
        named: &[String],
        usage: UsageQuery,
        config: &Config,
    ) -> Result<LineJudge, Failure> {
        // Base64 without padding has the same meaning.
        let padding = base64::engine::DecodePaddingMode::Indifferent;
        let decoding = NO_PAD.with_decode_padding_mode(padding);
        Ok(LineJudge {
            options: crawlgate_gate::explain::options(&config.robots),
            path_guard: config.robots.path_guard,
            default: crawlgate_gate::explain::agent(named, config)?,
            usage,
            asked: 0,
            last: None,
            decoder: GeneralPurpose::new(&base64::alphabet::STANDARD, decoding),
        })
    }

    /// Reads a line and appends its answer, unless it needs a robots.txt.
    pub(super) fn take(&mut self, line: &Line, out: &mut Vec<u8>) -> LineOutcome {
        self.asked += 1;
        match self.answer(line, out) {
            Ok(asked) => asked,
            Err(error) => {
                refuse(&error.to_string(), self.asked, out);
                LineOutcome::Answered
            }
        }
    }

    fn answer(&mut self, line: &Line, out: &mut Vec<u8>) -> Result<LineOutcome, Failure> {
        let Line::Whole(line) = line else {
            bail!("the line is longer than {LONGEST} octets");
        };
        let input: InputLine<'_> = serde_json::from_slice(line).map_err(|error| invalid(&error))?;
        if input.agent.is_some() || input.user_agent.is_some() {
            bail!("name the crawler in `agents`, a list: [\"ExampleBot\"]");
        }
        let (origin, path) = crawlgate_gate::explain::origin(&input.url)?;
        let agent = match &input.agents {
            None => Arc::clone(&self.default),
            Some(named) if named.is_empty() => Arc::default(),
            Some(named) => crawlgate_gate::explain::named(named)?,
        };
        let with_notes = input.notes == Some(true);
        let asked = self.asked_of(&input)?;
        let text = match (input.robots, input.robots_base64) {
            (Some(_), Some(_)) => {
                bail!("`robots` and `robots_base64` are two files: bring one");
            }
            (Some(text), None) => text.into_bytes(),
            (None, Some(text)) => self
                .decoder
                .decode(text.as_bytes())
                .map_err(|error| format!("`robots_base64`: not Base64: {error}"))?,
            (None, None) => {
                return Ok(LineOutcome::ToFetch(Arc::new(PendingLine {
                    origin,
                    agent,
                    path,
                    with_notes,
                    asked,
                    brings_tdmrep: input.tdmrep.is_some(),
                    number: self.asked,
                })));
            }
        };
        let path_guard = self.path_guard;
        let (last, rules) = self.rules_of(&text, &agent);
        let asked = asked.map(|asked| UsageContext {
            statements: Some(last.statements(&agent)),
            chain: &agent.tokens,
            asked,
        });
        tell(path.as_bytes(), &rules, path_guard, with_notes.then_some(&last.robots), asked, out);
        Ok(LineOutcome::Answered)
    }

    /// Appends the answer to a line after its fetch; `None`: the fetch ended in a panic.
    pub(super) fn end(&self, fetch: &PendingLine, documents: Option<Documents>, out: &mut Vec<u8>) {
        let path = fetch.path.as_bytes();
        let mut asked = fetch.asked.clone();
        let (view, tdmrep) = documents.map(|it| (it.view, it.tdmrep)).unzip();
        if let (Some(asked), Some(Some(file))) = (&mut asked, tdmrep) {
            if let File::Pending = *file
                && Signals::of(asked.purposes, &asked.modes).ask_for_tdmrep()
            {
                return refuse("tdmrep.json did not arrive in time", fetch.number, out);
            }
            asked.tdmrep = Some(file);
        }
        let reason = match view.as_ref().map(|view| &view.stance) {
            _ if ComparisonPath::new(path).is_robots_txt() => Reason::RobotsTxt,
            None => return refuse("robots.txt was not fetched", fetch.number, out),
            Some(Stance::Unknown) => {
                return refuse("robots.txt did not arrive in time", fetch.number, out);
            }
            Some(Stance::Rules(snapshot)) => {
                let chain = &fetch.agent.tokens;
                let rules = snapshot.rules(chain);
                let noted = fetch.with_notes.then_some(&snapshot.robots);
                let asked = asked.map(|asked| UsageContext {
                    statements: snapshot.statements(chain),
                    chain,
                    asked,
                });
                return tell(path, &rules, self.path_guard, noted, asked, out);
            }
            Some(Stance::AllowAll) => Reason::RobotsUnavailable,
            Some(Stance::DisallowAll { .. }) => Reason::RobotsUnreachable,
        };
        let mut answer = OutputLine::of(reason);
        answer.notes = fetch.with_notes.then(Vec::new);
        let asked =
            asked.map(|asked| UsageContext { statements: None, chain: &fetch.agent.tokens, asked });
        answer.finish(path, false, asked, out);
    }

    /// Returns what a line asks about use; `None` where it asks nothing and the command line names no purpose.
    fn asked_of(&self, input: &InputLine<'_>) -> Result<Option<UsageQuery>, Failure> {
        let mut asked = self.usage.clone();
        let mut is_asked = !asked.purposes.is_empty();
        if let Some(words) = &input.purposes {
            asked.purposes =
                usage::purposes(words).map_err(|error| format!("`purposes`: {error}"))?;
            is_asked = true;
        }
        if let Some(text) = &input.response {
            asked.response = Some(Arc::new(Head::parse(text.as_bytes())));
            is_asked = true;
        }
        if let Some(text) = &input.tdmrep {
            let text = text.as_ref();
            asked.tdmrep = text.map(|text| Arc::new(File::parse(text.as_bytes())));
            is_asked = true;
        }
        Ok(is_asked.then_some(asked))
    }

    /// Returns a file and its rules for the agent; parses only if the file differs from the last one.
    fn rules_of(&mut self, text: &[u8], agent: &Agent) -> (&mut Parsed, Arc<Rules>) {
        let is_last = |last: &Parsed| !last.robots.is_truncated() && last.robots.text() == text;
        let last = self.last.take().filter(is_last).unwrap_or_else(|| Parsed {
            robots: Robots::parse(text, self.options),
            rules: Vec::new(),
            statements: None,
        });
        let last = self.last.insert(last);
        let selection = last.robots.selection(&agent.tokens);
        let known = last.rules.iter().find(|(of, _)| *of == selection);
        let rules = match known {
            Some((_, rules)) => Arc::clone(rules),
            None => {
                let rules = Arc::new(last.robots.rules(selection));
                last.rules.truncate(COMPILED - 1);
                last.rules.push((selection, Arc::clone(&rules)));
                rules
            }
        };
        (last, rules)
    }
}

impl PendingLine {
    /// Fetches the documents. The answer is the protocol's, so that no override counts.
    pub(super) async fn documents(&self, cache: &RobotsCache) -> Documents {
        let page = (&self.origin, &*self.path);
        let is_robots_txt = ComparisonPath::new(self.path.as_bytes()).is_robots_txt();
        let asked = self.asked.as_ref();
        let asked = asked.filter(|_| !self.brings_tdmrep && !is_robots_txt);
        Documents::fetch(cache, page, &self.agent, asked, &Overrides::default()).await
    }
}

impl Parsed {
    /// Returns what the file says of use to the agent.
    fn statements(&mut self, agent: &Agent) -> Arc<Statements> {
        let selection = self.robots.selection(&agent.tokens);
        if let Some((known, statements)) = &self.statements
            && *known == selection
        {
            return Arc::clone(statements);
        }
        let statements = Arc::new(Statements::selected(&self.robots, selection));
        self.statements = Some((selection, Arc::clone(&statements)));
        statements
    }
}

/// The question of a line about use: its purposes, response and tdmrep.json, and the statements for its crawler.
struct UsageContext<'a> {
    statements: Option<Arc<Statements>>,
    chain: &'a [ProductToken],
    asked: UsageQuery,
}

/// Appends the protocol's answer, and that of the path guard.
fn tell(
    path: &[u8],
    rules: &Rules,
    path_guard: bool,
    noted: Option<&Robots>,
    asked: Option<UsageContext<'_>>,
    out: &mut Vec<u8>,
) {
    let form = ComparisonPath::new(path);
    let verdict = rules.verdict(&form);
    let rule = verdict.as_deref();
    let reason = match rule {
        _ if form.is_robots_txt() => Reason::RobotsTxt,
        _ if rules.is_empty() => Reason::NoRules,
        Some(rule) if rule.kind == RuleKind::Disallow => Reason::RobotsDisallow,
        _ => Reason::RobotsAllow,
    };
    let guarded = if path_guard && reason == Reason::RobotsAllow {
        rules.guard(&form)
    } else {
        GuardVerdict::Allowed
    };
    let notes = noted.map(notes);
    let answer = OutputLine {
        rule: rule.map(|rule| &*rule.text),
        line: rule.map(|rule| rule.line),
        group: rule.map(|rule| &*rule.group).or(rules.group().map(|(group, _)| group)),
        guard: match &guarded {
            GuardVerdict::Allowed => None,
            GuardVerdict::TooMany => Some(Guard::default()),
            GuardVerdict::Disallowed { reading, rule } => Some(Guard {
                reading: Some(String::from_utf8_lossy(reading)),
                rule: Some(&rule.text),
                line: Some(rule.line),
                group: Some(&rule.group),
            }),
        },
        notes: notes.as_deref().map(notes_of),
        ..OutputLine::of(reason)
    };
    answer.finish(path, path_guard, asked, out);
}

impl OutputLine<'_> {
    /// Appends the answer, with what the line asks about use. Nothing is said of a path that is not allowed.
    fn finish(
        mut self,
        path: &[u8],
        path_guard: bool,
        asked: Option<UsageContext<'_>>,
        out: &mut Vec<u8>,
    ) {
        let Some(UsageContext { statements, chain, asked }) = asked else {
            return write(&self, out);
        };
        let is_asked = self.verdict == Verdict::Allow.as_str() && self.guard.is_none();
        let usage = is_asked.then(|| {
            let file = asked.tdmrep.as_deref();
            asked.judge(statements.as_deref(), file, chain, path, path_guard)
        });
        if let Some(refusal) = usage.as_ref().and_then(|usage| usage.refusal) {
            self.verdict = refusal.verdict().as_str();
            self.reason = refusal.as_str();
            (self.rule, self.line) = (None, None);
        }
        // Shorter-lived than the rest of the answer.
        let mut answer: OutputLine<'_> = self;
        answer.usage = Some(usage.as_ref().and_then(|usage| usage.record()));
        write(&answer, out);
    }

    /// Returns an answer with a reason and no rule.
    fn of(reason: Reason) -> Self {
        OutputLine {
            verdict: reason.verdict().as_str(),
            reason: reason.as_str(),
            rule: None,
            line: None,
            group: None,
            guard: None,
            notes: None,
            usage: None,
        }
    }
}

/// Reads a member that may be null.
fn brought<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(from).map(Some)
}

fn refuse(error: &str, line: u64, out: &mut Vec<u8>) {
    write(&ErrorLine { error, line }, out);
}

/// Describes the error of a line. The parser's line number is left out: there is but one line.
fn invalid(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let what = message.strip_suffix(&*place).unwrap_or(&message);
    let invalid = match error.classify() {
        Category::Syntax | Category::Eof => "not a JSON object",
        Category::Data | Category::Io => "no question",
    };
    format!("{invalid}: {what} (column {})", error.column())
}

#[cfg(test)]
mod tests;
