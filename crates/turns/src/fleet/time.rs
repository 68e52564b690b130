//! The engine's time.

/// A moment by the engine's clock, in microseconds. Only the engine compares it with its present time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EngineTime(pub u64);
