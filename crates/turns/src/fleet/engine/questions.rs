//! The questions for turns, several of them in one call.
//!
//! A question in company costs the engine and this process less than a single one: one command, one write, one answer.
//! The first question after a pause goes at once, sent by its own task: to wake another one costs more than the call.
//! Those that follow within [`GATHER`] wait for its end and go together, so a turn is reserved later, and a question
//! may take longer than `[fleet] timeout`, by no more than that.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use redis::{RedisWrite, ToRedisArgs};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::Engine;
use super::script::Script;
use super::script::{Reply, foreign};
use crate::fleet::coordinator::{CoordinatorError, EngineTime};
use crate::fleet::reservation::{
    NEAR, OriginBackoff, Reserve, Reserved, ReservedTurn, SLOT_LIFE, TurnKind,
};
use crate::history::micros;

/// The time from one call to the next.
const GATHER: Duration = Duration::from_millis(2);

/// The most questions in one call: the engine answers nothing else meanwhile.
const MOST: usize = 64;

type Answer = Result<Reserved, CoordinatorError>;

/// The questions that wait. While there are any, a task is about to send them.
#[derive(Debug, Default)]
pub(super) struct Questions(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    questions: Vec<WaitingQuestion>,
    /// The earliest time of the next call; `None` before the first one.
    next: Option<Instant>,
}

/// A question, and the way of its answer.
type WaitingQuestion = (TurnQuestion, oneshot::Sender<Answer>);

/// A question for the turns of one origin.
#[derive(Debug)]
struct TurnQuestion {
    /// The names of the keys.
    keys: [String; 2],
    kind: &'static str,
    group: String,
    wanted: u32,
    /// The numbers behind the turns wanted, in the order of the script.
    numbers: [u64; 8],
    /// The names of the slots to take.
    slots: Vec<String>,
}

impl Questions {
    /// Takes the next call for one question, if none waits and the call may go now. Returns false if not.
    fn take_call(&self, now: Instant) -> bool {
        let mut waiting = self.0.lock();
        let may_go = waiting.questions.is_empty() && waiting.next.is_none_or(|next| next <= now);
        if may_go {
            waiting.next = Some(now + GATHER);
        }
        may_go
    }
}

impl Engine {
    /// Reserves turns at an origin.
    pub(super) async fn reserve_turns(&self, ask: Reserve<'_>) -> Answer {
        // Both fail only when the process ends.
        let ends = || CoordinatorError::unreachable("this process ends");
        let question = self.question(ask);
        if self.questions.take_call(Instant::now()) {
            let mut answers = self.ask_together(&[question]).await?;
            return answers.pop().unwrap_or_else(|| Err(foreign()));
        }
        let (answer, answered) = oneshot::channel();
        let is_first = {
            let mut waiting = self.questions.0.lock();
            waiting.questions.push((question, answer));
            waiting.questions.len() == 1
        };
        if is_first {
            let engine = self.this.upgrade().ok_or_else(ends)?;
            tokio::spawn(engine.send_questions());
        }
        answered.await.map_err(|_| ends())?
    }

    fn question(&self, ask: Reserve<'_>) -> TurnQuestion {
        let (group, interval) = match ask.group {
            Some(group) => (group.name, group.interval),
            None => ("", Duration::ZERO),
        };
        TurnQuestion {
            keys: self.keys.turns(ask.origin),
            kind: match ask.kind {
                TurnKind::Page => "page",
                TurnKind::Robots => "robots",
                TurnKind::Now => "now",
                TurnKind::RedirectHop => "aside",
            },
            group: group.to_owned(),
            wanted: ask.wanted,
            numbers: [
                micros(ask.horizon),
                micros(ask.interval),
                ask.burst.max(1).into(),
                micros(interval),
                micros(ask.rest),
                micros(ask.gap),
                ask.slots.map_or(0, |slots| slots.most).into(),
                micros(ask.memory),
            ],
            slots: ask.slots.map_or_else(Vec::new, |slots| slots.names.to_vec()),
        }
    }

