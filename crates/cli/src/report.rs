//! `crawlgate report`: the report on a span of the log, as HTML and JSON.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::collected::{CollectedArgs, LogSelection};
use super::terminal::{self, Unit};
use super::{Failure, audit, fail, words};
use crawlgate_admin::query::Conditions;
use crawlgate_config::Config;
use crawlgate_evidence::csv::to_csv;
use crawlgate_evidence::report::{Gathering, LogFacts, Report, ReportQuery, Verification};
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_store::figures::{Figures, Sum};
use crawlgate_store::logs::Logs;
use crawlgate_system::atomic_file::NewFile;
use crawlgate_system::clock::{Clock, Moment};
use crawlgate_text::time_text;

/// Exit code for faults that the verification has found.
const WRONG: u8 = 1;

const HELP: &str = "\
Times are UTC: 2026-11-20, 2026-11-20T12:00, or how long ago: 2h, 7d. A day at the end counts whole.

The log is verified for the report, with every decision of the span. Where that takes too long, \
--no-verify leaves it out, and the report says so.

Of several logs (--log), one report sums each number, and tells the verification of each. One that cannot be read is \
named in the report, and left out.

Exit codes: 0 done; 1 the report is written, and it tells of faults that the verification has found, or of a log that \
cannot be read; 2 crawlgate itself failed.

Examples:
  crawlgate report --since 90d -o report.html --json report.json
  crawlgate report --since 2026-10-01 --until 2026-10-31 --client fleet -o october.html
  crawlgate report --since 30d --origin https://example.com --by 'Ada Lovelace' -o example.com.html
  crawlgate report --log '*' --since 90d -o fleet.html";

/// Arguments of `crawlgate report`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct ReportArgs {
    #[command(flatten)]
    pub(super) collected: CollectedArgs,
    /// The beginning of the span
    #[arg(long, value_name = "TIME")]
    since: String,
    /// The end of the span, exclusive; a day counts whole
    #[arg(long, value_name = "TIME", default_value = "now")]
    until: String,
    /// Only this client: its address or name
    #[arg(long, value_name = "CLIENT")]
    client: Option<String>,
    /// Only this origin, with its scheme; or a host, with any scheme and port
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// The file to write: HTML, or JSON if its name ends in .json; - is the standard output
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["json", "origins_csv"])]
    output: Option<PathBuf>,
    /// The JSON file to write; - is the standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The file to write with the figures of all origins; - is the standard output
    #[arg(long, value_name = "FILE")]
    origins_csv: Option<PathBuf>,
    /// Replace files that exist
    #[arg(long)]
    force: bool,
    /// The person who makes the report, for its head
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// The trusted key of the log: a file, or what `crawlgate audit key` prints; repeat it if the key has changed
    /// [default: the key beside the store]
    #[arg(long, value_name = "FILE|KEY")]
    key: Vec<String>,
    /// Leave the verification out
    #[arg(long)]
    no_verify: bool,
}

/// Runs `crawlgate report`; exits 0, 1 for faults in the log, or 2.
#[must_use]
pub fn run(args: &ReportArgs, config: &Config, chosen: &LogSelection) -> ExitCode {
    match written(args, config, chosen) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WRONG),
        Err(error) => fail(&error),
    }
}

/// Writes the files. False if the verification has found faults.
fn written(args: &ReportArgs, config: &Config, chosen: &LogSelection) -> Result<bool, Failure> {
    let now = Clock::system().now();
    let question = question(args, now)?;
    let outputs = Outputs::of(args)?;
    let logs = chosen.logs(config)?;
    let keys = if chosen.is_several() {
        Some(audit::several::keys_of_each(&args.key, &logs)?)
    } else {
        None
    };
    let runtime = super::small_runtime()?;
    runtime.block_on(async {
        let gathering = gather(&logs, &question).await?;
        let faults = gathering.faults();
        for fault in &faults {
            terminal::eprint(&fault.to_string());
        }
        require_requests(&gathering, &question, config)?;
        let mut trusted = Vec::new();
        for log in &logs {
            let is_unread = faults.iter().any(|fault| fault.log == *log.name());
            let of_log = keys.as_ref().map(|keys| {
                let its = keys.iter().filter(|key| key.name() == log.name());
                its.map(ToString::to_string).collect::<Vec<_>>()
            });
            let named = of_log.as_ref().unwrap_or(&args.key);
            let found = if is_unread {
                Trusted::of(named, &log.config(config))
            } else {
                let store = logs.open(log).await?;
                Trusted::of_store(named, &log.config(config), &store).await
            };
            trusted.push(match found {
                Ok(found) => found,
                Err(error) if chosen.is_several() => Trusted::unread(&error),
                Err(error) => return Err(error.into()),
            });
        }
        let report = Report::of(&gathering, &logs, config, &trusted, now);
        let mut report = report.await?;
        if !args.no_verify {
            let span = (question.since, question.until);
            verify(&mut report, &logs, &trusted, (config, chosen), span).await?;
        }
        outputs.write(&report, &gathering)?;
        let faults = count_faults(&report);
        if let Some(said) = told_faults(faults) {
            terminal::eprint(&said);
        }
        Ok(faults == 0)
    })
}

