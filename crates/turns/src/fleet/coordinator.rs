//! The interface to the engine of a fleet.
//!
//! An implementation keeps what the instances share and decides between them; it understands none of it. States and
//! overrides are octets here, which `seal` authenticates. Each call ends within `[fleet] timeout`.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::counts::Counts;
use super::quota::{ChargeQuota, Charged};
pub use super::reservation::EngineTime;
use super::reservation::{GiveBack, OriginBackoff, ReportBackoff, Reserve, Reserved};
use crawlgate_system::clock::Moment;

/// The time for which a name stays with the process that was heard of last. After it, a process that follows a killed one
/// takes the name over.
pub const NAME_HELD: Duration = Duration::from_secs(1);

/// A call in progress.
pub type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, CoordinatorError>> + Send + 'a>>;

/// The reason why a call has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// There is no connection, or no answer came in time. The engine may have carried out the call.
    #[error("the engine does not answer: {0}")]
    Unreachable(Arc<str>),
    /// The engine has refused the call and has not carried it out.
    #[error("the engine refuses: {0}")]
    Refused(Arc<str>),
    /// The engine has lost or may have lost what it knew, so it grants nothing until the next heartbeat.
    #[error("the engine has lost what it knew")]
    Lost,
    /// Another process has the name of this instance.
    #[error(
        "another process of this fleet has the name {0:?}; set [fleet] name to another one at one of them"
    )]
    Duplicate(Arc<str>),
    /// The member of this name has another key.
    #[error(
        "{0:?} of this fleet has another key: give all instances the same [fleet] key_file. A new key is in use once no member \
         has the old one"
    )]
    OtherKey(Arc<str>),
    /// This instance cannot keep what the engine has told.
    #[error("what the engine tells cannot be kept: {0}")]
    NotKept(Arc<str>),
}

impl CoordinatorError {
    /// Returns the error of a call without an answer.
    pub(super) fn unreachable(why: impl fmt::Display) -> CoordinatorError {
        CoordinatorError::Unreachable(why.to_string().into())
    }

    /// Returns the error of a call that the engine refuses.
    pub(super) fn refused(why: impl fmt::Display) -> CoordinatorError {
        CoordinatorError::Refused(why.to_string().into())
    }
}

/// Sign of life of an instance.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat<'a> {
    /// The name of the instance.
    pub name: &'a str,
    /// Tells its process from others, in hexadecimal digits. Its report names it, too.
    pub process: &'a str,
    /// Names its key ([`FleetKey::name`](super::FleetKey::name)). Its report does, too.
    pub key: &'a str,
    /// Its report for the other members.
    pub report: &'a str,
    /// The number of the last news that it knows; `None`: the answer brings none from before.
    pub after: Option<u64>,
    /// The time of silence after which a member is forgotten.
    pub forget_after: Duration,
}

/// The engine's answer to a heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Counts the times that the engine has lost what it knew, as far as this instance has seen them; 1 at first.
    pub generation: u64,
    /// Counts the changes of the overrides.
    pub overrides: u64,
    /// The news after the last known ones.
    pub news: News,
    /// The number of members, this one included.
    pub members: u64,
}

/// The engine's report of itself, and the members.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Observed {
    /// The engine.
    pub engine: EngineReport,
    /// The members.
    pub members: Vec<MemberRow>,
}

/// The report of an engine about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// Its address.
    pub address: String,
    /// Its program and version.
    pub version: String,
    /// Octets of memory in use.
    pub used: u64,
    /// Octets of memory at most; 0: no limit.
    pub limit: u64,
    /// The age of the present generation; `None` before the first one.
    pub generation: Option<Duration>,
    /// The moment by its clock when it answered, if it has one.
    pub time: Option<Moment>,
}

/// A row of the list of members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberRow {
    /// The name of the instance.
    pub name: String,
    /// Its report.
    pub report: String,
    /// The time since its last heartbeat.
    pub silent: Duration,
}

/// Short messages to all instances, in the order in which the engine received them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct News {
    /// The number of the last one.
    pub last: u64,
    /// The messages.
    pub items: Vec<String>,
    /// True if messages between the last known one and these are gone.
    pub has_gap: bool,
}

/// The place of one robots.txt state among those of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StateKey {
    /// The origin, in ASCII and without braces.
    pub origin: String,
    /// Names the identity of the fetch and the settings that the file is read by.
    pub variant: String,
}

/// Orders the states of one origin. A higher one is newer, also after the engine has lost the earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Token(pub u64);

/// A question for the newest state of an origin, or for the right to fetch it.
#[derive(Debug, Clone, Copy)]
pub struct AcquireFetch<'a> {
    /// The state.
    pub key: &'a StateKey,
    /// Names the fetch: unique over all instances, without spaces.
    pub holder: &'a str,
    /// The token of the state that the instance has.
    pub known: Token,
    /// The highest token that the instance has seen at any origin.
    pub highest: Token,
    /// The time for which the lease holds without being renewed.
    pub lease: Duration,
}

/// A state as it lies in the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedState {
    /// Its token.
    pub token: Token,
    /// The state, sealed.
    pub sealed: Vec<u8>,
}

