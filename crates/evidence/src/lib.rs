//! The decision log: each decision of crawlgate, its client and its grounds, as evidence for later.
//!
//! Every exchange ends in one [`Decision`](crawlgate_record::Decision). It names the rule that decided and the robots.txt that held it, so that a
//! denial can be explained, and an allowance defended, long after the site has changed its file. Three promises:
//!
//! * **A record is an entry, and shown as a line.** The line is derived from the entry: one JSON object, valid whatever
//!   octets a crawler or a site has sent, bounded in length, and without the passwords that a URL may carry.
//! * **No record, no request.** The gate awaits [`Log::ready`] *before* it judges. While records cannot be written (a
//!   full disk), it fails, and by default the proxy denies rather than decide unseen.
//! * **The file is never half a line.** Neither a full disk, nor a kill, nor a power cut leaves one behind for a
//!   reader: a torn line is cut off before the next write.
//!
//! Recording is cheap for the exchange: it encodes an entry in memory and hands it to one writer thread, which gathers
//! for some milliseconds and writes in one go. A kill loses at most the entries gathered since the last write. [`Log::flush`]
//! and [`Log::close`] wait until all entries are written; with `[audit] durability = "strict"`, the answer to each denial
//! waits for the former. Only [`Log::close`] waits for the disk itself.
//!
//! [`crawlgate_record`] has an entry's content and its form, [`crawlgate_record::COLUMNS`] the names of its line, `grounds` the objects that it
//! names. The proxy holds the `log`; a
//! `queue` connects it with the `writer`, a thread. The writer gives the entries to the store, and their lines
//! (`derived`) to each `sink`: a `file`, which consists of whole `lines` and is put aside by `rotate`, or
//! a stream. `repeats` counts refusals that are too many for single records, and
//! `forwarded` the requests that are forwarded without one. [`Summary`] counts the same records for
//! the end of a run.
//!
//! [`live`] shows the same records to watchers, and [`report`] tells readers outside of a span of them.
//!
//! [`export`] has the form in which a log leaves its machine, and brings it into a collected copy; [`tiles`] shows it to other people's
//! programs. Both, and evidence files, take `slice`s of the log from the store, and write to a [`destination`].
//!
//! Afterwards, [`replay`] makes a decision again from nothing but its record, and [`verify`] tells whether any record was
//! changed since. [`what_if`] sums up what another robots.txt would have decided.

mod backlog;
pub mod bundle;
mod counts;
pub mod csv;
mod derived;
pub mod destination;
mod error;
pub mod export;
mod file;
mod forwarded;
mod grounds;
mod lines;
pub mod live;
mod log;
pub mod lost;
pub mod prove;
mod queue;
pub mod repeats;
pub mod replay;
pub mod report;
mod rotate;
pub mod ship;
mod sink;
mod slice;
pub mod summary;
pub mod tiles;
pub mod verify;
pub mod what_if;
pub mod witness;
pub mod words;
mod writer;

pub use crawlgate_text::DecisionId;

pub use self::{
    error::{LogError, LogFailed},
    grounds::{Ground, GroundDigests, Grounds},
    log::{Exceeds, Log},
    queue::QueuedState,
    summary::{Codes, Denial, Facts, OriginFacts, Summary, Totals},
};