/// Counts the logs that could not be read, and the faults that the report names.
fn count_faults(report: &Report) -> usize {
    let of_log = |log: &LogFacts| match (&log.unread, &log.verification) {
        (Some(_), _) => 1,
        (None, Some(one)) if !one.ok => one.faults.len().max(1),
        (None, _) => 0,
    };
    report.logs.iter().map(of_log).sum()
}

/// Returns the words for the standard error on faults that the report tells of.
fn told_faults(count: usize) -> Option<String> {
    let (faults, them) = match count {
        0 => return None,
        1 => ("a fault".to_owned(), "it"),
        many => (format!("{many} faults"), "them"),
    };
    Some(format!(
        "the report tells of {faults}; its section 9, and `logs` in the JSON, name {them}"
    ))
}

/// Verifies each log of a report that could be read. Of several logs, one that cannot be verified leaves the others.
async fn verify(
    report: &mut Report,
    logs: &Logs,
    trusted: &[Trusted],
    (config, chosen): (&Config, &LogSelection),
    span: (Moment, Moment),
) -> Result<(), Failure> {
    for ((facts, log), trusted) in report.logs.iter_mut().zip(logs).zip(trusted) {
        if facts.unread.is_none() {
            let store = logs.open(log).await?;
            let config = log.config(config);
            let verification = audit::verification(&store, trusted, &config, span).await;
            facts.verification = Some(match verification {
                Err(error) if chosen.is_several() => Verification::failed(error.to_string()),
                verification => verification?,
            });
        }
    }
    Ok(())
}

/// Ends of names of files that people expect another format in, with the way to it.
const OTHER_FORMATS: [(&[&str], &str); 3] = [
    (
        &["pdf", "doc", "docx", "odt"],
        "write -o REPORT.html, open it in a browser and print it into such a file",
    ),
    (&["csv", "xls", "xlsx", "ods"], "--origins-csv FILE writes the figures of all origins as CSV"),
    (&["txt", "md", "xml"], "write -o REPORT.html or -o REPORT.json"),
];

/// The content of a file to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Html,
    Json,
    OriginsCsv,
}

impl Content {
    /// Returns the format that the name of a report asks for.
    fn of_report(path: &Path) -> Result<Self, Failure> {
        let end = path.extension().unwrap_or_default().to_string_lossy();
        let end = end.to_ascii_lowercase();
        let has_end = |(ends, _): &&(&[&str], &str)| ends.contains(&end.as_str());
        match OTHER_FORMATS.iter().find(has_end) {
            Some((_, way)) => {
                Err(format!("{}: a report is HTML or JSON; {way}", path.display()).into())
            }
            None if end == "json" => Ok(Self::Json),
            None => Ok(Self::Html),
        }
    }
}

/// The files to write, each begun beside its place.
struct Outputs(Vec<(Content, Output)>);

impl Outputs {
    fn of(args: &ReportArgs) -> Result<Self, Failure> {
        let report = args.output.as_deref().map(Content::of_report).transpose()?;
        let paths = [
            report.zip(args.output.as_deref()),
            Some(Content::Json).zip(args.json.as_deref()),
            Some(Content::OriginsCsv).zip(args.origins_csv.as_deref()),
        ];
        let mut files = HashSet::new();
        let mut outputs = Vec::new();
        for (content, path) in paths.into_iter().flatten() {
            if path != Path::new("-") && !files.insert(path) {
                let path = path.display();
                bail!("{path}: named twice; give each file a name of its own");
            }
            outputs.push((content, Output::of(path, args.force)?));
        }
        let is_stdout = |(_, output): &&(Content, Output)| matches!(output, Output::Stdout);
        if outputs.iter().filter(is_stdout).count() > 1 {
            bail!("only one of the files can be the standard output");
        }
        Ok(Self(outputs))
    }

    fn write(mut self, report: &Report, gathering: &Gathering) -> Result<(), Failure> {
        for (content, output) in &mut self.0 {
            let text = match content {
                Content::Html => {
                    let text = report.html()?;
                    text.into_bytes()
                }
                Content::Json => report.json()?,
                Content::OriginsCsv => all_origins(gathering.figures())?,
            };
            output.write(&text)?;
        }
        // All of them are whole before the first is in its place.
        self.0.into_iter().try_for_each(|(_, output)| output.keep())
    }
}

