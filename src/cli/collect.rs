//! `crawlgate collect`: files the exported logs of other machines, each in a copy of its own.

mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::terminal::{self, Unit, printable};
use super::{collected, fail};
use crate::audit::export::{Exported, ImportError, Imported, PastGaps, import};
use crate::audit::verify::case::named_keys;
use crate::config::Config;
use crate::store::collection::Collection;
use crate::store::public_keys::collected_keys;
use crate::store::sqlite::collected::Collected;
use crate::tlog::{KeyKind, VerifierKey};

/// Exit code for an export with a fault.
const WRONG: u8 = 1;

const HELP: &str = "\
An export is a directory that `crawlgate audit export` has written and any tool has carried here. The signature of its newest \
checkpoint is verified, all records are hashed, and they must lead to the signed root and continue what was collected before; \
bodies must have the digests that name them. Records behind the newest checkpoint are left for later. A run that was \
interrupted is continued.

The key decides which log it is: compare the one that this command prints with `crawlgate audit key` on the other machine. The \
collection keeps the key with the log.

The directory has a store for each log, without a private key. Commands that read take it with --log NAME: log, sql, audit, \
report, store. Nothing expires there.

Where an export states records as missing, because their machine could not read them, the others are filed, and the root over \
all must still be the signed one.

Exit codes: 0 done; 1 an export has a fault or states records as missing, the others are filed; 2 crawlgate itself failed.

