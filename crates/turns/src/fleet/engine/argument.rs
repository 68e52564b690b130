//! Arguments of the engine's Lua scripts: octets or numbers.

use redis::Cmd;

use crate::history;

/// An argument of a script.
#[derive(Debug, Clone, Copy)]
pub(super) enum Argument<'a> {
    Octets(&'a [u8]),
    Number(u64),
}

impl Argument<'_> {
    /// Appends the argument to a command.
    pub(super) fn write(self, command: &mut Cmd) {
        match self {
            Argument::Octets(octets) => command.arg(octets),
            Argument::Number(number) => command.arg(number),
        };
    }
}

impl<'a> From<&'a str> for Argument<'a> {
    fn from(text: &'a str) -> Self {
        Argument::Octets(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Argument<'a> {
    fn from(octets: &'a [u8]) -> Self {
        Argument::Octets(octets)
    }
}

impl From<u64> for Argument<'_> {
    fn from(number: u64) -> Self {
        Argument::Number(number)
    }
}

/// Returns whole milliseconds, at least one: scripts give them as lives of keys, which are positive.
pub(super) fn millis(span: std::time::Duration) -> Argument<'static> {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    Argument::Number(millis.max(1))
}

/// Returns whole microseconds.
pub(super) fn micros(span: std::time::Duration) -> Argument<'static> {
    Argument::Number(history::micros(span))
}
