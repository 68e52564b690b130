//! `crawlgate check`: shows the decision of the gate here about a URL, and its reasons. The page is not requested; robots.txt is, where
//! the store has no copy that the gate would judge by.
//!
//! One command has four uses: the decision about some URLs (`judge`, printed as `text` or as a `document`), the
//! contents and errors of a robots.txt (`lint`), the protocol's verdict on thousands of URLs (`bulk`), and what another
//! robots.txt changes for requests that were recorded (`recorded`).

mod bulk;
mod judge;
mod lint;
mod page;
mod recorded;
mod source;
mod text;
mod usage_text;

use std::collections::{HashMap, HashSet};
use std::io::{self, BufRead, BufReader, BufWriter, IsTerminal as _, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use tracing::warn;

use self::judge::{Judge, Stopped};
use self::page::Escaped;
use self::recorded::RecordedArgs;
use self::source::Known;
use super::collected::{CollectedArgs, LogSelection};
use super::terminal::Paint;
use super::{ExtraDestinations, FAILED, Failure, fail};
use crawlgate_config::Config;
use crawlgate_gate::explain::usage::{self, Head, UsageQuery};
use crawlgate_gate::explain::{File, Judgement, Unjudged, document};
use crawlgate_policy::Verdict;
use crawlgate_policy::agent;
use crawlgate_proxy::telemetry::tell_on_stderr;
use crawlgate_robots::ProductToken;
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_usage::tdmrep;

/// Exit code for a denied URL.
const DENIED: u8 = 1;

/// Exit code of `--strict` for a robots.txt with notes.
const NOTED: u8 = 1;

/// Octets of a response head that are read.
const MAX_HEAD: u64 = 1 << 20;

/// Arguments of `crawlgate check`.
#[derive(Args, Clone, Debug)]
#[command(after_long_help = LONG_HELP)]
pub struct CheckArgs {
    /// The URLs, with their scheme
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "robots", "jsonl"])]
    url: Vec<String>,
    /// Product token to judge as, or a whole User-Agent; several are a chain, most specific first
    ///
    /// By default, [agent] product_tokens of the configuration, else the rules for `*`.
    #[arg(long, short, value_name = "TOKEN")]
    agent: Vec<String>,
    /// Judge by this file instead of the origin's robots.txt; `-` is standard input
    ///
    /// The file alone decides: a matching override is reported, but not applied.
    ///
    /// Without a URL, the file itself is linted: its groups, its other fields, and lines without the effect that they
    /// seem to have. With --since, it judges requests that were recorded.
    #[arg(long, value_name = "FILE")]
    robots: Option<PathBuf>,
    /// Judge the URLs in this file, too, one on each line; `-` is standard input, `#` begins a comment line
    #[arg(long, value_name = "FILE")]
    urls: Option<PathBuf>,
    /// Purpose that the content is for: search, train-ai, ai-input, tdm or other; several are a list with commas
    ///
    /// A use that the site disallows is refused. By default, [policy] purposes of the configuration.
    #[arg(long, value_name = "PURPOSE")]
    purpose: Vec<String>,
    /// Judge this response head, too: what its fields say of the use of the page, as `curl -D` writes them
    #[arg(long, value_name = "FILE")]
    response: Option<PathBuf>,
    /// Judge by this copy of the origin's /.well-known/tdmrep.json, too, unless [signals] tdmrep is "off"
    #[arg(long, value_name = "FILE")]
    tdmrep: Option<PathBuf>,
    /// Print one JSON object for each URL, each on a line of its own
    #[arg(long)]
    json: bool,
    /// Judge in bulk: a JSON object on each line of standard input, its answer on standard output
    #[arg(long, conflicts_with_all = ["url", "urls", "json", "quiet", "response", "tdmrep"])]
    jsonl: bool,
    /// Ask each origin for its robots.txt, even if the gate here has a copy that it judges by
    ///
    /// By default, the answer is that of the gate here: by the copy in its store while that is fresh, else by what the origin
    /// sends now. Nothing is written into the store: `crawlgate origins refresh` has the running process fetch.
    #[arg(long, conflicts_with = "robots")]
    fresh: bool,
    /// Exit 1 if there are notes on the robots.txt, too
    #[arg(long, conflicts_with = "jsonl")]
    strict: bool,
    /// Print nothing, only exit with the code
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    #[command(flatten)]
    recorded: RecordedArgs,
    #[command(flatten)]
    collected: CollectedArgs,
    #[command(flatten)]
    pub(super) reach: ExtraDestinations,
}

