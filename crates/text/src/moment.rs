//! Points in time.

use std::ops::{Add, Sub};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A point in time: milliseconds since the Unix epoch, UTC.
///
/// Arithmetic saturates. A moment that comes from a damaged store or a clock that jumped is a wrong moment, never a
/// panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(u64);

impl Moment {
    /// The moment that is `millis` milliseconds after the Unix epoch.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is in fact later, as after a clock that was set back.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, after: Duration) -> Self {
        Self(self.0.saturating_add(millis(after)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, before: Duration) -> Self {
        Self(self.0.saturating_sub(millis(before)))
    }
}

impl From<SystemTime> for Moment {
    /// A time before 1970 becomes the epoch.
    fn from(time: SystemTime) -> Self {
        Self(time.duration_since(UNIX_EPOCH).map_or(0, millis))
    }
}

impl From<Moment> for SystemTime {
    /// A moment that the platform cannot express becomes the epoch.
    fn from(moment: Moment) -> Self {
        UNIX_EPOCH.checked_add(Duration::from_millis(moment.0)).unwrap_or(UNIX_EPOCH)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let second = Duration::from_secs(1);
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("adds", Moment(500) + second, Moment(1_500)),
            ("subtracts", Moment(1_500) - second, Moment(500)),
            ("stops at the epoch", Moment(500) - second, Moment::default()),
            ("stops at the end of time", Moment(u64::MAX) + second, Moment(u64::MAX)),
            ("an endless duration is the end of time", Moment(1) + Duration::MAX, Moment(u64::MAX)),
        ];
        for (name, got, want) in cases {
            assert_eq!(got, want, "{name}");
        }
    }

    #[test]
    fn a_clock_that_was_set_back_yields_no_age() {
        assert_eq!(Moment(2_000).since(Moment(500)), Duration::from_millis(1_500));
        assert_eq!(Moment(500).since(Moment(2_000)), Duration::ZERO);
    }
}
