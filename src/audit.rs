//! The decision log: what crawlgate decided, about whom, and on what grounds, as evidence for later.
//!
//! Every exchange ends in one [`Record`]. It names the rule that decided and the robots.txt that held it, so that a
//! denial can be explained, and an allowance defended, long after the site has changed its file. Three promises:
//!
//! * **A record is a line.** One JSON object per line, valid whatever octets a crawler or a site has sent, bounded in
//!   length, and without the passwords that a URL may carry.
//! * **No record, no request.** The gate awaits [`Log::ready`] *before* it judges. Where records cannot be written (a full
//!   disk) it is told so, and by default the proxy denies rather than decide unseen.
//! * **The file is never half a line.** Neither a full disk, nor a kill, nor a power cut leaves one behind for a reader:
//!   what was torn is cut off before anything is written after it.
//!
//! Recording is cheap for the exchange: a line is built in memory and handed to one writer thread, which gathers for
//! some milliseconds and writes in one go. What a kill takes is at most what was gathered since the last write;
//! [`Log::flush`] and [`Log::close`] wait until all of it is written; with `[audit] durability = "strict"`, the answer to
//! each denial waits for the former. Nothing here waits for the disk itself except [`Log::close`].
//!
//! `record` is a line's content, [`field`] its names, `json` its spelling, `public_url` what of a URL it shows, `id` and
//! `stamp` its identifier and its time. `log` is what the proxy holds, `queue` what lies between it and the `writer`, a
//! thread. That writes to each `sink`: a `file`, which is made of whole `lines` and put aside by `rotate`, or a stream.
//! `repeats` counts the refusals that are too many to be recorded one by one. [`Summary`] counts the same records for the
//! end of a run.
//!
//! [`live`] shows the same records to those who watch.
//!
//! Afterwards, [`replay`] makes a decision again from its record alone, and [`verify`] tells whether any record was
//! changed since.

pub(crate) mod cells;
mod counts;
pub mod field;
mod file;
mod id;
pub(crate) mod json;
mod lines;
pub mod live;
mod log;
mod public_url;
mod queue;
mod record;
pub(crate) mod repeats;
pub mod replay;
mod rotate;
mod sink;
mod stamp;
pub(crate) mod summary;
pub mod verify;
mod writer;

pub(crate) use self::public_url::public_url;
pub use self::{
    id::DecisionId,
    log::{Exceeds, Log, LogError, LogFailed},
    queue::Landed,
    record::{Agent, Assertion, Client, Outage, PaceLine, Record, RobotsCopy, RuleLine},
    stamp::time_text,
    summary::{Summary, Totals},
};
