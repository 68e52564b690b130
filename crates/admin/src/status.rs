//! The report of a running process about itself.

use serde::{Deserialize, Serialize};

use crawlgate_evidence::ship;
use crawlgate_evidence::witness;
use crawlgate_gate::view;
use crawlgate_origins::identity::Identity;
use crawlgate_origins::state::State;
use crawlgate_text::time_text;

/// The status of a running process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Status {
    /// The version of the process.
    pub version: String,
    /// The process identifier.
    pub pid: u32,
    /// When it started, RFC 3339.
    pub started: String,
    /// The mode: `enforce` or `report`.
    pub mode: String,
    /// Origins in memory.
    pub origins: usize,
    /// Octets of these origins in memory, roughly.
    pub bytes: usize,
    /// The witnesses of the decision log.
    pub witnesses: Vec<WitnessReport>,
    /// The number of witnesses that a witnessed checkpoint has (`[audit] quorum`); null without witnesses.
    pub quorum: Option<usize>,
    /// Records in the newest witnessed checkpoint.
    pub witnessed_size: Option<u64>,
    /// The time by which it was witnessed, by the clocks of the witnesses, RFC 3339.
    pub witnessed_at: Option<String>,
    /// The place that has the decision log, too (`[ship] to`); null without. Boxed: few processes have it.
    pub ship: Option<Box<ShipReport>>,
}

view! {
    /// The result of fetching a robots.txt for one identity.
    #[derive(PartialEq, Eq, Deserialize)]
    pub struct RefreshedState of identity: &Identity, found: &State {
        /// The identity: a product token, or `*`.
        pub identity: String = identity.to_string(),
        /// The state now: `successful`, `unavailable` or `unreachable`.
        pub state: String = found.name().to_owned(),
        /// The reason to treat the origin as one without robots.txt, if it is.
        pub absence: Option<String> = match found {
            State::Unavailable { why, .. } => Some(why.to_string()),
            _ => None,
        },
        /// The reason why the fetch failed, if it did; an earlier copy holds for as long as its state allows.
        pub failure: Option<String> = found.outage().map(|outage| outage.cause.to_string()),
    }

    /// The state of shipping the decision log to another place (`[ship]`).
    #[derive(Default, PartialEq, Eq, Deserialize)]
    pub struct ShipReport of status: ship::Status {
        /// The place.
        pub to: String = status.to,
        /// Records that it has, with a checkpoint over them.
        pub shipped_size: u64 = status.shipped,
        /// The time of that checkpoint, RFC 3339; null without one.
        pub shipped_at: Option<String> = status.shipped_at.map(time_text),
        /// Signed records that it does not have.
        pub pending: u64 = status.behind,
        /// Age of the first checkpoint that it does not have, in seconds; 0 if it has all.
        pub behind_s: u64 = status.behind_for.as_secs(),
        /// Records that were damaged before they were shipped, since the process started: the place has the statement of a gap
        /// instead.
        pub missing: u64 = status.missing,
        /// The time at which a pass came to its end, RFC 3339; null before the first one of this process.
        pub passed_at: Option<String> = status.passed_at.map(time_text),
        /// The reason why the log cannot be shipped at present.
        pub failure: Option<String> = status.failure,
        /// The last reason of this process, also of a failure that is over.
        pub last_failure: Option<String> = status.last_failure.clone().map(|(_, why)| why),
        /// The time of that failure, RFC 3339.
        pub last_failure_at: Option<String> = status.last_failure.map(|(at, _)| time_text(at)),
    }

    /// The state of a witness.
    #[derive(Default, PartialEq, Eq, Deserialize)]
    pub struct WitnessReport of status: witness::Status {
        /// The name in the configuration.
        pub name: String = status.name,
        /// The URL.
        pub url: String = status.url,
        /// The public key.
        pub vkey: String = status.vkey,
        /// Records in the newest checkpoint that the witness has cosigned.
        pub cosigned_size: Option<u64> = status.cosigned.map(|(size, _)| size),
        /// The time of that cosignature by the clock of the witness, RFC 3339.
        pub cosigned_at: Option<String> = status.cosigned.map(|(_, time)| time_text(time)),
        /// True while the newest checkpoint lacks its cosignature.
        pub pending: bool = status.is_pending,
        /// Records in a checkpoint that the witness knows and the store does not have. No checkpoint is signed then.
        pub ahead: Option<u64> = status.ahead,
        /// The reason why the last answer was no cosignature.
        pub failure: Option<String> = status.failure,
    }
}
