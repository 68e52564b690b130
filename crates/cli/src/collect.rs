//! `crawlgate collect`: files the exported logs of other machines, each in its own copy.

mod list;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::terminal::{self, Unit, printable};
use super::{Failure, collected, fail};
use crawlgate_config::Config;
use crawlgate_evidence::export::{Exported, ImportError, Imported, PastGaps, file_of, import};
use crawlgate_evidence::verify::named_keys::named_keys;
use crawlgate_store::collection::Collection;
use crawlgate_store::public_keys::collected_keys;
use crawlgate_store::sqlite::collected::Collected;
use crawlgate_tlog::{KeyKind, KeyName, VerifierKey};

/// Exit code for an export with a fault.
const WRONG: u8 = 1;

/// Number of missing files to name.
const MAX_NAMED: usize = 10;

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

Files that records name and that an export does not have are named, on each run until they are there.

Exit codes: 0 done; 1 an export has a fault, states records as missing or lacks a file that records name, the others are filed; 2 crawlgate itself failed.

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
    let done = collected::collection(args.to.as_ref(), config).and_then(|collection| {
        if args.list { list::list(&collection, config) } else { collect(args, &collection, config) }
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WRONG),
        Err(error) => fail(&printable(&error.to_string())),
    }
}

/// Files each export. False if one has a fault.
fn collect(args: &CollectArgs, collection: &Collection, config: &Config) -> Result<bool, Failure> {
    let given = named_keys("--key", &args.key, KeyKind::Ed25519, None)?;
    let run = Run {
        collection,
        given,
        witnesses: config.audit.witness_keys(),
        trusts_new: args.trust_new,
        past_gaps: if args.past_gaps { PastGaps::Go } else { PastGaps::Stop },
    };
    let _lock = collection.lock()?;
    let mut are_right = true;
    for from in &args.from {
        match run.one(from) {
            Ok(filed) => {
                let said = summary(&filed);
                terminal::print(format!("{}\n", printable(&said)).as_bytes())?;
                if let Some(said) = missing(&filed) {
                    terminal::eprint(&format!("{}: {}: {said}", from.display(), filed.log));
                }
                are_right &= filed.imported.lost == 0 && filed.imported.missing.is_empty();
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
    /// Files one export.
    fn one(&self, from: &Path) -> Result<Filed, Failure> {
        let export = Exported::open(from)?;
        let place = self.collection.place(&export.log)?;
        let log = self.trusted(&export, &place)?;
        let is_new = !place.exists();
        let mut copy = Collected::open(&place)?;
        let bar = terminal::bar(Unit::Records, 0);
        let progress = |read, of| {
            bar.set_length(of);
            bar.set_position(read);
        };
        let (witnesses, past_gaps) = (&self.witnesses, self.past_gaps);
        let imported = import(&export, &mut copy, &log, witnesses, past_gaps, progress);
        bar.finish_and_clear();
        let kept = copy.kept()?;
        if is_new && copy.end().0 == 0 {
            drop(copy);
            remove(&place);
        }
        match imported {
            Ok(imported) => Ok(Filed { log: export.log, imported }),
            Err(fault @ ImportError::Signature { .. }) => {
                let trusted: Vec<String> = log.iter().map(ToString::to_string).collect();
                Err(Failure::from(format!(
                    "{}: {fault}; trusted for this log is {}",
                    export.log,
                    trusted.join(" or ")
                )))
            }
            Err(fault) => Err(Failure::from(format!(
                "{}: {fault}; the collection has {kept} records of the log",
                export.log
            ))),
        }
    }

    /// Returns the keys that are trusted for the log of an export.
    fn trusted(&self, export: &Exported, place: &Path) -> Result<Vec<VerifierKey>, Failure> {
        let name = &export.log;
        let is_its = |key: &&VerifierKey| key.kind() == KeyKind::Ed25519 && key.name() == name;
        let given: Vec<VerifierKey> = self.given.iter().filter(is_its).cloned().collect();
        let held = collected_keys(place)?;
        if given.is_empty() && held.is_empty() {
            let named = export.vkey.as_ref().filter(is_its);
            return match (named, self.trusts_new) {
                (Some(key), true) => Ok(vec![key.clone()]),
                (Some(key), false) => Err(Failure::from(format!(
                    "the log {name} is new here, and only the export says that its key is {key}; if `crawlgate audit key` on \
                     its machine prints the same, name it with --key; or take it unseen with --trust-new"
                ))),
                (None, _) => Err(Failure::from(format!(
                    "the log {name} is new here, and the export names no key of it; name one with --key"
                ))),
            };
        }
        let is_known = !held.is_empty() && given.iter().all(|key| held.contains(key));
        let is_kept = held.iter().all(|key| given.contains(key));
        match (is_known, is_kept) {
            (true, _) => Ok(held),
            (false, true) => Ok(given),
            (false, false) => Err(Failure::from(format!(
                "the collection trusts {} for the log {name}, and --key names another key; a log keeps its key; if that was \
                 lost and replaced, name both with --key, or collect the log into another directory",
                told_keys(&held)
            ))),
        }
    }
}

fn told_keys(keys: &[VerifierKey]) -> String {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    keys.join(" and ")
}

/// An export that was filed.
struct Filed {
    log: KeyName,
    imported: Imported,
}

/// Returns the words on what was filed.
fn summary(Filed { log, imported }: &Filed) -> String {
    let Imported { records, size, kept, exported, filled, lost, given_up, .. } = *imported;
    let mut said = match (records + lost, exported < size) {
        (0, true) => {
            format!("{log}: nothing new: the export is older, with {exported} of {size} records")
        }
        (0, false) => format!("{log}: nothing new; {kept} records"),
        _ => format!("{log}: {records} records filed; {kept} now"),
    };
    match filled {
        0 => {}
        1 => said += "; a body that was missing is there now",
        _ => said += &format!("; {filled} bodies that were missing are there now"),
    }
    if lost > 0 {
        said += &format!(
            "; {lost} RECORDS ARE MISSING: the export states a gap in their place; `crawlgate audit verify --all` names them"
        );
    }
    if given_up > 0 {
        said += &format!("; {given_up} collected before are given up: only the export has them");
    }
    said
}

/// Returns the words on bodies that records of the copy name and that neither the copy nor the export has.
fn missing(Filed { imported, .. }: &Filed) -> Option<String> {
    let missing = &imported.missing;
    let files = match missing.len() {
        0 => return None,
        1 => "a file that records name is".to_owned(),
        many => format!("{many} files that records name are"),
    };
    let named = missing.iter().take(MAX_NAMED);
    let mut names: Vec<String> = named.map(file_of).collect();
    if let Some(more @ 1..) = missing.len().checked_sub(MAX_NAMED) {
        names.push(format!("and {more} more"));
    }
    Some(format!(
        "{files} not in the export: {}; bring what its machine has of them, and collect again",
        names.join(", ")
    ))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_store::sqlite::collected::MissingBody;

    #[test]
    fn missing_files_are_named_up_to_ten() {
        let filed = |count: u8| Filed {
            log: "log".parse().unwrap(),
            imported: Imported {
                missing: (0..count).map(|n| MissingBody { sha256: [n; 32], kind: None }).collect(),
                ..Imported::default()
            },
        };
        assert_eq!(missing(&filed(0)), None);
        for (count, named, begin, more) in [
            (1, 1, "a file that records name is", None),
            (10, 10, "10 files that records name are", None),
            (13, 10, "13 files that records name are", Some("and 3 more")),
        ] {
            let said = missing(&filed(count)).unwrap();
            assert!(said.starts_with(begin), "{said}");
            assert_eq!(said.matches("robots/").count(), named, "{said}");
            let has_more = said.contains(more.unwrap_or("more"));
            assert_eq!(has_more, more.is_some(), "{said}");
        }
    }

    #[test]
    fn bodies_that_came_later_are_counted() {
        for (filled, words) in [
            (0, "log: nothing new; 0 records"),
            (1, "log: nothing new; 0 records; a body that was missing is there now"),
            (2, "log: nothing new; 0 records; 2 bodies that were missing are there now"),
        ] {
            let imported = Imported { filled, ..Imported::default() };
            let log = "log".parse().unwrap();
            assert_eq!(summary(&Filed { log, imported }), words);
        }
    }
}