    /// Sends the questions that wait when it is time.
    async fn send_questions(self: Arc<Self>) {
        let next = self.questions.0.lock().next;
        if let Some(next) = next {
            sleep_until(next).await;
        }
        let mut questions = {
            let mut waiting = self.questions.0.lock();
            waiting.next = Some(Instant::now() + GATHER);
            std::mem::take(&mut waiting.questions)
        };
        // No turn is reserved for a request that has gone.
        questions.retain(|(_, answer)| !answer.is_closed());
        while questions.len() > MOST {
            let later = questions.split_off(MOST);
            tokio::spawn(Arc::clone(&self).send_together(questions));
            questions = later;
        }
        if !questions.is_empty() {
            self.send_together(questions).await;
        }
    }

    /// Sends questions in one call, and passes the answers on.
    async fn send_together(self: Arc<Self>, questions: Vec<WaitingQuestion>) {
        let (questions, senders): (Vec<_>, Vec<_>) = questions.into_iter().unzip();
        let answers = match self.ask_together(&questions).await {
            Ok(answers) => answers,
            Err(error) => vec![Err(error); senders.len()],
        };
        for (sender, answer) in senders.into_iter().zip(answers) {
            // A turn of an asker that has gone is lost.
            let _ = sender.send(answer);
        }
    }

    /// Asks questions in one call. Returns an answer to each.
    async fn ask_together(
        &self,
        questions: &[TurnQuestion],
    ) -> Result<Vec<Answer>, CoordinatorError> {
        let mut reply = self.call_with(questions).await?;
        let now = reply.expect_ok().and_then(|()| reply.number());
        let answers = questions.iter().map(|question| {
            let answer = now.clone().and_then(|now| reserved(&reply.text()?, now));
            if let Ok(reserved) = &answer {
                self.counts.turns(question.wanted, reserved.turns.len());
            }
            answer
        });
        Ok(answers.collect())
    }

    async fn call_with(&self, questions: &[TurnQuestion]) -> Result<Reply, CoordinatorError> {
        let names = questions.iter().flat_map(|question| &question.keys);
        let keys: Vec<&str> =
            [&self.keys.counters].into_iter().chain(names).map(|key| &**key).collect();
        let arguments = (micros(NEAR), micros(SLOT_LIFE), questions);
        self.call(Script::Reserve, &keys, arguments).await
    }
}

impl ToRedisArgs for TurnQuestion {
    fn write_redis_args<W: ?Sized + RedisWrite>(&self, out: &mut W) {
        let named = (self.slots.len(), self.kind, &self.group, self.wanted);
        (named, &self.numbers, &*self.slots).write_redis_args(out);
    }

    fn num_of_args(&self) -> usize {
        4 + self.numbers.len() + self.slots.len()
    }
}

/// Reads the answer to a question, which the engine gave at `now`.
fn reserved(reply: &str, now: u64) -> Answer {
    if let Some(why) = reply.strip_prefix('-') {
        return Err(CoordinatorError::refused(why));
    }
    let mut numbers = reply.split(' ').map(|number| number.parse::<u64>().map_err(|_| foreign()));
    let mut number = || numbers.next().unwrap_or_else(|| Err(foreign()));
    let after = |at: u64| Duration::from_micros(at.saturating_sub(now));
    let next = after(number()?);
    let (is_full, is_of_group) = (number()? == 1, number()? == 1);
    let backoff = OriginBackoff {
        gap: Duration::from_micros(number()?),
        rest: Duration::from_micros(number()?),
    };
    let turn = |at: u64| ReservedTurn { after: after(at), at: EngineTime(at) };
    Ok(Reserved {
        turns: numbers.map(|at| at.map(turn)).collect::<Result<_, _>>()?,
        next,
        is_full,
        is_of_group,
        backoff,
    })
}