impl CheckArgs {
    /// Tells whether the answer rests on what the store has.
    pub(super) fn reads_store(&self) -> bool {
        self.recorded.is_asked() || (self.robots.is_none() && !self.fresh)
    }

    /// Returns the robots.txt that an answer may rest on.
    fn known(&self) -> Known {
        if self.fresh { Known::Nothing } else { Known::Stored }
    }

    /// Returns the logs that it reads: only recorded requests are in logs.
    pub(super) fn collected(&self) -> Option<&CollectedArgs> {
        self.recorded.is_asked().then_some(&self.collected)
    }
}

/// The end of `--help`: exit codes, and the lines of `--jsonl`.
const LONG_HELP: &str = "\
Exit codes: 0 all are allowed (a linted file: always), 1 one is denied (--strict: or there are notes), 2 one cannot \
be judged. Of several, the greatest. --jsonl: 0 once all lines are answered. --since: 0 \
nothing would be decided otherwise, 1 something would.

--since reads the store, also that of a running service, and fetches nothing. It counts the requests of --origin that \
robots.txt decided about, and groups those that --robots decides otherwise by rule, with times and some URLs. It leaves \
aside what an override or anything else but robots.txt decided. It cannot know of requests without a record: by \
default, [log] decisions records denials alone, so that a new denial shows only where it is \"all\".
  crawlgate check --robots new.txt --origin https://example.com --since 30d

--jsonl: every line of standard input is one JSON object, UTF-8, at most 8 MiB:
  url            the URL, absolute
  agents         a list, as --agent: product tokens, most specific first [default: --agent]
  robots         the text of the robots.txt to judge by, or
  robots_base64  the same in Base64, for octets that are not UTF-8;
                 without either, the gate's copy, or what the origin sends (--fresh: always)
  notes          true: answer with notes on the robots.txt, too
  purposes       a list, as --purpose [default: --purpose]
  response       a response head to judge, as text
  tdmrep         the text of the origin's tdmrep.json, or null for none; without it, a line
                 without a robots.txt asks the origin for it where the proxy would
Other names are ignored. Every line is answered with one object on one line, in the same order:
  verdict        allow or deny: the protocol's answer, without the path guard
  reason         robots_allow, robots_disallow, no_rules, robots_txt, robots_unavailable
                 or robots_unreachable; with purposes also usage_disallow, usage_withheld
                 or license_required
  rule           the line that decides, or null
  line           its number, from 1, or null
  group          the group that applies, by its name for the agent, or null
  guard          only if the path guard would deny an allowed URL: reading (the path
                 as the origin may read it), rule, line, group; all null if it has more
                 readings than are judged
  notes          only if requested: a list of line, kind, message, text
  usage          only if purposes, a response or a tdmrep.json are asked about: what the
                 site says of use and what follows, as a record has it; null if nothing
or, if the URL cannot be judged, with
  error          why
  line           the number of the line of standard input, from 1
Answers are written out whenever no more input is waiting, so a program can ask and wait.";

