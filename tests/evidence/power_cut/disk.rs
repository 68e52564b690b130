//! A disk as a power cut may leave it.
//!
//! The journal is read once, and each change finds the file that it changes: by its name when it was opened, whatever
//! that name means later. A change is on the disk for certain from the end of the first sync that began after it: a sync
//! of its file for its content, of the folder for its names.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::journal::{Entry, What};

/// The content of a folder.
pub(crate) type Image = BTreeMap<String, Vec<u8>>;

/// Octets that a disk writes whole, and those that a page of memory has.
const SECTOR: usize = 512;
const PAGE: usize = 4_096;

/// Every change to a folder, from its beginning.
pub(crate) struct Disk {
    before: Image,
    steps: Vec<Step>,
    /// Files that there ever were, those from before included.
    files: usize,
    slowest_sync: Duration,
}

struct Step {
    /// Octets of the journal before it.
    at: u64,
    time: Duration,
    change: Change,
    /// The step from which on the change is on the disk for certain.
    durable: Option<usize>,
}

enum Change {
    Write {
        file: usize,
        offset: usize,
        data: Vec<u8>,
    },
    Truncate {
        file: usize,
        length: usize,
    },
    /// A name gets a file.
    Enter {
        name: String,
        file: usize,
    },
    Leave {
        name: String,
    },
    Move {
        from: String,
        to: String,
        file: usize,
    },
    /// A sync begins or ends.
    Sync {
        is_end: bool,
    },
}

/// The place that a sync was of: a file, or the folder.
type Place = Option<usize>;

impl Change {
    fn place(&self) -> Option<Place> {
        match self {
            Self::Write { file, .. } | Self::Truncate { file, .. } => Some(Some(*file)),
            Self::Enter { .. } | Self::Leave { .. } | Self::Move { .. } => Some(None),
            Self::Sync { .. } => None,
        }
    }
}

/// The part of the writes that was not synced and is on the disk nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    All,
    /// Of each file, the writes up to some moment.
    Beginnings,
    /// Any writes, each as a whole.
    Writes,
    /// Any pieces of so many octets.
    Pieces(usize),
}

const PARTS: [Part; 6] = [
    Part::Nothing,
    Part::Writes,
    Part::Pieces(SECTOR),
    Part::Beginnings,
    Part::Pieces(PAGE),
    Part::All,
];

/// Numbers at random, the same ones for the same seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound.max(1) as u64).unwrap()
    }

    fn coin(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}

/// The journal's changes with their files found: the folder as it is while the program runs.
struct Reading {
    /// The file behind each name.
    names: HashMap<String, usize>,
    /// The open files of each process; `None` for the folder itself.
    open: HashMap<(u32, i32), Place>,
    /// Syncs that have not ended: their place, first step and time.
    syncs: HashMap<(u32, i64), (Place, usize, Duration)>,
    /// Steps that no sync covers, in order.
    unsynced: HashMap<Place, Vec<usize>>,
    disk: Disk,
}

impl Disk {
    /// Reads the changes that a journal tells, to a folder with this content.
    pub(crate) fn of(before: Image, journal: Vec<Entry>) -> Self {
        let names = before.keys().cloned().zip(0..).collect();
        let mut reading = Reading {
            names,
            open: HashMap::new(),
            syncs: HashMap::new(),
            unsynced: HashMap::new(),
            disk: Self {
                files: before.len(),
                before,
                steps: Vec::new(),
                slowest_sync: Duration::ZERO,
            },
        };
        for entry in journal {
            reading.add(entry);
        }
        reading.disk
    }

    /// Returns the number of steps, after each of which the power may be cut.
    pub(crate) fn steps(&self) -> usize {
        self.steps.len()
    }

    /// Returns the steps at which a sync ends.
    pub(crate) fn syncs(&self) -> Vec<usize> {
        let is_end = |step: &Step| matches!(step.change, Change::Sync { is_end: true });
        let steps = self.steps.iter().zip(0..);
        steps.filter(|(step, _)| is_end(step)).map(|(_, number)| number).collect()
    }

    /// Returns the steps at which a name changes.
    pub(crate) fn names(&self) -> Vec<usize> {
        let is_name = |step: &Step| step.change.place() == Some(None);
        let steps = self.steps.iter().zip(0..);
        steps.filter(|(step, _)| is_name(step)).map(|(_, number)| number).collect()
    }

    /// Returns the moment before a step: the octets of the journal, and the time.
    pub(crate) fn moment(&self, step: usize) -> (u64, Duration) {
        let step = &self.steps[step];
        (step.at, step.time)
    }

    /// Returns the longest time that a sync took.
    pub(crate) fn slowest_sync(&self) -> Duration {
        self.slowest_sync
    }

    /// Returns the folder as it is after all changes.
    pub(crate) fn end(&self) -> Image {
        self.image_of(self.steps.len(), Part::All, &mut Dice(0))
    }

    /// Returns an image of the disk after a power cut before a step. Images with other numbers keep other parts of what
    /// was not synced.
    pub(crate) fn image(&self, cut: usize, number: usize, dice: &mut Dice) -> Image {
        self.image_of(cut, PARTS[number % PARTS.len()], dice)
    }

