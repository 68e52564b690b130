//! Proves the records of an evidence file. The store gives no more than the keys that the one beside it has replaced.

use std::fs::File;
use std::io::{BufReader, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;

use super::excerpt::Extent;
use super::{CheckResult, evidence};
use crate::Failure;
use crate::terminal::{self, Paint, Tone, printable};
use crawlgate_config::Config;
use crawlgate_evidence::bundle::{Broken, Checker, Proven};
use crawlgate_evidence::replay::Outcome;
use crawlgate_evidence::verify::case::Trusted;
use crawlgate_evidence::verify::keys::Keys;
use crawlgate_evidence::verify::named_keys::named_keys;
use crawlgate_record::Told;
use crawlgate_store::rotation::Rotation;
use crawlgate_store::{self as store, Access};
use crawlgate_system::clock::Moment;
use crawlgate_text::time_text;
use crawlgate_tlog::{KeyKind, VerifierKey};

pub(super) const HELP: &str = "\
Exit codes: 0 every record is proven; 1 a record is not; 2 crawlgate itself failed.

Attested only: the evidence of such a decision cannot be kept, as when a robots.txt was late. Its \
record is still proven to be in the log.

docs/verify-evidence.py checks the same without crawlgate. It does not make the decision again.

Examples:
  crawlgate audit verify-evidence evidence.json --key crawlgate.vkey
  crawlgate audit verify-evidence site.jsonl --key crawlgate.vkey --witness witness.vkey";

#[derive(Args, Clone, Debug)]
pub(super) struct FileArgs {
    /// The file, or `-` for the standard input
    file: PathBuf,
    /// The key of the log, as name+id+base64 or a file with it, from another source than the evidence. If it is repeated, each
    /// key counts for every record, unless the file proves that another one has replaced it [default: the key beside the store]
    #[arg(long, value_name = "VKEY|FILE")]
    key: Vec<String>,
    /// The key of a witness that must have cosigned
    #[arg(long, value_name = "VKEY|FILE")]
    witness: Vec<String>,
    /// Show the whole robots.txt, not only the lines around the deciding one
    #[arg(long)]
    full: bool,
}

/// Proves the records of a file and tells the result.
pub(super) fn verify(args: &FileArgs, config: &Config) -> Result<CheckResult, Failure> {
    let (log, witnesses) = keys(args, config)?;
    let name = args.file.display();
    let input: Box<dyn std::io::Read> = match args.file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false if args.file.is_dir() => {
            bail!("{name}: this is a directory; name a file in it");
        }
        false => Box::new(File::open(&args.file).map_err(|error| format!("{name}: {error}"))?),
    };
    let paint = Paint::on(std::io::stdout().is_terminal());
    let mut checker = match Checker::by(BufReader::new(input), log, witnesses) {
        Ok(checker) => checker,
        Err(error) => {
            let text = format!("{}\n", paint.tone(Tone::Bad, printable(&error.to_string())));
            terminal::print(text.as_bytes())?;
            return Ok(CheckResult::Faults);
        }
    };
    if let Some(said) = unlimited(checker.log()) {
        terminal::eprint(&said);
    }
    let mut count = Count::default();
    loop {
        let (is_right, text) = match checker.prove_next() {
            Ok(None) => break,
            Ok(Some(proven)) => {
                let is_one = !checker.is_lines();
                let extent = Extent::of(args.full);
                describe(&proven, is_one, extent, paint)
            }
            Err(error) => {
                let place = count.right + count.wrong + 1;
                let said = format!("record {place} of the file is not proven: {error}");
                let said = format!("{}\n", paint.tone(Tone::Bad, printable(&said)));
                if let Broken::Form(_) = error {
                    // Nothing after it can be read.
                    terminal::print(said.as_bytes())?;
                    return Ok(CheckResult::Faults);
                }
                (false, said)
            }
        };
        terminal::print(text.as_bytes())?;
        if is_right {
            count.right += 1;
        } else {
            count.wrong += 1;
        }
    }
    if count.right + count.wrong != 1 {
        let Count { right, wrong } = count;
        terminal::print(format!("{right} records are proven, {wrong} are not\n").as_bytes())?;
    }
    Ok(match count {
        Count { right: 1.., wrong: 0 } => CheckResult::Clean,
        _ => CheckResult::Faults,
    })
}