/// Decides and explains; exits 0 for allow, 1 for deny, 2 if a URL cannot be judged; of several, the greatest. About
/// recorded requests: 0 if none would be decided otherwise, 1 if one would.
#[must_use]
pub fn run(args: &CheckArgs, config: &Config, chosen: &LogSelection) -> ExitCode {
    // Quiet: the exit code says all.
    let level = if args.quiet { "off" } else { "warn" };
    let started = tell_on_stderr(level).map_err(Into::into);
    let done = started.and_then(|_| {
        let now = Clock::system().now();
        if let Some(asked) = args.recorded.asked(args.robots.as_deref(), now)? {
            what_if(args, &asked, config, chosen)
        } else if args.collected != CollectedArgs::default() {
            Err("--log names a log of recorded requests: ask about them with --since".into())
        } else if args.jsonl && args.robots.is_some() {
            Err("--jsonl takes the robots.txt from each line; --robots needs --since with it, or a URL without it".into())
        } else if args.jsonl {
            bulk::run(&args.agent, asked(args, config)?, args.known(), config)
        } else if args.url.is_empty() && args.urls.is_none() {
            look_over(args, config)
        } else {
            check(args, config)
        }
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(_) if args.quiet => ExitCode::from(FAILED),
        Err(error) => fail(&error),
    }
}

/// Warns of User-Agents without the URL of a page about the crawler, which sites look for in their logs.
fn warn_of_anonymous(agents: &[String]) {
    let is_token = |name: &&String| ProductToken::new(name).is_ok();
    for name in agents.iter().filter(|name| !is_token(name) && !agent::has_url(name)) {
        warn!("the User-Agent {name:?} {}", agent::WITHOUT_URL);
    }
}

/// Judges recorded requests by another robots.txt.
fn what_if(
    args: &CheckArgs,
    asked: &recorded::WhatIfQuery,
    config: &Config,
    chosen: &LogSelection,
) -> Result<u8, Failure> {
    let format = match (args.quiet, args.json, args.jsonl) {
        (true, ..) => recorded::Format::None,
        (_, true, _) => recorded::Format::Json,
        (_, _, true) => recorded::Format::Jsonl,
        (false, false, false) => recorded::Format::Text,
    };
    recorded::run(asked, format, config, chosen)
}

/// Lints a robots.txt.
fn look_over(args: &CheckArgs, config: &Config) -> Result<u8, Failure> {
    let file = args.robots.as_deref().ok_or("say which URL, or which file with --robots")?;
    let snapshot = source::read(file, config)?;
    let mut output = Output::of(args);
    let sent = match output.format {
        Format::None => Ok(()),
        Format::Json => output.send(&document::of_file(&snapshot, file)),
        Format::Text(paint) => output.send(&lint::text(&snapshot, file, paint)),
    };
    let code = if args.strict && has_notes(&snapshot) { NOTED } else { 0 };
    settle(sent.and_then(|()| output.out.flush()), code)
}

/// Judges URLs.
fn check(args: &CheckArgs, config: &Config) -> Result<u8, Failure> {
    let is_stdin = |file: &Option<PathBuf>| file.as_deref() == Some(Path::new("-"));
    if is_stdin(&args.robots) && is_stdin(&args.urls) {
        bail!("--robots and --urls cannot both be `-`: standard input is read once");
    }
    let mut output = Output::of(args);
    warn_of_anonymous(&args.agent);
    let asked = asked(args, config)?;
    let judge = Judge::new(&args.agent, (args.robots.as_deref(), args.known()), asked, config)?;
    let urls = args.url.iter().cloned().map(Ok);
    let urls: Box<dyn Iterator<Item = io::Result<String>>> = match &args.urls {
        Some(file) => Box::new(urls.chain(listed(file)?)),
        None => Box::new(urls),
    };
    let mut worst = 0;
    let outcome = judge.all(urls, |judged| {
        worst = worst.max(code(&judged));
        if args.strict && judged.as_ref().is_ok_and(|judged| output.has_notes(judged)) {
            worst = worst.max(NOTED);
        }
        output.tell(judged)
    });
    // Written judgements stay, even after an error.
    let flushed = output.out.flush();
    match outcome {
        Ok(()) => settle(flushed, worst),
        Err(Stopped::Output(error)) => settle(Err(error), worst),
        Err(Stopped::Input(error)) => Err(format!("--urls: {error}").into()),
    }
}

/// Returns what the command line asks about use.
fn asked(args: &CheckArgs, config: &Config) -> Result<UsageQuery, Failure> {
    let mut asked = UsageQuery::configured(config);
    if !args.purpose.is_empty() {
        asked.purposes =
            usage::purposes(&args.purpose).map_err(|error| format!("--purpose: {error}"))?;
    }
    if let Some(file) = &args.response {
        let head = source::octets(file, MAX_HEAD)?;
        asked.response = Some(Arc::new(Head::parse(&head)));
    }
    if let Some(file) = &args.tdmrep {
        let text = source::octets(file, tdmrep::LONGEST as u64 + 1)?;
        asked.tdmrep = Some(Arc::new(usage::File::parse(&text)));
    }
    Ok(asked)
}

/// Reads the URLs in a file, one on each line; comment lines and empty ones are skipped. Octets that are not UTF-8 are
/// replaced, and the result names no URL in use.
fn listed(file: &Path) -> Result<impl Iterator<Item = io::Result<String>> + use<>, Failure> {
    let input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(BufReader::new(io::stdin()))
    } else {
        let file =
            std::fs::File::open(file).map_err(|error| format!("{}: {error}", file.display()))?;
        Box::new(BufReader::new(file))
    };
    let lines = input.split(b'\n').map(|line| {
        let line = line?;
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    });
    Ok(lines.filter(|line| {
        line.as_ref().map_or(true, |line| !line.is_empty() && !line.starts_with('#'))
    }))
}

