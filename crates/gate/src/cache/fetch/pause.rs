//! Detects that the process stood still during an operation.
//!
//! A process that is stopped (SIGSTOP, a suspended laptop, a frozen container) finds all its deadlines past and its
//! connections dead when it continues. That says nothing about an origin, so a failed fetch is tried again.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crawlgate_system::clock::Clock;

/// Time between two looks at the clock while the process runs.
const BEAT: Duration = Duration::from_secs(1);

/// A beat later than this shows that the process stood still.
const LATE: Duration = Duration::from_secs(5);

/// Tells whether the process ran during the whole of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Continuity {
    /// It ran.
    Continuous,
    /// It stood still for a while.
    Interrupted,
}

/// Drives a future to its end, and tells whether the process stood still meanwhile.
pub(super) async fn driven<F: Future>(clock: &Clock, future: F) -> (F::Output, Continuity) {
    let mut future = pin!(future);
    let mut continuity = Continuity::Continuous;
    let mut seen = clock.uptime();
    loop {
        let output = tokio::select! {
            output = &mut future => Some(output),
            () = sleep(BEAT) => None,
        };
        let now = clock.uptime();
        if now.since(seen) > LATE {
            continuity = Continuity::Interrupted;
        }
        seen = now;
        if let Some(output) = output {
            return (output, continuity);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::Moment;

    #[tokio::test(start_paused = true)]
    async fn a_process_detects_that_it_stood_still() {
        let s = Duration::from_secs;
        for (name, stop, expected) in [
            ("it ran", s(0), Continuity::Continuous),
            ("it was slow", s(4), Continuity::Continuous),
            ("it was stopped", s(30), Continuity::Interrupted),
            ("for a night", s(30_000), Continuity::Interrupted),
        ] {
            let clock = Clock::manual(Moment::from_millis(1_790_000_000_000));
            let before = driven(&clock, async {
                sleep(s(3)).await;
                clock.advance(stop);
                sleep(s(10)).await;
            });
            assert_eq!(before.await.1, expected, "{name}");
            // Its deadline is found past before the next beat is.
            let at_once = driven(&clock, async { clock.advance(stop) });
            assert_eq!(at_once.await.1, expected, "{name}, and ends with it");
            // Setting the clock is no pause.
            let set = driven(&clock, async { clock.set(clock.now() + s(3_600)) });
            assert_eq!(set.await.1, Continuity::Continuous, "{name}");
        }
    }
}
