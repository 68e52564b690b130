//! The whole program: every case starts the real gate, scripts an origin, sends octets, and asserts three things: the
//! crawler's answer, the decision log, and the requests that the origin saw.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a test fails by panicking, measures real time, and names what it skips"
)]

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod access;
mod address_policy;
mod authority;
mod balancers;
mod bodies;
mod body_framing;
mod broken_off;
mod bypass;
mod client_credentials;
mod client_programs;
mod client_quotas;
mod clients;
mod collect;
mod configuration;
mod confine;
mod crawl_report;
mod descriptors;
mod evidence;
mod exempt;
mod export;
mod failures;
mod fields;
mod fleet;
mod flight;
mod flood;
mod flush;
mod framing;
mod ftp;
mod full_disk;
mod gone;
mod harness;
mod hostile;
mod http2;
mod identity;
mod interim;
mod kill;
mod life;
mod limits;
mod listener_tls;
mod listeners;
mod log_events;
mod logins;
mod loops;
mod memory;
mod metrics;
mod opaque;
mod outage;
mod overrides;
mod overtaken;
mod pace;
mod pooled;
mod postgres;
mod proof;
mod prove;
mod quorum;
mod report;
mod requests;
mod restart;
mod rotation;
mod run;
mod secrets;
mod server_names;
mod several_logs;
mod ship;
mod signed;
mod silence;
mod soft_404;
mod streaming;
mod strict;
mod targets;
mod telemetry;
mod time_limits;
mod tls_faults;
mod tunnels;
mod uploads;
mod upstream_http2;
mod upstream_http2_breaks;
mod upstream_http2_broken;
mod upstream_http2_hostile;
mod upstream_http2_messages;
mod upstream_http2_retries;
mod upstream_http2_websocket;
mod upstream_proxies;
mod usage;
mod verdicts;
mod witnesses;