Examples:
  crawlgate collect --from /srv/logs/fra-1 --to /srv/collection --key fra-1.pub
  crawlgate collect --from /srv/logs/* --to /srv/collection
  crawlgate log --log fra-1 --collection /srv/collection --since 24h
  crawlgate collect --list --to /srv/collection";

/// Arguments of `crawlgate collect`.
#[derive(Args, Clone, Debug)]
#[command(after_help = HELP)]
pub struct CollectArgs {
    /// The directory of an export; may be repeated
    #[arg(long, value_name = "DIR", num_args = 1.., required_unless_present = "list")]
    from: Vec<PathBuf>,
    /// The directory of the collection; it is made if it is not there [default: `[audit] collection`]
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// The trusted key of a log: a file, or what `crawlgate audit key` prints there; may be repeated [default: the key that
    /// the collection keeps for the log]
    #[arg(long, value_name = "FILE|KEY")]
    key: Vec<String>,
    /// Trust the key that the export of a new log names itself
    #[arg(long)]
    trust_new: bool,
    /// Go on behind records that an export states to be missing, also where up to 255 collected records before them lie in the
    /// same bundle of 256: the collection gives those up, and the export keeps them
    #[arg(long)]
    past_gaps: bool,
    /// List the collected logs
    #[arg(long, conflicts_with_all = ["from", "key", "trust_new", "past_gaps"])]
    list: bool,
}

/// Runs `crawlgate collect`; exits 0, 1 for an export with a fault, or 2.
#[must_use]
pub fn run(args: &CollectArgs, config: &Config) -> ExitCode {
    let done =
        collected::collection(args.to.as_ref(), config).and_then(|collection| match args.list {
            true => list::list(&collection, config),
            false => collect(args, &collection, config),
        });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WRONG),
        Err(error) => fail(&printable(&error)),
    }
}

/// Files each export. False if one has a fault.
fn collect(args: &CollectArgs, collection: &Collection, config: &Config) -> Result<bool, String> {
    let given = named_keys("--key", &args.key, KeyKind::Ed25519, None);
    let given = given.map_err(|error| error.to_string())?;
    let run = Run {
        collection,
        given,
        witnesses: config.audit.witness_keys(),
        trusts_new: args.trust_new,
        past_gaps: match args.past_gaps {
            true => PastGaps::Go,
            false => PastGaps::Stop,
        },
    };
    let _lock = collection.lock().map_err(|error| error.to_string())?;
    let mut are_right = true;
    for from in &args.from {
        match run.one(from) {
            Ok((said, lost)) => {
                terminal::print(format!("{}\n", printable(&said)).as_bytes())?;
                are_right &= lost == 0;
            }
            Err(fault) => {
                are_right = false;
                terminal::eprint(&format!("{}: {fault}", from.display()));
            }
        }
    }
    Ok(are_right)
}

/// The parameters for all exports.
struct Run<'r> {
    collection: &'r Collection,
    /// The keys of the command line.
    given: Vec<VerifierKey>,
    witnesses: Vec<VerifierKey>,
    trusts_new: bool,
    past_gaps: PastGaps,
}

impl Run<'_> {
    /// Files one export. Returns what was done, and how many records are stated to be missing.
    fn one(&self, from: &Path) -> Result<(String, u64), String> {
        let export = Exported::open(from).map_err(|error| error.to_string())?;
        let place = self.collection.place(&export.log);
        let place = place.map_err(|error| error.to_string())?;
        let log = self.trusted(&export, &place)?;
        let is_new = !place.exists();
        let mut copy = Collected::open(&place).map_err(|error| error.to_string())?;
        let bar = terminal::bar(Unit::Records, 0);
        let progress = |read, of| {
            bar.set_length(of);
            bar.set_position(read);
        };
        let (witnesses, past_gaps) = (&self.witnesses, self.past_gaps);
        let imported = import(&export, &mut copy, &log, witnesses, past_gaps, progress);
        bar.finish_and_clear();
        let (kept, _) = copy.end();
        if is_new && kept == 0 {
            drop(copy);
            remove(&place);
        }
        match imported {
            Ok(imported) => Ok((summary(&export, &imported), imported.lost)),
            Err(fault @ ImportError::Signature { .. }) => {
                let trusted: Vec<String> = log.iter().map(ToString::to_string).collect();
                Err(format!(
                    "{}: {fault}; trusted for this log is {}",
                    export.log,
                    trusted.join(" or ")
                ))
            }
            Err(fault) => Err(format!(
                "{}: {fault}; the collection has {kept} records of the log",
                export.log
            )),
        }
    }

    /// Returns the keys that are trusted for the log of an export.
    fn trusted(&self, export: &Exported, place: &Path) -> Result<Vec<VerifierKey>, String> {
        let name = &export.log;
        let is_its = |key: &&VerifierKey| key.kind() == KeyKind::Ed25519 && key.name() == name;
        let given: Vec<VerifierKey> = self.given.iter().filter(is_its).cloned().collect();
        let held = collected_keys(place).map_err(|error| error.to_string())?;
        if given.is_empty() && held.is_empty() {
            let named = export.vkey.as_ref().filter(is_its);
            return match (named, self.trusts_new) {
                (Some(key), true) => Ok(vec![key.clone()]),
                (Some(key), false) => Err(format!(
                    "the log {name} is new here, and the export alone says that its key is {key}; if `crawlgate audit key` on \
                     its machine prints the same, name it with --key; or take it unseen with --trust-new"
                )),
                (None, _) => Err(format!(
                    "the log {name} is new here, and the export names no key of it; name one with --key"
                )),
            };
        }
        let is_known = !held.is_empty() && given.iter().all(|key| held.contains(key));
        let is_kept = held.iter().all(|key| given.contains(key));
        match (is_known, is_kept) {
            (true, _) => Ok(held),
            (false, true) => Ok(given),
            (false, false) => Err(format!(
                "the collection trusts {} for the log {name}, and --key names another key; a log keeps its key; if that was \
                 lost and replaced, name both with --key, or collect the log into another directory",
                told_keys(&held)
            )),
        }
    }
}

fn told_keys(keys: &[VerifierKey]) -> String {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    keys.join(" and ")
}

fn summary(export: &Exported, imported: &Imported) -> String {
    let Imported {
        records,
        size,
        exported,
        filled,
        missing,
        lost,
        given_up,
    } = *imported;
    let mut said = match (records + lost, exported < size) {
        (0, true) => format!(
            "{}: nothing new: the export is older, with {exported} of {size} records",
            export.log
        ),
        (0, false) => format!("{}: nothing new; {size} records", export.log),
        _ => format!("{}: {records} records filed; {size} now", export.log),
    };
    if filled > 0 {
        said += &format!("; {filled} bodies that were missing are there now");
    }
    if missing > 0 {
        said += &format!(
            "; {missing} bodies that they name are not in the export: the next run looks for them again"
        );
    }
    if lost > 0 {
        said += &format!(
            "; {lost} RECORDS ARE MISSING: the export states a gap in their place; `crawlgate audit verify --all` names them"
        );
    }
    if given_up > 0 {
        said += &format!("; {given_up} collected before are given up: the export alone has them");
    }
    said
}

/// Removes a copy in which nothing was filed.
fn remove(place: &Path) {
    for suffix in ["", "-wal", "-shm"] {
        let mut file = place.as_os_str().to_owned();
        file.push(suffix);
        // Of a file that stays, the next run says why.
        let _ = fs::remove_file(file);
    }
}
