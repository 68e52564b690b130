//! Silence on a connection: between requests, in a head, and before the first octet.

use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::sleep;

use super::CheckedStream;
use crate::exchange_state::Stage;

/// Quiet periods that make a connection idle.
const QUIET_PERIODS: u8 = 4;

/// Time that a connection without any octet so far has for its first request when the proxy stops: it was accepted, so
/// its client takes it for open.
pub const CHANCE: Duration = Duration::from_secs(2);

/// The timer that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimerKind {
    Quiet,
    Head,
    Chance,
}

impl<S> CheckedStream<S> {
    /// Waits until the connection has been silent for too long. Polled only while a read is pending.
    pub(super) fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<TimerKind> {
        let in_head = self.framer.is_between_requests() && !self.held.is_empty();
        match (&self.timer, self.timed) {
            (Some(_), TimerKind::Head) if !in_head => self.timer = None,
            (Some(_), TimerKind::Quiet) if in_head => self.timer = None,
            (Some(_), TimerKind::Chance) => self.timer = None,
            _ => {}
        }
        loop {
            let Some(timer) = &mut self.timer else {
                if in_head {
                    self.arm(TimerKind::Head, self.timeouts.header);
                } else {
                    self.quiet = 0;
                    self.arm(TimerKind::Quiet, self.timeouts.idle / u32::from(QUIET_PERIODS));
                }
                continue;
            };
            ready!(timer.as_mut().poll(cx));
            self.timer = None;
            if self.timed == TimerKind::Head {
                return Poll::Ready(TimerKind::Head);
            }
            self.quiet = match self.exchange.stage() {
                Stage::Idle => self.quiet + 1,
                Stage::Waiting | Stage::Answering => 0,
            };
            if self.quiet >= QUIET_PERIODS {
                return Poll::Ready(TimerKind::Quiet);
            }
            self.arm(TimerKind::Quiet, self.timeouts.idle / u32::from(QUIET_PERIODS));
        }
    }

    /// Waits for the first octets of a connection that has brought none, and for nothing else.
    pub(super) fn poll_chance(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.has_read {
            return Poll::Ready(());
        }
        if self.timed != TimerKind::Chance {
            self.arm(TimerKind::Chance, CHANCE);
        }
        match &mut self.timer {
            Some(timer) => timer.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }

    /// Tells whether nothing is under way: no part of a request was read, none of an answer is still to be written.
    pub(super) fn is_resting(&self) -> bool {
        self.framer.is_between_requests()
            && self.held.is_empty()
            && self.is_flushed
            && self.exchange.stage() == Stage::Idle
    }

    fn arm(&mut self, timed: TimerKind, after: Duration) {
        self.timed = timed;
        self.timer = Some(Box::pin(sleep(after)));
    }
}