#[derive(Default)]
struct Count {
    right: u64,
    wrong: u64,
}

/// Returns the named keys, or else the one beside the store with those that it has replaced, and the named witnesses.
fn keys(args: &FileArgs, config: &Config) -> Result<(Keys, Vec<VerifierKey>), Failure> {
    let mut trusted = Trusted::of(&args.key, config)?;
    if trusted.keys.all.is_empty() {
        bail!(
            "no --key is given, and no key was found in {}. Name the key of the log with --key; the one that the file names \
             proves nothing by itself",
            trusted.from
        );
    }
    if args.key.is_empty() {
        trusted.keys.follow(&rotations(config)?);
    }
    let witnesses = named_keys("--witness", &args.witness, KeyKind::CosignatureV1, None)?;
    Ok((trusted.keys, witnesses))
}

/// Returns the rotations of the key beside the store, for a file from before them. Without a store that can be read, the
/// only the present key counts.
fn rotations(config: &Config) -> Result<Vec<Rotation>, Failure> {
    let Ok(store) = store::open(config, Access::Read) else {
        return Ok(Vec::new());
    };
    let runtime = crate::small_runtime()?;
    Ok(runtime.block_on(store.rotations()).unwrap_or_default())
}

/// Returns a remark on several keys of one log of which none is proven to have replaced another.
fn unlimited(log: &Keys) -> Option<String> {
    let mut present: Vec<_> = log.present().collect();
    present.sort_by_key(|key| key.name().as_str());
    let same = present.chunk_by(|one, next| one.name() == next.name());
    let same = same.into_iter().find(|keys| keys.len() > 1)?;
    let keys: Vec<String> = same.iter().map(ToString::to_string).collect();
    Some(format!(
        "{} count for every record: nothing proves here that one has replaced another. If one was stolen, name only the others",
        keys.join(" and ")
    ))
}

/// Returns whether a record is right, and what is to be said about it.
fn describe(proven: &Proven, is_one: bool, extent: Extent, paint: Paint) -> (bool, String) {
    let (tone, said) = match &proven.outcome {
        Some(Outcome::Same) => (
            Tone::Good,
            "proven: it is in the log, and the same decision follows from the file".to_owned(),
        ),
        Some(Outcome::Attested(why)) => {
            (Tone::Remark, format!("proven to be in the log; the decision is attested only: {why}"))
        }
        Some(Outcome::Differs(_)) => (
            Tone::Bad,
            "proven to be in the log, but another decision follows from the file".to_owned(),
        ),
        Some(Outcome::Missing(_)) => {
            (Tone::Bad, "proven to be in the log, but its settings cannot be read here".to_owned())
        }
        None => (Tone::Good, "proven: it is in the log; it is no decision".to_owned()),
    };
    let read = proven.told();
    let name = match &read {
        Ok(one) => one.id_text(),
        Err(_) => format!("entry {}", proven.index),
    };
    let mut text = format!("{name} {}\n", paint.tone(tone, printable(&said)));
    if let Some(Outcome::Differs(differences)) = &proven.outcome {
        evidence::differences(&mut text, differences);
    }
    if is_one {
        at_length(proven, read.as_ref().ok(), extent, paint, &mut text);
    }
    (tone != Tone::Bad, text)
}

fn at_length(
    proven: &Proven,
    read: Option<&Told<'_>>,
    extent: Extent,
    paint: Paint,
    text: &mut String,
) {
    match read {
        Some(read) => evidence::essentials(text, read),
        None => evidence::line(text, "record", &proven.record),
    }
    let (origin, size) = (&proven.checkpoint.origin, proven.checkpoint.size);
    let place = format!("entry {} of {size} in {origin}", proven.index);
    evidence::line(text, "log", &place);
    for (witness, seconds) in &proven.seen {
        let time = Moment::from_millis(seconds.saturating_mul(1_000));
        let said = format!("{witness}, at {}", time_text(time));
        evidence::line(text, "seen by", &said);
    }
    if let (Some(file), Some(terms)) = (&proven.robots, &proven.terms) {
        evidence::file(text, (file, terms), read, extent, paint);
    }
}
