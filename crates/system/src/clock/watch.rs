//! Tells the operator when the wall clock was set: durations between moments may then be wrong for a while.

use std::time::Duration;

use tracing::warn;

use super::{Clock, Moment, Uptime};

/// Time between two comparisons of the clocks.
const EVERY: Duration = Duration::from_secs(1);

/// Time services slew a clock by less than this and step it by more.
const NEWS: Duration = Duration::from_secs(2);

/// Compares a wall clock with one that is never set.
#[derive(Debug, Clone, Copy)]
struct Comparison {
    wall: Moment,
    uptime: Uptime,
}

/// A wall clock was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It was set forward by so much.
    Forward(Duration),
    /// It was set back by so much.
    Back(Duration),
}

impl Comparison {
    /// Returns the step between the last reading and this one, if there was one.
    fn step(&mut self, wall: Moment, uptime: Uptime) -> Option<Step> {
        let expected = self.wall + uptime.since(self.uptime);
        (self.wall, self.uptime) = (wall, uptime);
        let (forward, back) = (wall.since(expected), expected.since(wall));
        if forward > NEWS {
            Some(Step::Forward(forward))
        } else if back > NEWS {
            Some(Step::Back(back))
        } else {
            None
        }
    }
}

/// Warns of each step of the wall clock, for as long as it is polled.
pub async fn watch(clock: Clock) {
    let mut comparison = Comparison { wall: clock.now(), uptime: clock.uptime() };
    loop {
        tokio::time::sleep(EVERY).await;
        let (by, direction) = match comparison.step(clock.now(), clock.uptime()) {
            Some(Step::Forward(by)) => (by, "forward"),
            Some(Step::Back(by)) => (by, "back"),
            None => continue,
        };
        warn!(
            seconds = by.as_secs(),
            "the wall clock was set {direction}: times in records jump with it, copies of robots.txt may be fetched \
             again, and no outage becomes longer"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_reported_once_and_passing_time_is_no_step() {
        let s = Duration::from_secs;
        let clock = Clock::manual(Moment::from_millis(1_790_000_000_000));
        let mut comparison = Comparison { wall: clock.now(), uptime: clock.uptime() };
        let mut look = |clock: &Clock| comparison.step(clock.now(), clock.uptime());
        let day = s(86_400);
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("a second", s(1), None, None),
            ("a slew", s(1), Some(clock.now() + s(3)), None),
            ("a night asleep", s(8 * 3_600), None, None),
            ("forty days forward", s(1), Some(clock.now() + 40 * day), Some("forward")),
            ("and what follows", s(1), None, None),
            ("right again", s(1), Some(clock.now()), Some("back")),
            ("five minutes back", s(1), Some(clock.now() - s(300)), Some("back")),
        ];
        for (name, passes, set, expected) in cases {
            clock.advance(passes);
            if let Some(to) = set {
                clock.set(to);
            }
            let found = look(&clock).map(|step| match step {
                Step::Forward(by) => {
                    assert!(by > NEWS, "{name}: {by:?}");
                    "forward"
                }
                Step::Back(_) => "back",
            });
            assert_eq!(found, expected, "{name}");
        }
        clock.advance(s(1));
        clock.set(clock.now() + s(1));
        assert_eq!(look(&clock), None, "no more than a slew");
        clock.set(clock.now() - s(300));
        assert_eq!(look(&clock), Some(Step::Back(s(300))));
    }
}
