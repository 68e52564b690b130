//! Decisions or other events as rows: a table for people, stored records, cells for spreadsheets.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::Format;
use crate::Failure;
use crate::terminal::{Paint, Tone, fitted, printable};
use crawlgate_evidence::csv::{heading, row, to_csv};
use crawlgate_evidence::words::{answer, time};
use crawlgate_policy::Outcome;
use crawlgate_record::{Mode, token_texts};
use crawlgate_store::logs::Listed;
use crawlgate_tlog::KeyName;

/// A printer of decisions or events, one page after the other.
#[derive(Debug)]
pub(super) struct LogPrinter {
    format: Format,
    events: bool,
    layout: Layout,
    paint: Paint,
    /// The width of the column of the logs' names, if there is one.
    names: Option<usize>,
    is_empty: bool,
}

/// The width of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// No terminal: no text is cut.
    Free,
    /// The columns of a terminal: the last cells are cut or left out.
    Columns(usize),
}

/// Width below which a table leaves out the year, the scheme, the agent and the rule.
const ROOMY: usize = 160;

/// Width below which a URL gets a separate line: behind the other cells, its path would not fit.
const TIGHT: usize = 110;

const TIME: usize = 19;
const SHORT_TIME: usize = 14;
const ID: usize = 26;
const REASON: usize = 18;
const STATUS: usize = 6;
const ANSWER: usize = 22;
const AGENT: usize = 18;
const EVENT: usize = 19;

/// The heading of the logs' names, and the member with one.
const LOG: &str = "log";

/// The widest name of a log on a terminal.
const MAX_NAME: usize = 28;

impl LogPrinter {
    /// Creates a printer for standard output of this width, `None` without a terminal; for events, or for decisions.
    pub(super) fn new(
        format: Format,
        events: bool,
        width: Option<usize>,
        is_terminal: bool,
    ) -> LogPrinter {
        LogPrinter {
            format,
            events,
            layout: width.map_or(Layout::Free, Layout::Columns),
            paint: Paint::on(is_terminal),
            names: None,
            is_empty: true,
        }
    }

