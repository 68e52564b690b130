//! The connections, bounds and settings that all requests to origins share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::counts::Counts;
use super::dial::Dialler;
use super::http2;
use super::idle::IdleBudget;
use super::multiplexer::Multiplexer;
use super::pool::Pool;
use super::signer::Signers;
use super::tls::Tls;
use crawlgate_config::HostPattern;
use crawlgate_policy::generation::Changes;

/// The connections, bounds and settings that all requests share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) dialler: Dialler,
    pub(super) tls: Tls,
    pub(super) pool: Arc<Pool>,
    pub(super) multiplexer: Arc<Multiplexer>,
    pub(super) idle: Arc<IdleBudget>,
    /// Bounds of HTTP/2 connections.
    pub(super) bounds: http2::Bounds,
    pub(super) connect_timeout: Duration,
    pub(super) idle_timeout: Duration,
    /// `[upstream] ftp`
    pub(super) takes_ftp: AtomicBool,
    /// `[upstream] http1_hosts`
    pub(super) http1_hosts: ArcSwap<Vec<HostPattern>>,
    pub(super) sweeping: Once,
    pub(super) counts: Counts,
    pub(super) signers: Signers,
    pub(super) changes: Arc<Changes>,
}
