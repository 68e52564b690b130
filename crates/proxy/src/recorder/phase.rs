//! The progress of an exchange, and the error that it is recorded with if it ends there.

use crawlgate_turns::pace::EffectivePace;

/// Error of an exchange that the crawler left before the answer.
const HUNG_UP: &str = "client_closed";

/// Error of an exchange in which the crawler took the answer too slowly or not at all.
const STALLED: &str = "client_stalled";

/// Error of an exchange that was cut off when the proxy stopped.
const CUT_OFF: &str = "proxy_stopped";

/// Progress of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing is asked for, as in a tunnel without an octet. Leaves no record.
    Suspended,
    /// Not answered yet.
    Pending,
    /// At the gate, which may hold the request.
    Held {
        /// The limit that held it before.
        before: Option<EffectivePace>,
    },
    /// The head of the answer is on its way, or the exchange has failed.
    Answered,
    /// The crawler disconnected or broke off.
    Left,
    /// Recorded already; later events change nothing.
    Recorded,
}

impl Phase {
    /// Enters the `next` phase; nothing follows a record.
    pub(super) fn enter(&mut self, next: Phase) {
        if *self != Phase::Recorded {
            *self = next;
        }
    }

    /// Tells whether an exchange that ends in this phase is still to be recorded.
    pub(super) fn leaves_record(self) -> bool {
        !matches!(self, Phase::Suspended | Phase::Recorded)
    }

    /// Returns the error of an exchange that ends in this phase, where `known` is the one entered so far. An exchange
    /// without an answer ends as if the crawler had hung up.
    pub(super) fn error(
        self,
        known: Option<&'static str>,
        is_stalled: bool,
        is_cut_off: impl Fn() -> bool,
    ) -> Option<&'static str> {
        match self {
            Phase::Left | Phase::Answered if is_stalled => Some(STALLED),
            Phase::Pending | Phase::Held { .. } | Phase::Left if is_cut_off() => Some(CUT_OFF),
            Phase::Pending | Phase::Held { .. } => Some(HUNG_UP),
            Phase::Left => known.or(Some(HUNG_UP)),
            Phase::Suspended | Phase::Answered | Phase::Recorded => known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Phase = Phase::Held { before: None };

    #[test]
    fn an_exchange_without_an_answer_ends_as_if_the_crawler_had_hung_up() {
        let known = Some("connection_terminated");
        let [asked, held, answered, left] = [Phase::Pending, HELD, Phase::Answered, Phase::Left];
        for (phase, is_stalled, is_cut_off, without, with) in [
            (asked, false, false, Some(HUNG_UP), Some(HUNG_UP)),
            (held, false, false, Some(HUNG_UP), Some(HUNG_UP)),
            (answered, false, false, None, known),
            (left, false, false, Some(HUNG_UP), known),
            (asked, true, false, Some(HUNG_UP), Some(HUNG_UP)),
            (answered, true, false, Some(STALLED), Some(STALLED)),
            (left, true, false, Some(STALLED), Some(STALLED)),
            (asked, false, true, Some(CUT_OFF), Some(CUT_OFF)),
            (held, false, true, Some(CUT_OFF), Some(CUT_OFF)),
            (answered, false, true, None, known),
            (left, false, true, Some(CUT_OFF), Some(CUT_OFF)),
            (left, true, true, Some(STALLED), Some(STALLED)),
            (Phase::Recorded, false, false, None, known),
        ] {
            let error = |entered| phase.error(entered, is_stalled, || is_cut_off);
            let name = format!("{phase:?}, stalled {is_stalled}, cut off {is_cut_off}");
            assert_eq!((error(None), error(known)), (without, with), "{name}");
        }
    }

    #[test]
    fn an_exchange_is_recorded_once() {
        for (phase, leaves_record) in [
            (Phase::Suspended, false),
            (Phase::Pending, true),
            (HELD, true),
            (Phase::Answered, true),
            (Phase::Left, true),
            (Phase::Recorded, false),
        ] {
            assert_eq!(phase.leaves_record(), leaves_record, "{phase:?}");
            let mut recorded = Phase::Recorded;
            recorded.enter(phase);
            assert_eq!(recorded, Phase::Recorded, "{phase:?} after the record");
            let mut asked = Phase::Pending;
            asked.enter(phase);
            assert_eq!(asked, phase);
        }
    }
}
