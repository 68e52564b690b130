//! The delay before something that failed is tried again.

use std::hash::{BuildHasher as _, RandomState};
use std::time::Duration;

/// Returns the delay after `attempt` earlier failures: it doubles from `first` up to `longest`, and varies by half, so that
/// processes that failed together do not come back together.
pub fn delay(attempt: u32, first: Duration, longest: Duration) -> Duration {
    let whole = first.saturating_mul(1 << attempt.min(16)).min(longest);
    let random = RandomState::new().hash_one(attempt) >> 11;
    whole.mul_f64(0.5 + 0.5 * (random as f64 / (1_u64 << 53) as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_bound_and_differ() {
        let second = Duration::from_secs(1);
        for (longest, attempt, whole) in [
            (600, 0, 1),
            (600, 1, 2),
            (600, 5, 32),
            (600, 9, 512),
            (600, 10, 600),
            (600, u32::MAX, 600),
            (60, 0, 1),
            (60, 1, 2),
            (60, 5, 32),
            (60, 6, 60),
            (60, u32::MAX, 60),
        ] {
            let whole = second * whole;
            for _ in 0..100 {
                let delay = delay(attempt, second, second * longest);
                assert!((whole / 2..=whole).contains(&delay), "{attempt}: {delay:?}");
            }
        }
        let some: std::collections::HashSet<_> =
            (0..20).map(|_| delay(10, second, second * 600)).collect();
        assert!(some.len() > 1);
    }
}
