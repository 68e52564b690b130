//! The time that retention believes.
//!
//! A drop cannot be undone, and a wall clock may be wrong for a while: set by hand, or by a time server that is broken.
//! So retention believes the wall clock only as far as it agrees with the progress of the log: the time noted last, or
//! the last record's, and the time since by a clock that is never set. If the wall clock is ahead of that, nothing more
//! expires for an hour, in which an operator can read the warning. Then at most a day's records expire in an hour, until
//! retention has caught up.

use std::time::Duration;

use super::HOUR;
use crawlgate_system::clock::{Clock, Moment};

/// A smaller step of the wall clock is believed at once: a time service makes such steps.
const STEP: Duration = Duration::from_secs(120);

/// The longest downtime of the machine that is believed at once.
const DOWNTIME: Duration = Duration::from_secs(86_400);

/// Factor by which retention is faster than time when it catches up: a day in an hour.
const CATCH_UP: u32 = 24;

/// A longer span without any record is passed over when retention catches up: it began with a clock that never was
/// right, as that of a machine without a battery.
const HOLE: Duration = Duration::from_secs(365 * 86_400);

/// Interval between two notes of the same belief.
const NOTE: Duration = Duration::from_secs(300);

/// One reading of all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock.
    pub wall: Moment,
    /// The time since the machine has started.
    pub uptime: Duration,
    /// A number for that start: uptimes of two starts cannot be compared.
    pub boot: u64,
}

impl Reading {
    /// Reads the clocks.
    pub(super) fn of(clock: &Clock) -> Self {
        Self {
            wall: clock.now(),
            uptime: Duration::from_millis(clock.uptime().as_micros() / 1_000),
            boot: clock.boot(),
        }
    }
}

/// The time that retention believed at a reading of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belief {
    /// The believed time, never later than the wall clock.
    pub time: Moment,
    /// The uptime at the reading.
    pub uptime: Duration,
    /// The start of the machine that the uptime counts from.
    pub boot: u64,
    /// The uptime since which the wall clock has been ahead of the log; `None` while they agree.
    pub doubted: Option<Duration>,
    /// The time for which they have agreed since the last downtime, at most an hour.
    pub steady: Duration,
}

/// The facts of a store that retention measures the wall clock by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// The belief that was noted last.
    pub belief: Option<Belief>,
    /// Time of the first record.
    pub first: Option<Moment>,
    /// Time of the last record.
    pub last: Option<Moment>,
}

impl Progress {
    /// Returns the belief at a reading of the clocks. Records expire after `keep`.
    pub(super) fn believe(&self, now: Reading, keep: Option<Duration>) -> Belief {
        let before = self.belief.unwrap_or_else(|| Belief {
            // A store without a note: its last record is all that is known of its time.
            time: self.last.unwrap_or(now.wall).min(now.wall),
            uptime: now.uptime,
            boot: now.boot.wrapping_add(1),
            doubted: None,
            steady: HOUR,
        });
        let first_due = match (self.first, keep) {
            (Some(first), Some(keep)) => Some(first + keep),
            _ => None,
        };
        before.advance(now, first_due)
    }
}

impl Belief {
    fn advance(self, now: Reading, first_due: Option<Moment>) -> Self {
        let is_same_boot = now.boot == self.boot && now.uptime >= self.uptime;
        let passed = if is_same_boot { now.uptime - self.uptime } else { Duration::ZERO };
        let proven = self.time + passed;
        let ahead = now.wall.since(proven);
        let was_down = !is_same_boot && ahead <= DOWNTIME && self.steady >= HOUR;
        let next = Self {
            time: now.wall,
            uptime: now.uptime,
            boot: now.boot,
            doubted: None,
            steady: HOUR.min(self.steady + passed),
        };
        if ahead <= STEP {
            // A clock that was set back, too: what it makes younger is kept.
            return next;
        }
        if was_down {
            return Self { steady: Duration::ZERO, ..next };
        }
        let since = self.doubted.filter(|_| is_same_boot).unwrap_or(now.uptime);
        let time = if now.uptime.saturating_sub(since) >= HOUR {
            let from = first_due.filter(|due| due.since(proven) > HOLE);
            from.unwrap_or(proven) + passed * CATCH_UP
        } else {
            proven
        };
        Self { time: time.min(now.wall), doubted: Some(since), steady: Duration::ZERO, ..next }
    }

    /// Tells whether the store should note this belief in the place of `noted`.
    pub(super) fn should_replace(&self, noted: Option<&Self>) -> bool {
        noted.is_none_or(|noted| {
            noted.boot != self.boot
                || noted.doubted != self.doubted
                || self.uptime.saturating_sub(noted.uptime) >= NOTE
                || self.time < noted.time
        })
    }