    fn image_of(&self, cut: usize, part: Part, dice: &mut Dice) -> Image {
        let mut names: HashMap<&str, usize> =
            self.before.keys().map(String::as_str).zip(0..).collect();
        let mut contents: Vec<Vec<u8>> = self.before.values().cloned().collect();
        contents.resize(self.files, Vec::new());
        // Up to these steps, unsynced changes are kept: of each file, and of the folder at the end.
        let kept: Vec<usize> = (0..=self.files).map(|_| dice.below(cut + 1)).collect();
        // File systems with a journal of names keep them in order; others need not.
        let keeps_order = dice.coin();
        for (number, step) in self.steps[..cut].iter().enumerate() {
            let is_durable = step.durable.is_some_and(|durable| durable < cut);
            let Some(place) = step.change.place() else {
                continue;
            };
            let is_kept = |dice: &mut Dice| match (part, place) {
                (Part::Nothing, _) => false,
                (Part::All, _) => true,
                (_, None) if !keeps_order => dice.coin(),
                (Part::Beginnings, _) | (_, None) => number < kept[place.unwrap_or(self.files)],
                (Part::Writes | Part::Pieces(_), _) => dice.coin(),
            };
            match (&step.change, part) {
                (Change::Write { file, offset, data }, Part::Pieces(size)) if !is_durable => {
                    let content = &mut contents[*file];
                    let mut done = 0;
                    while done < data.len() {
                        let here = (size - (offset + done) % size).min(data.len() - done);
                        if dice.coin() {
                            write(content, offset + done, &data[done..done + here]);
                        }
                        done += here;
                    }
                }
                _ if !is_durable && !is_kept(dice) => {}
                (Change::Write { file, offset, data }, _) => {
                    write(&mut contents[*file], *offset, data);
                }
                (Change::Truncate { file, length }, _) => contents[*file].resize(*length, 0),
                (Change::Enter { name, file }, _) => _ = names.insert(name, *file),
                (Change::Leave { name }, _) => _ = names.remove(name.as_str()),
                (Change::Move { from, to, file }, _) => {
                    names.remove(from.as_str());
                    names.insert(to, *file);
                }
                (Change::Sync { .. }, _) => {}
            }
        }
        let content = |(name, file): (&str, usize)| (name.to_owned(), contents[file].clone());
        let names = names.into_iter().filter(|(name, _)| !is_passing(name));
        names.map(content).collect()
    }
}

/// Tells whether a file is made anew by each start, from nothing: the engine's index of its log, in shared memory.
pub(crate) fn is_passing(name: &str) -> bool {
    name.ends_with("-shm")
}

fn write(content: &mut Vec<u8>, offset: usize, data: &[u8]) {
    let end = offset + data.len();
    if content.len() < end {
        content.resize(end, 0);
    }
    content[offset..end].copy_from_slice(data);
}

impl Reading {
    fn add(&mut self, entry: Entry) {
        let open = (entry.process, entry.file);
        let moment = (entry.at, entry.time);
        let file = |reading: &Self| reading.open[&open].expect("a file, not the folder");
        match entry.what {
            What::Open { name, .. } if name.is_empty() => _ = self.open.insert(open, None),
            What::Open { name, flags } => {
                let file = match self.names.get(&name) {
                    Some(file) => *file,
                    None => {
                        let file = self.disk.files;
                        self.disk.files += 1;
                        self.names.insert(name.clone(), file);
                        self.step(moment, Change::Enter { name, file });
                        file
                    }
                };
                self.open.insert(open, Some(file));
                if flags & i64::from(rustix::fs::OFlags::TRUNC.bits()) != 0 {
                    self.step(moment, Change::Truncate { file, length: 0 });
                }
            }
            What::Close => _ = self.open.remove(&open),
            What::Write { offset, data } => {
                let file = file(self);
                self.step(moment, Change::Write { file, offset, data });
            }
            What::Truncate { length } => {
                let file = file(self);
                self.step(moment, Change::Truncate { file, length });
            }
            What::Sync { number } => {
                let began = self.disk.steps.len();
                let place = self.open[&open];
                self.syncs.insert((entry.process, number), (place, began, entry.time));
                self.step(moment, Change::Sync { is_end: false });
            }
            What::Synced { number } => {
                let end = self.disk.steps.len();
                let (place, began, since) = self.syncs[&(entry.process, number)];
                let unsynced = self.unsynced.entry(place).or_default();
                let later = unsynced.split_off(unsynced.partition_point(|step| *step < began));
                for step in std::mem::replace(unsynced, later) {
                    self.disk.steps[step].durable = Some(end);
                }
                let took = entry.time.saturating_sub(since);
                self.disk.slowest_sync = self.disk.slowest_sync.max(took);
                self.step(moment, Change::Sync { is_end: true });
            }
            What::Rename { from, to } => {
                let file = self.names.remove(&from).expect("a file to rename");
                self.names.insert(to.clone(), file);
                self.step(moment, Change::Move { from, to, file });
            }
            What::Link { from, to } => {
                let file = self.names[&from];
                self.names.insert(to.clone(), file);
                self.step(moment, Change::Enter { name: to, file });
            }
            What::Unlink { name } => {
                self.names.remove(&name);
                self.step(moment, Change::Leave { name });
            }
        }
    }

    fn step(&mut self, (at, time): (u64, Duration), change: Change) {
        if let Some(place) = change.place() {
            let unsynced = self.unsynced.entry(place).or_default();
            unsynced.push(self.disk.steps.len());
        }
        self.disk.steps.push(Step { at, time, change, durable: None });
    }
}
