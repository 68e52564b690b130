//! Judging in bulk: a question on each line in, its answer on each line out, in the same order.
//!
//! What is asked for is the protocol's answer, so [`rep`](crate::rep) gives it and nothing else has a say: a URL that
//! no request could carry is judged like any other. The path guard is told of beside it.
//!
//! A thread reads; one task judges, writes, and waits for the fetches of lines that bring no robots.txt. What comes
//! behind a fetch is judged meanwhile and kept until its turn. Whenever the next step could be to wait, what is
//! answered is written out first: so a program can ask, wait for the answer, and ask again.

mod lines;
mod question;

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use self::lines::{Line, Lines};
use self::question::{Asked, Desk, Fetch};
use super::judge::{AT_ONCE, Stopped};
use super::{settle, source};
use crate::clock::Clock;
use crate::config::Config;
use crate::robots::registry::View;

/// How many answers are kept behind one that is not there yet.
const MOST_KEPT: usize = 4096;

/// What is gathered before it is written out, in octets.
const GATHERED: usize = 64 << 10;

/// Answers standard input on standard output; gives the exit code.
pub(super) fn run(named: &[String], config: &Config) -> Result<u8, String> {
    let clock = Clock::system();
    let registry = source::registry(config, &clock)?;
    let desk = Desk::new(named, config)?;
    let runtime = source::runtime()?;
    let (sender, batches) = mpsc::channel(2);
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || read(io::stdin().lock(), &sender))
        .map_err(|error| format!("the reader of standard input cannot be started: {error}"))?;
    let bulk = Bulk {
        desk,
        ask: |fetch: &Fetch| {
            let (origin, agent) = (fetch.origin.clone(), Arc::clone(&fetch.agent));
            tokio::spawn(source::ask(Arc::clone(&registry), origin, agent))
        },
        waiting: VecDeque::new(),
        fetching: 0,
        answered: Vec::new(),
        out: io::stdout().lock(),
    };
    match runtime.block_on(bulk.answer(batches)) {
        Ok(()) => Ok(0),
        Err(Stopped::Input(error)) => Err(format!("standard input: {error}")),
        Err(Stopped::Output(error)) => settle(Err(error), 0),
    }
}

/// Hands over what can be read, until the end or until nobody takes it.
fn read(input: impl io::Read, batches: &mpsc::Sender<io::Result<Vec<Line>>>) {
    let mut lines = Lines::new(input);
    while let Some(batch) = lines.batch().transpose() {
        let is_end = batch.is_err();
        if batches.blocking_send(batch).is_err() || is_end {
            return;
        }
    }
}

/// A line whose answer is not written yet.
enum Waiting {
    Answered(Vec<u8>),
    Fetching(Box<Fetch>, JoinHandle<View>),
}

struct Bulk<A, W> {
    desk: Desk,
    /// Asks for an origin's robots.txt.
    ask: A,
    waiting: VecDeque<Waiting>,
    /// How many of them are being fetched for.
    fetching: usize,
    answered: Vec<u8>,
    out: W,
}

impl<A: Fn(&Fetch) -> JoinHandle<View>, W: Write> Bulk<A, W> {
    async fn answer(
        mut self,
        mut batches: mpsc::Receiver<io::Result<Vec<Line>>>,
    ) -> Result<(), Stopped> {
        let mut todo: VecDeque<Line> = VecDeque::new();
        let mut is_open = true;
        loop {
            while self.fetching < AT_ONCE
                && self.waiting.len() < MOST_KEPT
                && let Some(line) = todo.pop_front()
            {
                self.begin(&line).map_err(Stopped::Output)?;
            }
            let is_ready = todo.is_empty() && self.waiting.is_empty() && !batches.is_empty();
            if !is_ready {
                self.flush().map_err(Stopped::Output)?;
            }
            let has_room = todo.is_empty() && self.waiting.len() < MOST_KEPT;
            let batch = match self.waiting.front_mut() {
                // What is answered never stands in front.
                Some(Waiting::Fetching(_, fetch)) => tokio::select! {
                    view = fetch => {
                        self.land(view).map_err(Stopped::Output)?;
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

    /// Answers a line, or begins to fetch what that takes.
    fn begin(&mut self, line: &Line) -> io::Result<()> {
        let is_next = self.waiting.is_empty();
        let mut kept = Vec::new();
        let answer = if is_next {
            &mut self.answered
        } else {
            &mut kept
        };
        match self.desk.take(line, answer) {
            Asked::Answered if is_next => self.gathered(),
            Asked::Answered => {
                self.waiting.push_back(Waiting::Answered(kept));
                Ok(())
            }
            Asked::ToFetch(fetch) => {
                let task = (self.ask)(&fetch);
                self.waiting.push_back(Waiting::Fetching(fetch, task));
                self.fetching += 1;
                Ok(())
            }
        }
    }

    /// Answers the first line that waits, and all behind it that are answered.
    fn land(&mut self, view: Result<View, tokio::task::JoinError>) -> io::Result<()> {
        if let Some(Waiting::Fetching(fetch, _)) = self.waiting.pop_front() {
            self.fetching -= 1;
            self.desk
                .end(&fetch, view.ok().as_ref(), &mut self.answered);
        }
        while matches!(self.waiting.front(), Some(Waiting::Answered(_)))
            && let Some(Waiting::Answered(answer)) = self.waiting.pop_front()
        {
            self.answered.extend_from_slice(&answer);
            self.gathered()?;
        }
        Ok(())
    }

    /// Writes out what has been gathered once it is enough.
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