    /// Tells whether retention catches up with a wall clock that was doubted for long enough.
    pub(super) fn catches_up(&self) -> bool {
        self.doubted.is_some_and(|since| self.uptime.saturating_sub(since) >= HOUR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const NOON: Moment = Moment::from_millis(1_795_176_000_000);

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Clocks and the belief about them, noted at every look.
    struct World {
        now: Reading,
        progress: Progress,
    }

    impl World {
        fn new() -> Self {
            let now = Reading { wall: NOON, uptime: s(10_000), boot: 7 };
            let mut world = Self {
                now,
                progress: Progress { last: Some(NOON), first: Some(NOON - DAY * 30), belief: None },
            };
            // Past the first hour.
            world.pass(s(4_000));
            world
        }

        /// Lets time pass, with a look every ten seconds; returns the last belief.
        fn pass(&mut self, time: Duration) -> Belief {
            for _ in 0..time.as_secs() / 10 {
                self.now.wall = self.now.wall + s(10);
                self.now.uptime += s(10);
                self.look();
            }
            self.look()
        }

        fn look(&mut self) -> Belief {
            let belief = self.progress.believe(self.now, Some(DAY * 30));
            assert!(belief.time <= self.now.wall);
            self.progress.belief = Some(belief);
            belief
        }

        fn starts_again_after(&mut self, time: Duration) -> Belief {
            self.now.boot += 1;
            self.now.uptime = s(30);
            self.now.wall = self.now.wall + time;
            self.look()
        }
    }

    #[test]
    fn a_clock_that_agrees_is_believed() {
        let mut world = World::new();
        let believed = |world: &World, belief: Belief| {
            assert_eq!(belief.time, world.now.wall);
            assert_eq!(belief.doubted, None);
        };
        let belief = world.pass(DAY);
        believed(&world, belief);
        world.now.wall = world.now.wall + s(100);
        let belief = world.look();
        believed(&world, belief);
        // The process was away, the machine was not.
        world.now.wall = world.now.wall + DAY * 40;
        world.now.uptime += DAY * 40;
        let belief = world.look();
        believed(&world, belief);
        let belief = world.starts_again_after(s(7_200));
        believed(&world, belief);
    }

    #[test]
    fn a_clock_that_jumped_expires_nothing_for_an_hour_and_then_a_day_an_hour() {
        let mut world = World::new();
        let before = world.now.wall;
        world.now.wall = before + DAY * 31;
        let belief = world.look();
        assert_eq!(belief.time, before);
        assert_eq!(belief.doubted, Some(world.now.uptime));
        let belief = world.pass(s(3_590));
        assert_eq!(belief.time, before + s(3_590), "time passes");
        let belief = world.pass(s(3_600));
        assert!(belief.catches_up());
        let (least, most) = (before + DAY, before + DAY + s(3_600 * 2 + 240));
        assert!(belief.time > least && belief.time < most, "{belief:?}");
        let belief = world.pass(DAY * 2);
        assert_eq!((belief.time, belief.doubted), (world.now.wall, None));
    }

    #[test]
    fn a_clock_that_is_right_again_is_believed_at_once() {
        let mut world = World::new();
        let before = world.now.wall;
        world.now.wall = before + DAY * 31;
        world.pass(s(20));
        world.now.wall = before + s(20);
        let belief = world.look();
        assert_eq!((belief.time, belief.doubted), (before + s(20), None));
        // Set back by a year.
        world.now.wall = before - DAY * 365;
        assert_eq!(world.look().time, before - DAY * 365);
    }

    #[test]
    fn restarts_give_a_wrong_clock_no_more_than_one_day() {
        let mut world = World::new();
        let before = world.now.wall;
        let first = world.starts_again_after(DAY - s(60));
        assert_eq!(first.doubted, None, "a day's downtime");
        for _ in 0..20 {
            let belief = world.starts_again_after(DAY - s(60));
            assert!(belief.doubted.is_some());
            assert_eq!(belief.time, first.time);
        }
        assert!(first.time <= before + DAY);
    }

    #[test]
    fn a_clock_that_was_never_right_delays_retention_by_days_and_not_by_years() {
        let mut world = World::new();
        world.progress.belief = None;
        world.progress.first = Some(NOON);
        world.progress.last = Some(Moment::from_millis(4_000));
        world.now.wall = NOON + DAY * 31;
        assert_eq!(world.look().time, Moment::from_millis(4_000));
        let belief = world.pass(s(3_700));
        assert!(belief.time > NOON + DAY * 30, "{belief:?}");
        let belief = world.pass(DAY);
        assert_eq!((belief.time, belief.doubted), (world.now.wall, None));
    }
}