/// Reads the span and the conditions.
fn question(args: &ReportArgs, now: Moment) -> Result<ReportQuery, Failure> {
    let conditions = Conditions {
        since: Some(args.since.clone()),
        until: Some(args.until.clone()),
        client: args.client.clone(),
        origin: args.origin.clone(),
        ..Conditions::default()
    };
    let query = conditions.query(now).map_err(|wrong| format!("--{wrong}"))?;
    let (since, until) = (query.since.unwrap_or_default(), query.until.unwrap_or_default());
    if since >= until {
        bail!(
            "--since {} is {}, and --until {} is {}: the span is empty; begin it before its end",
            args.since,
            time_text(since),
            args.until,
            time_text(until)
        );
    }
    Ok(ReportQuery {
        since,
        until,
        client: query.client,
        origin: query.origin,
        by: args.by.as_deref().map(|by| words("--by", by)).transpose()?,
    })
}

/// Counts the span, with a progress bar on a terminal.
async fn gather(logs: &Logs, question: &ReportQuery) -> Result<Gathering, Failure> {
    let mut gathering = Gathering::begin(logs, question.clone()).await?;
    let bar = terminal::bar(Unit::Records, gathering.entries());
    while let Some(count) = gathering.step(logs).await? {
        bar.inc(count);
    }
    bar.finish_and_clear();
    Ok(gathering)
}

/// Refuses a report about nothing.
fn require_requests(
    gathering: &Gathering,
    question: &ReportQuery,
    config: &Config,
) -> Result<(), Failure> {
    if gathering.figures().total().requests() > 0 {
        return Ok(());
    }
    let span = format!("{} to {}", time_text(question.since), time_text(question.until));
    if let Some(client) = &question.client {
        let is_known = config.clients.iter().any(|known| *known.name == **client);
        let why = if is_known {
            format!("the client {client} has no record from {span}")
        } else {
            format!(
                "{client}: no record from {span} is of this client, and the configuration has none of this name; write \
                 its name or its address"
            )
        };
        return Err(why.into());
    }
    if let Some(origin) = &question.origin {
        bail!("{origin}: no record from {span} is about it");
    }
    let kept = match gathering.kept_since() {
        Some(first) => format!("the log keeps records from {} on", time_text(first)),
        None => "the log is empty".to_owned(),
    };
    Err(format!("nothing was recorded from {span}; {kept}").into())
}

/// Returns the figures of all origins as CSV.
fn all_origins(figures: &Figures) -> Result<Vec<u8>, Failure> {
    const HEADING: [&str; 12] = [
        "origin",
        "requests",
        "forwarded",
        "failed",
        "denied",
        "disallowed",
        "unreachable",
        "refused_here",
        "deferred",
        "reported",
        "first",
        "last",
    ];
    // Empty where it is unknown.
    let known = |count: u64| {
        if figures.knows_each_forwarded() { count.to_string() } else { String::new() }
    };
    let row = |(origin, sum): (&String, &Sum)| {
        let counts = [
            sum.failed,
            sum.denied(),
            sum.disallowed,
            sum.unreachable,
            sum.refused_here,
            sum.deferred,
            sum.reported,
        ];
        let times = [sum.first, sum.last].map(|time| time_text(Moment::from_millis(time)));
        let mut row = vec![origin.clone(), known(sum.requests()), known(sum.forwarded)];
        row.extend(counts.map(|count| count.to_string()));
        row.extend(times);
        row
    };
    let rows = figures.origins.all().into_iter().map(row);
    let heading = HEADING.map(str::to_owned).to_vec();
    to_csv([heading].into_iter().chain(rows)).map_err(Into::into)
}

/// A file to write.
enum Output {
    Stdout,
    File { file: NewFile, force: bool },
}

impl Output {
    /// Refuses a place that cannot be written before the work begins.
    fn of(path: &Path, force: bool) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self::Stdout);
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(exists(path).into());
        }
        let file = NewFile::beside(path);
        Ok(Self::File {
            file: file.map_err(|error| format!("{}: {error}", path.display()))?,
            force,
        })
    }

    /// Writes the content.
    fn write(&mut self, text: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Stdout => terminal::print(text).map(drop),
            Self::File { file, .. } => {
                let written = file.write(text);
                Ok(written.map_err(|error| format!("{}: {error}", file.place().display()))?)
            }
        }
    }

    /// Puts the file in its place.
    fn keep(self) -> Result<(), Failure> {
        let Self::File { file, force } = self else {
            return Ok(());
        };
        let path = file.place().to_owned();
        let kept = if force { file.replace() } else { file.persist() };
        kept.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => exists(&path),
            _ => format!("{}: {error}", path.display()),
        })?;
        Ok(())
    }
}

fn exists(path: &Path) -> String {
    format!("{} exists already; name another file, or replace it with --force", path.display())
}
