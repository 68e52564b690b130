//! Time as an argument.
//!
//! robots.txt is about days and weeks: the age of a copy and the start of an origin's outage must survive a restart. So
//! rules decide by a [`Moment`], a point of wall-clock time that can be stored and compared, and each function that
//! needs one takes it as an argument. Only this file reads the real clock (clippy refuses it elsewhere); a program
//! owns one [`Clock`], a test owns one that it moves itself.
//!
//! A wall clock can be set. Where a wrong length of time would allow what must be denied, an [`Uptime`] measures the
//! time, which is never set; [`watch`] tells the operator when the wall clock was.

mod watch;

pub use self::watch::watch;
pub use crawlgate_text::Moment;

use std::{
    ops::Add,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// A reading of the clock to measure a short time by, in nanoseconds. The difference of two readings of one clock is
/// the time between them. If the clock is set meanwhile, that one measurement is wrong, but never negative.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(u64);

impl Tick {
    /// The time from `earlier` to `self`; zero if `earlier` is in fact later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

#[cfg(feature = "telemetry")]
impl From<Tick> for SystemTime {
    fn from(tick: Tick) -> Self {
        let since = Duration::from_nanos(tick.0);
        UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
    }
}

/// A reading of the clock that is never set: the time since the machine has started, sleep included, in nanoseconds. It
/// means nothing after a restart and is never written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uptime(u64);

/// Nanoseconds of an uptime's millisecond.
const NANOS_PER_MS: u64 = 1_000_000;

impl Uptime {
    /// Returns the time from `earlier` to `self`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Microseconds since the machine has started.
    #[must_use]
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }

    /// Returns the first whole millisecond that is not earlier.
    #[must_use]
    pub const fn up_to_millis(self) -> Self {
        Self(self.0.div_ceil(NANOS_PER_MS).saturating_mul(NANOS_PER_MS))
    }
}

impl Add<Duration> for Uptime {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(nanos(after)))
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Counts the time that a machine sleeps, which the monotonic clock leaves out.
#[cfg(target_os = "linux")]
const UPTIME: rustix::time::ClockId = rustix::time::ClockId::Boottime;

#[cfg(not(target_os = "linux"))]
const UPTIME: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

/// The source of time: the system, or a test. Clones tell the same time.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(Arc<ManualTime>),
}

/// The time of a manual clock, in milliseconds.
#[derive(Debug)]
struct ManualTime {
    wall: AtomicU64,
    uptime: AtomicU64,
}

