//! The engine's time, and spans in its unit.

use std::time::Duration;

/// A moment by the engine's clock, in microseconds. Only the engine compares it with its present time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EngineTime(pub u64);

/// Returns the whole microseconds of a span, at most the largest number.
pub(super) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