    /// Adds the name of the log to each row.
    pub(super) fn with_names<'n>(self, names: impl Iterator<Item = &'n KeyName>) -> LogPrinter {
        let widths = names.map(|name| printable(name.as_str()).chars().count());
        let widest = widths.max().unwrap_or_default().max(LOG.len());
        let names = match self.layout {
            Layout::Free => widest,
            Layout::Columns(_) => widest.min(MAX_NAME),
        };
        LogPrinter { names: Some(names), ..self }
    }

    /// Returns the heading above the first row.
    pub(super) fn heading(&self) -> Result<Vec<u8>, Failure> {
        match self.format {
            Format::Jsonl | Format::Sqlite => Ok(Vec::new()),
            Format::Csv => {
                let names = self.names.map(|_| LOG.to_owned()).into_iter();
                let heading = names.chain(heading().map(str::to_owned));
                to_csv([heading].into_iter()).map_err(Into::into)
            }
            Format::Table if self.events => {
                let log = self.name(LOG.to_uppercase().as_str());
                Ok(format!("{:TIME$}  {log}{:EVENT$}  DETAILS\n", "TIME", "EVENT").into_bytes())
            }
            Format::Table => {
                let cells = ["time", "id", "reason", "status", "agent", "url", "rule"];
                let cells = cells.map(str::to_owned);
                let mut line = self.line(LOG, cells, None);
                line.make_ascii_uppercase();
                Ok(line.into_bytes())
            }
        }
    }

    /// Tells whether there was no row yet.
    pub(super) fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Returns the rows of a page.
    pub(super) fn rows(&mut self, page: &[Listed]) -> Result<Vec<u8>, Failure> {
        self.is_empty &= page.is_empty();
        match self.format {
            Format::Jsonl | Format::Sqlite => {
                let lines = page.iter().map(|one| match self.names {
                    Some(_) => one.line() + "\n",
                    None => format!("{}\n", one.entry.record),
                });
                Ok(lines.collect::<String>().into_bytes())
            }
            Format::Csv => {
                let rows = page.iter().map(|one| {
                    let name = self.names.map(|_| one.log.to_string());
                    name.into_iter().chain(row(&one.entry))
                });
                to_csv(rows).map_err(Into::into)
            }
            Format::Table => {
                let lines = page
                    .iter()
                    .map(|one| if self.events { self.event(one) } else { self.row(one) });
                Ok(lines.collect::<String>().into_bytes())
            }
        }
    }

    /// Returns the cell of a log's name, with the gap behind it; nothing without such a column.
    fn name(&self, name: &str) -> String {
        match self.names {
            Some(width) => format!("{:width$}  ", fitted(name, width)),
            None => String::new(),
        }
    }

    /// Returns the row of an event: its time, its name, and the rest of its line as it is.
    fn event(&self, listed: &Listed) -> String {
        let event = &listed.entry;
        let log = self.name(listed.log.as_str());
        let line = printable(&event.record);
        let parts = line.strip_prefix("{\"time\":\"").and_then(|rest| {
            let (time, rest) = rest.split_once("\",\"event\":\"")?;
            let (name, rest) = rest.split_once('"')?;
            Some((time, name, rest.strip_suffix('}').unwrap_or(rest)))
        });
        let Some((time, name, rest)) = parts else {
            return format!("record {} cannot be read: {line}\n", event.seq);
        };
        let (time, rest) = (day_and_time(time), rest.trim_start_matches(','));
        let rest = match self.layout {
            Layout::Free => Cow::Borrowed(rest),
            Layout::Columns(width) => {
                let used = TIME + log.chars().count() + EVENT + 5;
                fitted(rest, width.saturating_sub(used).max(8))
            }
        };
        format!("{time:TIME$}  {log}{name:EVENT$}  {rest}\n")
    }

    fn row(&self, listed: &Listed) -> String {
        let decision = &listed.entry;
        let one = match decision.told() {
            Ok(one) => one,
            Err(error) => return format!("record {} cannot be read: {error}\n", decision.seq),
        };
        let mut rule = match (one.rule, one.overridden) {
            (Some(rule), _) => format!("{} (line {})", rule.text, rule.line),
            (None, Some(overridden)) => {
                format!("override {}: {}", overridden.id, overridden.reason)
            }
            (None, None) => "-".to_owned(),
        };
        if let Some(seen) = &decision.acknowledged {
            let _ = write!(rule, " · seen by {}: {}", seen.by, seen.note); // a String takes all
        }
        let agent = token_texts(&one.chain).into_iter().next();
        let reason = match one.mode {
            Mode::Report => format!("{} (report)", one.reason),
            Mode::Enforce => one.reason.to_owned(),
        };
        let cells = [
            day_and_time(&time(one.time())),
            one.id_text(),
            reason,
            answer(&one),
            agent.unwrap_or_else(|| "*".to_owned()),
            one.url_text(),
            rule,
        ];
        let tone = match one.outcome() {
            Outcome::Forwarded => Tone::Good,
            Outcome::Failed | Outcome::Disallowed | Outcome::RefusedHere => Tone::Bad,
            Outcome::Unreachable | Outcome::Deferred => Tone::Remark,
        };
        self.line(listed.log.as_str(), cells, Some(tone))
    }

    fn line(&self, log: &str, cells: [String; 7], tone: Option<Tone>) -> String {
        let [time, id, reason, answer, agent, url, rule] =
            cells.each_ref().map(|cell| printable(cell));
        let log = self.name(log);
        let of_log = log.chars().count();
        let colour = |text: &str, width: usize| {
            let padded = format!("{text:width$}");
            match tone {
                Some(tone) => self.paint.tone(tone, padded).to_string(),
                None => padded,
            }
        };
        match self.layout {
            Layout::Free => format!(
                "{time:TIME$}  {id:ID$}  {log}{}  {}  {agent:AGENT$}  {url}  {rule}\n",
                colour(&reason, REASON),
                colour(&answer, ANSWER)
            ),
            Layout::Columns(width) if width < TIGHT + of_log => {
                let time = time.get(TIME - SHORT_TIME..).unwrap_or(&time);
                let url = url.split_once("://").map_or(&*url, |(_, rest)| rest);
                let url = with_path(url, width.saturating_sub(of_log + 5).max(8));
                let used = SHORT_TIME + ID + REASON + 6;
                let answer = fitted(&answer, width.saturating_sub(used + 1).max(STATUS));
                let reason = fitted(&reason, REASON);
                // The answer is the last cell on its line, so it needs no padding.
                format!(
                    "{time:SHORT_TIME$}  {id:ID$}  {}  {}\n    {log}{url}\n",
                    colour(&reason, REASON),
                    colour(&answer, 0)
                )
            }
            Layout::Columns(width) if width < ROOMY + of_log => {
                let time = time.get(TIME - SHORT_TIME..).unwrap_or(&time);
                let used = SHORT_TIME + ID + of_log + REASON + STATUS + 8;
                let url = url.split_once("://").map_or(&*url, |(_, rest)| rest);
                let url = with_path(url, width.saturating_sub(used + 1).max(8));
                let reason = fitted(&reason, REASON);
                // Only the status: an error is in the wider tables.
                let status = answer.split(' ').next().unwrap_or_default();
                let answer = fitted(status, STATUS);
                format!(
                    "{time:SHORT_TIME$}  {id:ID$}  {log}{}  {}  {url}\n",
                    colour(&reason, REASON),
                    colour(&answer, STATUS)
                )
            }
            Layout::Columns(width) => {
                let used = TIME + ID + of_log + REASON + ANSWER + AGENT + 12;
                let rest = width.saturating_sub(used + 1);
                let (reason, agent) = (fitted(&reason, REASON), fitted(&agent, AGENT));
                let of_url = rest - rest / 3;
                let (url, rule) = (with_path(&url, of_url), fitted(&rule, rest / 3));
                let answer = fitted(&answer, ANSWER);
                let (reason, answer) = (colour(&reason, REASON), colour(&answer, ANSWER));
                format!(
                    "{time:TIME$}  {id:ID$}  {log}{reason}  {answer}  {agent:AGENT$}  {url:of_url$}  {rule}\n"
                )
            }
        }
    }
}

/// Fits a URL into `max` characters. Its path was judged, so a long host is cut to half of that.
fn with_path(url: &str, max: usize) -> Cow<'_, str> {
    if url.chars().count() <= max {
        return Cow::Borrowed(url);
    }
    let host = url.find("://").map_or(0, |at| at + 3);
    let slash = url.get(host..).and_then(|rest| rest.find('/'));
    let (origin, path) = url.split_at(slash.map_or(url.len(), |at| host + at));
    let shown = match path.chars().count() {
        0 | 1 => origin.into(),
        path => fitted(origin, (max / 2).max(max.saturating_sub(path))),
    };
    Cow::Owned(fitted(&format!("{shown}{path}"), max).into_owned())
}

/// Returns `2026-11-20 12:00:00` of a record's time.
fn day_and_time(time: &str) -> String {
    time.get(..TIME).unwrap_or(time).replace('T', " ")
}

#[cfg(test)]
pub(super) mod tests;