impl Clock {
    /// The system's wall clock.
    #[must_use]
    pub const fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`advance`](Self::advance) or [`set`](Self::set) moves it.
    #[must_use]
    pub fn manual(start: Moment) -> Self {
        Self(Source::Manual(Arc::new(ManualTime {
            wall: AtomicU64::new(start.as_millis()),
            uptime: AtomicU64::new(0),
        })))
    }

    /// Returns the present moment.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads real time")]
    pub fn now(&self) -> Moment {
        match &self.0 {
            Source::System => SystemTime::now().into(),
            Source::Manual(hands) => Moment::from_millis(hands.wall.load(Ordering::Relaxed)),
        }
    }

    /// Returns the present moment and the same reading to measure from: both cost as much as one.
    #[must_use]
    #[allow(clippy::disallowed_methods, reason = "the one place that reads real time")]
    pub fn read(&self) -> (Moment, Tick) {
        match &self.0 {
            Source::System => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH);
                let since = since.unwrap_or_default();
                (Moment::default() + since, Tick(nanos(since)))
            }
            Source::Manual(_) => {
                let now = self.now();
                (now, Tick(nanos(Duration::from_millis(now.as_millis()))))
            }
        }
    }

    /// Returns a reading to measure by.
    #[must_use]
    pub fn tick(&self) -> Tick {
        self.read().1
    }

    /// Reads the clock that is never set.
    #[must_use]
    pub fn uptime(&self) -> Uptime {
        match &self.0 {
            Source::System => {
                let time = rustix::time::clock_gettime(UPTIME);
                let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
                let rest = Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default());
                Uptime(nanos(seconds + rest))
            }
            Source::Manual(hands) => {
                let passed = Duration::from_millis(hands.uptime.load(Ordering::Relaxed));
                Uptime(nanos(passed))
            }
        }
    }

    /// Returns a number for the start of the machine that [`uptime`](Self::uptime) counts from. Where the system has
    /// none, the number is 0, as on a manual clock.
    #[must_use]
    pub fn boot(&self) -> u64 {
        const PLACE: &str = "/proc/sys/kernel/random/boot_id";
        let Source::System = &self.0 else { return 0 };
        let Ok(text) = std::fs::read_to_string(PLACE) else {
            return 0;
        };
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        let first = digits.get(..16).unwrap_or_default();
        u64::from_str_radix(first, 16).unwrap_or_default()
    }

    /// Lets time pass on a manual clock and all its clones. The system's clock does not change.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(hands) = &self.0 {
            for hand in [&hands.wall, &hands.uptime] {
                // `update` keeps two threads that advance at once from losing one of the steps.
                let _ = hand.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |now| {
                    Some((Moment::from_millis(now) + by).as_millis())
                });
            }
        }
    }

    /// Sets a manual clock and all its clones, also backwards, while no time passes. The system's clock does not
    /// change.
    pub fn set(&self, to: Moment) {
        if let Source::Manual(hands) = &self.0 {
            hands.wall.store(to.as_millis(), Ordering::Relaxed);
        }
    }

    /// Lets time pass on a manual clock until it shows `to`, and no time where it does already.
    pub fn advance_to(&self, to: Moment) {
        self.advance(to.since(self.now()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uptime_is_rounded_up_and_never_down() {
        for (time, rounded) in [
            (0, 0),
            (1, NANOS_PER_MS),
            (NANOS_PER_MS, NANOS_PER_MS),
            (NANOS_PER_MS + 1, 2 * NANOS_PER_MS),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(Uptime(time).up_to_millis(), Uptime(rounded), "{time}");
        }
    }

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Moment::from_millis(10));
        let clone = clock.clone();
        clock.advance(Duration::from_millis(5));
        assert_eq!(clone.now(), Moment::from_millis(15));
        clone.set(Moment::from_millis(7));
        assert_eq!(clock.now(), Moment::from_millis(7));
    }

    #[test]
    fn the_system_clock_agrees_with_the_system_and_cannot_be_moved() {
        let clock = Clock::system();
        let before = clock.now();
        clock.advance(Duration::from_secs(86_400 * 365));
        let after = clock.now();
        assert!(before > Moment::from_millis(1_700_000_000_000), "later than November 2023");
        assert!(after.since(before) < Duration::from_secs(86_400));
    }

    #[test]
    fn ticks_measure_what_a_manual_clock_moves_and_nothing_backwards() {
        let clock = Clock::manual(Moment::from_millis(1_790_000_000_000));
        let (moment, start) = clock.read();
        assert_eq!(moment, clock.now());
        clock.advance(Duration::from_millis(7));
        assert_eq!(clock.tick().since(start), Duration::from_millis(7));
        assert_eq!(start.since(clock.tick()), Duration::ZERO);
        let clock = Clock::system();
        let (moment, _) = clock.read();
        assert!(clock.now().since(moment) < Duration::from_secs(60));
    }

    #[test]
    fn the_uptime_runs_on_whatever_the_wall_clock_is_set_to() {
        let clock = Clock::manual(Moment::from_millis(1_790_000_000_000));
        let start = clock.uptime();
        clock.set(Moment::from_millis(7));
        assert_eq!(clock.uptime(), start);
        clock.advance(Duration::from_millis(5));
        assert_eq!(clock.now(), Moment::from_millis(12));
        assert_eq!(clock.uptime().since(start), Duration::from_millis(5));
        assert_eq!(start.since(clock.uptime()), Duration::ZERO);
        let clock = Clock::system();
        let start = clock.uptime();
        assert!(clock.uptime() >= start);
        assert!(start.as_micros() > 0);
        assert_eq!(clock.boot(), Clock::system().boot());
        assert!(cfg!(not(target_os = "linux")) || clock.boot() != 0);
    }

    #[test]
    fn moments_and_system_times_convert_both_ways() {
        let moment = Moment::from_millis(1_790_000_000_123);
        assert_eq!(Moment::from(SystemTime::from(moment)), moment);
        assert_eq!(Moment::from(UNIX_EPOCH - Duration::from_secs(1)), Moment::default());
    }
}