/// The answer to [`AcquireFetch`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchLease {
    /// The fleet has a newer state.
    Newer(SharedState, EngineTime),
    /// The asker fetches. Its state will have the token `token`.
    Acquired {
        /// The token of the state to come.
        token: Token,
        /// The token of the state that the engine has; 0: it has none.
        held: Token,
        /// The engine's time.
        at: EngineTime,
    },
    /// Another fetch is in progress.
    Held {
        /// The holder.
        by: String,
        /// The rest of its lease.
        left: Duration,
    },
}

/// The result of a fetch, for all instances.
#[derive(Debug, Clone, Copy)]
pub struct PublishState<'a> {
    /// The state.
    pub key: &'a StateKey,
    /// The fetch that ends with it.
    pub holder: &'a str,
    /// The token of its lease.
    pub token: Token,
    /// The state, sealed.
    pub sealed: &'a [u8],
    /// The time for which the engine keeps it.
    pub keep: Duration,
}

/// The answer to [`PublishState`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It is the fleet's state now.
    Done,
    /// The fleet has a newer state, so the engine has refused this one.
    Superseded(SharedState, EngineTime),
}

/// The overrides as they lie in the engine: sealed content by identifier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SealedOverrides {
    /// The number of the last change among them.
    pub change: u64,
    /// Those that were added, whether they are removed or not.
    pub added: Vec<(String, Vec<u8>)>,
    /// The removals.
    pub removed: Vec<(String, Vec<u8>)>,
}

/// The engine of a fleet.
pub trait Coordinator: fmt::Debug + Send + Sync + 'static {
    /// Keeps the way to the engine open for as long as it is polled.
    fn keep_connected(self: Arc<Self>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

    /// Tells that an instance lives, and asks what has changed. While another process of its name has been heard of
    /// within [`NAME_HELD`], the answer is [`CoordinatorError::Duplicate`], and that process stays the member. An instance
    /// that comes anew, or with another key than before, is answered [`CoordinatorError::OtherKey`] while another member has
    /// another key, and becomes no member.
    fn heartbeat<'a>(&'a self, beat: Heartbeat<'a>) -> Call<'a, HeartbeatReply>;

    /// Takes an instance out of the members, unless another process has its name by now.
    fn leave<'a>(&'a self, name: &'a str, process: &'a str) -> Call<'a, ()>;

    /// Sends a message to all instances. Each hears it at its next heartbeat.
    fn announce<'a>(&'a self, item: &'a str) -> Call<'a, ()>;

    /// Returns a newer state, or gives the right to fetch one. Asked again by its holder, renews the lease.
    fn acquire_fetch<'a>(&'a self, ask: AcquireFetch<'a>) -> Call<'a, FetchLease>;

    /// Makes a state that of the fleet, and ends the lease. A state older than the fleet's is refused.
    fn publish_state<'a>(&'a self, state: PublishState<'a>) -> Call<'a, Published>;

    /// Ends a lease without a state.
    fn release_fetch<'a>(&'a self, key: &'a StateKey, holder: &'a str) -> Call<'a, ()>;

    /// Puts an override under its identifier, for all instances. Returns the number of the last change of the overrides:
    /// a member that reports this number or a higher one has it. The same content again is no change.
    fn add_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64>;

    /// Puts the removal of an override under its identifier, as [`Coordinator::add_override`] does an addition. Nothing
    /// takes a removal back.
    fn remove_override<'a>(&'a self, id: &'a str, sealed: &'a [u8]) -> Call<'a, u64>;

    /// Returns all overrides and removals.
    fn overrides(&self) -> Call<'_, SealedOverrides>;

    /// Returns the members now.
    fn members(&self) -> Call<'_, Vec<MemberRow>>;

    /// Returns what the engine tells of itself, and the members.
    fn observe(&self) -> Call<'_, Observed> {
        Box::pin(async move {
            Ok(Observed { engine: EngineReport::default(), members: self.members().await? })
        })
    }

    /// Returns the counts of the calls; `None` if they are not counted.
    fn counts(&self) -> Option<&Counts> {
        None
    }

    /// Reserves turns at an origin.
    fn reserve<'a>(&'a self, ask: Reserve<'a>) -> Call<'a, Reserved>;

    /// Gives back a turn that was not used: the next one comes at its time. If another turn was reserved since, nothing
    /// changes.
    fn give_back<'a>(&'a self, turn: GiveBack<'a>) -> Call<'a, ()>;

    /// Enters how an origin has taken a request. Returns the origin's trouble.
    fn report_backoff<'a>(&'a self, report: ReportBackoff<'a>) -> Call<'a, OriginBackoff>;

    /// Keeps the slots of requests under way at an origin, also those that the engine has lost.
    fn renew_slots<'a>(&'a self, origin: &'a str, slots: &'a [String]) -> Call<'a, ()>;

    /// Frees the slot of a request that has ended.
    fn release_slot<'a>(&'a self, origin: &'a str, slot: &'a str) -> Call<'a, ()>;

    /// Takes requests out of a client's quota, and enters what this instance has taken of it.
    fn charge_quota<'a>(&'a self, charge: ChargeQuota<'a>) -> Call<'a, Charged>;
}
