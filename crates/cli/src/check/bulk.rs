//! Judges in bulk: each line of input gets its answer on a line of output, in the same order.
//!
//! The answer is the protocol's, so only [`rep`](crawlgate_robots) gives it: even a URL that no request could carry is
//! judged. The path guard's opinion is added to the answer.
//!
//! A thread reads; one task judges, writes, and waits for the fetches of lines that bring no robots.txt. Lines behind a
//! fetch are judged meanwhile, and their answers wait for their turn. Before each wait the task writes all finished
//! answers: so a program can ask, wait for the answer, and ask again.

mod line_judge;
mod lines;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle};

use self::line_judge::{LineJudge, LineOutcome, PendingLine};
use self::lines::{Line, Lines};
use super::judge::{AT_ONCE, Stopped};
use super::settle;
use super::source::{self, Known};
use crate::Failure;
use crawlgate_config::Config;
use crawlgate_gate::explain::Documents;
use crawlgate_gate::explain::usage::UsageQuery;
use crawlgate_system::clock::Clock;

/// Answers to keep behind an unfinished one.
const MAX_KEPT: usize = 4096;

/// Octets to gather before a write.
const GATHERED: usize = 64 << 10;

/// Answers standard input on standard output; returns the exit code.
pub(super) fn run(
    named: &[String],
    asked: UsageQuery,
    known: Known,
    config: &Config,
) -> Result<u8, Failure> {
    let clock = Clock::system();
    let cache = source::cache(known, config, &clock)?;
    let judge = LineJudge::new(named, asked, config)?;
    let runtime = source::runtime()?;
    let (sender, batches) = mpsc::channel(2);
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || read(io::stdin().lock(), &sender))
        .map_err(|error| format!("the reader of standard input cannot be started: {error}"))?;
    let bulk = Bulk {
        judge,
        ask: |fetch: &Arc<PendingLine>| {
            let (fetch, cache) = (Arc::clone(fetch), Arc::clone(&cache));
            tokio::spawn(async move { fetch.documents(&cache).await })
        },
        waiting: VecDeque::new(),
        fetching: 0,
        answered: Vec::new(),
        out: io::stdout().lock(),
    };
    match runtime.block_on(bulk.answer(batches)) {
        Ok(()) => Ok(0),
        Err(Stopped::Input(error)) => Err(format!("standard input: {error}").into()),
        Err(Stopped::Output(error)) => settle(Err(error), 0),
    }
}

/// Passes on the lines read, until the end of input or until the receiver has gone.
fn read(input: impl io::Read, batches: &mpsc::Sender<io::Result<Vec<Line>>>) {
    let mut lines = Lines::new(input);
    while let Some(batch) = lines.batch().transpose() {
        let is_end = batch.is_err();
        if batches.blocking_send(batch).is_err() || is_end {
            return;
        }
    }
}

/// A line without a written answer yet.
enum QueuedAnswer {
    Answered(Vec<u8>),
    Fetching(Arc<PendingLine>, JoinHandle<Documents>),
}

struct Bulk<A, W> {
    judge: LineJudge,
    /// Requests an origin's documents.
    ask: A,
    waiting: VecDeque<QueuedAnswer>,
    /// The number of fetches in progress.
    fetching: usize,
    answered: Vec<u8>,
    out: W,
}

impl<A: Fn(&Arc<PendingLine>) -> JoinHandle<Documents>, W: Write> Bulk<A, W> {
    async fn answer(
        mut self,
        mut batches: mpsc::Receiver<io::Result<Vec<Line>>>,
    ) -> Result<(), Stopped> {
        let mut todo: VecDeque<Line> = VecDeque::new();
        let mut is_open = true;
        loop {
            while self.fetching < AT_ONCE
                && self.waiting.len() < MAX_KEPT
                && let Some(line) = todo.pop_front()
            {
                self.begin(&line).map_err(Stopped::Output)?;
            }
            let is_ready = todo.is_empty() && self.waiting.is_empty() && !batches.is_empty();
            if !is_ready {
                self.flush().map_err(Stopped::Output)?;
            }
            let has_room = todo.is_empty() && self.waiting.len() < MAX_KEPT;
            let batch = match self.waiting.front_mut() {
                // A finished answer never stands in front.
                Some(QueuedAnswer::Fetching(_, fetch)) => tokio::select! {
                    documents = fetch => {
                        self.land(documents).map_err(Stopped::Output)?;
                        continue;
                    }
                    batch = batches.recv(), if is_open && has_room => batch,
                },
                _ if !is_open => return Ok(()),
                _ => batches.recv().await,
            };
            match batch {
                Some(batch) => todo.extend(batch.map_err(Stopped::Input)?),
                None => is_open = false,
            }
        }
    }

    /// Answers a line, or starts the fetch that it needs.
    fn begin(&mut self, line: &Line) -> io::Result<()> {
        let is_next = self.waiting.is_empty();
        let mut kept = Vec::new();
        let answer = if is_next { &mut self.answered } else { &mut kept };
        match self.judge.take(line, answer) {
            LineOutcome::Answered if is_next => self.gathered(),
            LineOutcome::Answered => {
                self.waiting.push_back(QueuedAnswer::Answered(kept));
                Ok(())
            }
            LineOutcome::ToFetch(fetch) => {
                let task = (self.ask)(&fetch);
                self.waiting.push_back(QueuedAnswer::Fetching(fetch, task));
                self.fetching += 1;
                Ok(())
            }
        }
    }

    /// Answers the first line that waits, and all finished ones behind it.
    fn land(&mut self, documents: Result<Documents, JoinError>) -> io::Result<()> {
        if let Some(QueuedAnswer::Fetching(fetch, _)) = self.waiting.pop_front() {
            self.fetching -= 1;
            self.judge.end(&fetch, documents.ok(), &mut self.answered);
        }
        while matches!(self.waiting.front(), Some(QueuedAnswer::Answered(_)))
            && let Some(QueuedAnswer::Answered(answer)) = self.waiting.pop_front()
        {
            self.answered.extend_from_slice(&answer);
            self.gathered()?;
        }
        Ok(())
    }

    /// Writes the gathered answers once there are enough.
    fn gathered(&mut self) -> io::Result<()> {
        if self.answered.len() < GATHERED {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.answered.is_empty() {
            self.out.write_all(&self.answered)?;
            self.out.flush()?;
            self.answered.clear();
        }
        Ok(())
    }
}
