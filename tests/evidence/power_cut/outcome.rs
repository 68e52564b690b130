//! The outcome of one trial: each image is opened as by the next start, and asked for the denials that were told.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crawlgate_config::Config;
use crawlgate_store::{self as store, Access, StoreError};
use rustix::process::Signal;

use super::disk::{Dice, Image};
use super::trial::{AnsweredDenial, Trial};
use crate::support::{CrawlgateProcess, Setup, StoredLog};

/// One image of so many goes through the program itself, the others through the store in this process.
const BY_THE_PROGRAM: usize = 6;

/// The outcome of all images.
#[derive(Default)]
pub(crate) struct Outcome {
    images: usize,
    /// Images of stores that open neither at once nor by the advice of the message.
    pub(crate) unopened: Vec<String>,
    /// Images of stores that open only by that advice.
    pub(crate) advised: Vec<String>,
    /// Images that have lost a denial that was told.
    pub(crate) lossy: usize,
    /// The most denials lost in one image.
    pub(crate) most_lost: usize,
    /// The longest time between an answer that is lost and the cut.
    pub(crate) oldest_lost: Duration,
    /// The longest time between the first and the last lost answer of an image.
    pub(crate) longest_span: Duration,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { images, unopened, advised, lossy, most_lost, oldest_lost, longest_span } = self;
        write!(
            f,
            "{images} images, {} not opened, {} opened by advice, {lossy} have lost denials, at most {most_lost}, answered within \
             {:.0} ms, at most {:.0} ms before the cut",
            unopened.len(),
            advised.len(),
            longest_span.as_secs_f64() * 1e3,
            oldest_lost.as_secs_f64() * 1e3
        )?;
        for told in unopened.iter().chain(advised) {
            write!(f, "\n  {told}")?;
        }
        Ok(())
    }
}

impl Outcome {
    /// Cuts the power of a trial so many times: a third around changes of names, a third around syncs, a third anywhere.
    pub(crate) fn of(trial: &Trial, images: usize) -> Self {
        let mut dice = Dice(7);
        let (names, syncs) = (trial.disk.names(), trial.disk.syncs());
        let mut cuts = Vec::new();
        for number in 0..images {
            // Before the change or the end of the sync, or soon behind it.
            let around = |all: &[usize]| all[number * all.len() / images] + number / 3 % 3;
            cuts.push(match number % 3 {
                0 => around(&names),
                1 => around(&syncs),
                _ => dice.below(trial.disk.steps()),
            });
        }
        Self::of_cuts(trial, &cuts, &mut dice)
    }

    /// Cuts the power at and behind each change of a name, up to the first denial that was told.
    pub(crate) fn of_the_start(trial: &Trial) -> Self {
        let first = trial.answered.iter().map(|one| one.at).min().unwrap();
        let is_before = |step: &usize| trial.disk.moment(*step).0 <= first;
        let names = trial.disk.names().into_iter().take_while(is_before);
        let cuts: Vec<usize> = names.flat_map(|step| step..step + 4).collect();
        Self::of_cuts(trial, &cuts, &mut Dice(7))
    }

    fn of_cuts(trial: &Trial, cuts: &[usize], dice: &mut Dice) -> Self {
        let mut outcome = Self::default();
        let last = trial.disk.steps() - 1;
        for (number, cut) in cuts.iter().map(|cut| (*cut).min(last)).enumerate() {
            let image = trial.disk.image(cut, number, dice);
            outcome.judge(trial, number, cut, &image);
        }
        outcome.images = cuts.len();
        outcome
    }

    fn judge(&mut self, trial: &Trial, number: usize, cut: usize, image: &Image) {
        let name = format!("image {number}, cut at {cut}");
        let setup = Setup::new();
        for (file, content) in image {
            fs::write(setup.dir().join(file), content).unwrap();
        }
        own_keys(&setup);
        if number.is_multiple_of(BY_THE_PROGRAM) {
            let (code, said) = run(&setup, "store", &["check"]);
            assert!(matches!(code, Some(0..=2)), "{name}: {code:?} {said}");
        }
        let store = setup.dir().join("crawlgate.db");
        if let Err(error) = open(&store) {
            let told = format!("{name}: {error}");
            match follow(&setup, &error)
                .and_then(|()| open(&store).map_err(|error| error.to_string()))
            {
                Ok(()) => self.advised.push(told),
                Err(why) => {
                    self.unopened.push(format!("{told}: {why}"));
                    return;
                }
            }
        }
        let kept = StoredLog::read(&store).decisions;
        self.count(trial, cut, &kept);
        if number.is_multiple_of(BY_THE_PROGRAM) {
            serve(trial, setup, &name);
        }
    }

    /// Counts the denials that were told before the cut and are not kept.
    fn count(&mut self, trial: &Trial, cut: usize, kept: &HashSet<String>) {
        let (at, time) = trial.disk.moment(cut);
        let answered = trial.answered.iter().filter(|one| one.at <= at);
        let lost: Vec<&AnsweredDenial> = answered.filter(|one| !kept.contains(&one.id)).collect();
        let oldest = lost.iter().map(|told| time.saturating_sub(told.time)).max();
        self.lossy += usize::from(!lost.is_empty());
        self.most_lost = self.most_lost.max(lost.len());
        self.oldest_lost = self.oldest_lost.max(oldest.unwrap_or_default());
        let times = || lost.iter().map(|one| one.time);
        let span = times().max().zip(times().min());
        let span = span.map_or(Duration::ZERO, |(last, first)| last - first);
        self.longest_span = self.longest_span.max(span);
    }
}

/// Opens a store as a start does, and closes it.
fn open(store: &Path) -> Result<(), StoreError> {
    let mut config = Config::default();
    config.store.path = Some(store.to_owned());
    store::open(&config, Access::Write).map(drop)
}

/// Gives the files of an image the modes that they had.
fn own_keys(setup: &Setup) {
    use std::os::unix::fs::PermissionsExt as _;

    for file in fs::read_dir(setup.dir()).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }
}

fn run(setup: &Setup, subcommand: &str, words: &[&str]) -> (Option<i32>, String) {
    let output = setup.command(subcommand).args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

/// Does what a message advises.
fn follow(setup: &Setup, error: &StoreError) -> Result<(), String> {
    let told = &error.message;
    let (subcommand, words): (_, &[&str]) = if told.contains("`crawlgate audit fork`") {
        ("audit", &["fork", "--reason", "a power cut", "--yes"])
    } else if told.contains("`crawlgate store rebuild`") {
        ("store", &["rebuild"])
    } else {
        return Err("no command is advised".to_owned());
    };
    match run(setup, subcommand, words) {
        (Some(0 | 1), _) => Ok(()),
        (code, said) => Err(format!("{subcommand} {words:?}: {code:?} {said}")),
    }
}

/// Serves with the store of an image: it denies, ends in order, and its log is whole.
fn serve(trial: &Trial, setup: Setup, name: &str) {
    let command = setup.command("serve");
    let mut gate = CrawlgateProcess::spawn(setup, command);
    let answer = gate.get(&trial.origin.url("/private"));
    assert_eq!(answer.status, 403, "{name}: {answer:?}");
    gate.signal(Signal::TERM);
    gate.wait();
    for (subcommand, words) in [("store", ["check"].as_slice()), ("audit", &["verify", "--all"])] {
        let (code, said) = run(&gate.setup, subcommand, words);
        assert_eq!(code, Some(0), "{name}: {subcommand}: {said}");
    }
}
