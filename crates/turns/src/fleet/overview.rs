//! A fleet as commands, the API and the console show it.

use serde::{Deserialize, Serialize};

/// A fleet, as one instance sees it, or as its engine tells a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetView {
    /// The name of the instance that answers; null if a command asked the engine itself.
    pub instance: Option<String>,
    /// The instance's link to the engine; null if a command asked the engine itself.
    pub link: Option<LinkView>,
    /// The engine; null before its first answer.
    pub engine: Option<EngineView>,
    /// The members, by name.
    pub members: Vec<MemberView>,
    /// The instance's counts since its start; null if a command asked the engine itself.
    pub counts: Option<FleetCounts>,
}

/// The link of an instance to the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkView {
    /// `connected`, `doubtful` or `cut_off`.
    pub state: String,
    /// When the link came into this state, RFC 3339.
    pub since: Option<String>,
    /// The time since the last answered heartbeat was sent, in milliseconds; null if none was answered.
    pub heard_ms: Option<u64>,
    /// The time from that heartbeat to its answer, in microseconds.
    pub round_trip_us: Option<u64>,
    /// `[fleet] patience` in milliseconds.
    pub patience_ms: u64,
    /// Times that this instance found the engine without its knowledge, plus one.
    pub generations: u64,
    /// The last change of the overrides that this instance has in force.
    pub overrides: u64,
}

/// The engine of a fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EngineView {
    /// The address of the primary.
    pub address: String,
    /// Its program and version.
    pub version: String,
    /// Octets of memory in use.
    pub memory_used: u64,
    /// Octets of memory at most; null without a limit.
    pub memory_limit: Option<u64>,
    /// The age of the present generation, in milliseconds: the engine has forgotten nothing since. Null before the first.
    pub generation_age_ms: Option<u64>,
    /// The age of this report and of that on the members, in milliseconds.
    pub observed_ms: u64,
    /// The lead of the clock of the instance, or of the command, over the engine's at that time, in milliseconds; negative if it lags.
    pub clock_ahead_ms: Option<i64>,
}

/// A member of a fleet, as it reports itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct MemberView {
    /// Its name.
    pub name: String,
    /// The version of its program; empty if its report cannot be read.
    pub version: String,
    /// When it started, by its clock, RFC 3339; null if it does not say so.
    pub since: Option<String>,
    /// The time since its last heartbeat, in milliseconds.
    pub silent_ms: u64,
    /// The state of its link when it sent that heartbeat.
    pub link: String,
    /// The last change of the overrides that it has in force.
    pub overrides: u64,
    /// The sections of the configuration that differ from those of the instance that answers.
    pub differs: Vec<String>,
}

/// Counts of an instance since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FleetCounts {
    /// Heartbeats without an answer.
    pub heartbeats_failed: u64,
    /// Leases of fetches that it holds now.
    pub leases_held: u64,
    /// Leases of fetches that it was given.
    pub leases_acquired: u64,
    /// Fetches that had lost their lease when they ended.
    pub leases_lost: u64,
    /// Results of fetches that the engine has refused, as it had newer ones.
    pub results_refused: u64,
    /// Turns that it asked for.
    pub turns_asked: u64,
    /// Turns that it was granted.
    pub turns_granted: u64,
    /// Scripts that the engine refused.
    pub scripts_refused: u64,
    /// Scripts without an answer in time.
    pub scripts_unanswered: u64,
    /// States and overrides in the engine that the fleet's key did not make.
    pub unsealed: u64,
}