fn has_notes(file: &File) -> bool {
    !crawlgate_usage::notes(&file.robots).is_empty()
}

/// Returns the exit code of one URL.
fn code(judged: &Result<Judgement, Unjudged>) -> u8 {
    match judged.as_ref().map(|judged| judged.decision.verdict()) {
        Ok(Verdict::Allow) => 0,
        Ok(Verdict::Deny) => DENIED,
        Ok(Verdict::Defer) | Err(_) => FAILED,
    }
}

/// Returns the exit code once all is written. A closed reader is no error.
fn settle(sent: io::Result<()>, code: u8) -> Result<u8, Failure> {
    match sent {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(format!("standard output: {error}").into())
        }
        _ => Ok(code),
    }
}

/// The form of the output.
#[derive(Clone, Copy)]
enum Format {
    None,
    Text(Paint),
    Json,
}

struct Output {
    format: Format,
    out: BufWriter<io::StdoutLock<'static>>,
    /// True after the first output.
    is_begun: bool,
    /// The moment before the first fetch.
    began: Moment,
    /// The files with printed notes.
    noted: HashSet<[u8; 32]>,
    /// The files so far, and whether there are notes on each.
    with_notes: HashMap<[u8; 32], bool>,
}

impl Output {
    fn of(args: &CheckArgs) -> Output {
        let format = match (args.quiet, args.json) {
            (true, _) => Format::None,
            (false, true) => Format::Json,
            (false, false) => Format::Text(Paint::on(io::stdout().is_terminal())),
        };
        Output {
            format,
            out: BufWriter::new(io::stdout().lock()),
            is_begun: false,
            began: Clock::system().now(),
            noted: HashSet::new(),
            with_notes: HashMap::new(),
        }
    }

    /// Tells whether there are notes on the file that a URL was judged by.
    fn has_notes(&mut self, judged: &Judgement) -> bool {
        let Some(file) = &judged.snapshot else {
            return false;
        };
        *self.with_notes.entry(file.sha256).or_insert_with(|| has_notes(file))
    }

    /// Prints one judgement; a URL that cannot be judged goes to standard error, for people.
    fn tell(&mut self, judged: Result<Judgement, Unjudged>) -> io::Result<()> {
        match (self.format, judged) {
            (Format::None, _) => Ok(()),
            (Format::Json, Ok(judged)) => self.send(&document::of(&judged)),
            (Format::Json, Err(unjudged)) => self.send(&document::of_unjudged(&unjudged)),
            (Format::Text(paint), Ok(judged)) => {
                // Notes are about the file: print them once.
                let is_new = |snapshot: &File| self.noted.insert(snapshot.sha256);
                let with_notes = judged.snapshot.as_ref().is_some_and(is_new);
                let gap = if self.is_begun { "\n" } else { "" };
                let text = text::of(&judged, self.began, with_notes, paint);
                self.send(format!("{gap}{text}").as_bytes())
            }
            (Format::Text(_), Err(unjudged)) => {
                // Keep the order of the two streams.
                self.out.flush()?;
                fail(&format_args!("{}: {}", Escaped(unjudged.url.as_bytes()), unjudged.why));
                Ok(())
            }
        }
    }

    fn send(&mut self, octets: &[u8]) -> io::Result<()> {
        self.is_begun = true;
        self.out.write_all(octets)
    }
}
