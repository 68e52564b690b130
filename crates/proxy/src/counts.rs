//! Counts of the proxy's exchanges, and of the time they are held.

mod usage;

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Version;

use self::usage::UsageCounts;
use crawlgate_config::Mode;
use crawlgate_policy::{Decision, Reason};
use crawlgate_system::clock::{Clock, Tick};
use crawlgate_system::metrics::{Counters, DurationHistogram, Gauge, GaugeGuard, Registry, Unit};

/// The versions of HTTP, as records name them.
const VERSIONS: [&str; 3] = ["1.0", "1.1", "2"];

fn place_of(version: Version) -> usize {
    match version {
        Version::HTTP_10 => 0,
        Version::HTTP_2 => 2,
        _ => 1,
    }
}

/// Returns a version as records name it.
pub fn version_name(version: Version) -> &'static str {
    VERSIONS.get(place_of(version)).copied().unwrap_or_default()
}

/// Result of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handshake {
    /// A TLS session.
    Done,
    /// The crawler does not trust the local CA.
    Distrusted,
    /// Any other failure.
    Failed,
}

/// The end of an HTTP/2 connection with a crawler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Http2End {
    /// In order, or because the crawler has gone.
    Closed,
    /// The crawler broke the protocol.
    Protocol,
    /// The crawler reset too many streams.
    Resets,
    /// The crawler sent too many frames that are no part of a request.
    Frames,
    /// The crawler did not end a head in time.
    Slow,
}

impl Http2End {
    /// Tells a crawler that has gone from one that broke the protocol.
    pub fn of(error: &h2::Error) -> Http2End {
        if error.is_io() || error.is_remote() { Http2End::Closed } else { Http2End::Protocol }
    }
}

/// The proxy's metrics.
#[derive(Debug, Clone)]
pub struct Counts {
    /// By mode, then by reason.
    decisions: Counters,
    bytes: Counters,
    handshakes: Counters,
    http2_ends: Counters,
    versions: Counters,
    tunnels: Gauge,
    held: Gauge,
    holds: DurationHistogram,
    added: DurationHistogram,
    usage: UsageCounts,
}

impl Default for Counts {
    fn default() -> Counts {
        let kinds = [Mode::Enforce, Mode::Report].into_iter().flat_map(|mode| {
            Reason::ALL.into_iter().map(move |reason| {
                vec![
                    ("verdict", reason.verdict().as_str()),
                    ("reason", reason.as_str()),
                    ("mode", mode.as_str()),
                ]
            })
        });
        Counts {
            decisions: Counters::of(kinds),
            bytes: Counters::by("direction", &["upstream", "downstream"]),
            handshakes: Counters::by("result", &["done", "distrusted", "failed"]),
            http2_ends: Counters::by(
                "end",
                &["closed", "protocol_error", "too_many_resets", "too_many_frames", "slow_head"],
            ),
            versions: Counters::by("version", &VERSIONS),
            tunnels: Gauge::default(),
            held: Gauge::default(),
            // From a millisecond to eight minutes.
            holds: DurationHistogram::between(-10..10),
            // From two microseconds to a second.
            added: DurationHistogram::between(-19..1),
            usage: UsageCounts::default(),
        }
    }
}

impl Counts {
    /// Counts an exchange that has ended.
    pub fn exchanged(&self, decision: &Decision, octets_in: Option<&AtomicU64>, octets_out: u64) {
        let mode = match decision.mode {
            Mode::Enforce => 0,
            Mode::Report => Reason::ALL.len(),
        };
        self.decisions.add(mode + decision.reason.place(), 1);
        let octets_in = octets_in.map_or(0, |octets| octets.load(Ordering::Relaxed));
        self.carried(octets_in, octets_out);
        if let Some(usage) = &decision.usage {
            self.usage.exchanged(decision, usage);
        }
    }

    /// Counts octets of bodies.
    pub fn carried(&self, octets_in: u64, octets_out: u64) {
        self.bytes.add(0, octets_in);
        self.bytes.add(1, octets_out);
    }

    /// Counts a handshake with a crawler that has ended.
    pub fn shook(&self, handshake: Handshake) {
        self.handshakes.add(handshake as usize, 1);
    }

    /// Counts an HTTP/2 connection with a crawler that has ended.
    pub fn http2_ended(&self, end: Http2End) {
        self.http2_ends.add(end as usize, 1);
    }

    /// Counts a request that came by this version of HTTP, and returns the version's name.
    pub fn came_by(&self, version: Version) -> &'static str {
        self.versions.add(place_of(version), 1);
        version_name(version)
    }

    /// Counts an open tunnel or WebSocket until the guard is dropped.
    pub fn tunnelling(&self) -> GaugeGuard {
        self.tunnels.raise()
    }

    /// Observes the time from a request's head to its departure for the origin, without waits.
    pub fn added(&self, time: Duration) {
        self.added.observe(time);
    }

    /// Runs a future that may have to wait, and returns how long it did. A future that never waits reads no clock and
    /// is not counted. The caller pins the future: passed by value, a large one would be kept and moved twice.
    pub async fn holding<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        clock: &Clock,
    ) -> (F::Output, Duration) {
        let mut held = None;
        let mut waited = Duration::ZERO;
        let mut since: Option<Tick> = None;
        let output = poll_fn(|cx| {
            if let Some(since) = since.take() {
                waited += clock.tick().since(since);
            }
            let poll = future.as_mut().poll(cx);
            if poll.is_pending() {
                since = Some(clock.tick());
                held.get_or_insert_with(|| self.held.raise());
            }
            poll
        })
        .await;
        if held.is_some() {
            self.holds.observe(waited);
        }
        (output, waited)
    }

    /// Registers all of them.
    pub fn register(&self, registry: &mut Registry) {
        let Counts {
            decisions,
            bytes,
            handshakes,
            http2_ends,
            versions,
            tunnels,
            held,
            holds,
            added,
            usage,
        } = self.clone();
        usage.register(registry);
        registry.register(
            "crawlgate_decisions",
            "Exchanges that have ended, by what was decided, why, and whether it was enforced or only reported",
            decisions,
        );
        registry.register(
            "crawlgate_bytes",
            "Octets of bodies passed on, to origins (upstream) and to crawlers (downstream), counted as exchanges end",
            bytes,
        );
        registry.register(
            "crawlgate_downstream_handshakes",
            "TLS handshakes with crawlers, inside tunnels and at listeners, by how they ended; distrusted: the crawler does not trust the local CA",
            handshakes,
        );
        registry.register(
            "crawlgate_downstream_http2_connections",
            "HTTP/2 connections with crawlers that have ended, by how; protocol_error: the crawler broke the protocol; too_many_resets: more than [limits] http2_resets; too_many_frames: more than http2_control_frames; slow_head: longer than header_timeout",
            http2_ends,
        );
        registry.register(
            "crawlgate_downstream_requests",
            "Requests from crawlers, by the version of HTTP that they came by",
            versions,
        );
        registry.register(
            "crawlgate_tunnels",
            "Open tunnels that are not looked into, and WebSockets",
            tunnels,
        );
        registry.register(
            "crawlgate_held_requests",
            "Requests that wait for a robots.txt, for their turn at an origin, or for room in the decision log",
            held,
        );
        registry.register_with_unit(
            "crawlgate_hold",
            "How long requests were held that had to wait",
            Unit::Seconds,
            holds,
        );
        registry.register_with_unit(
            "crawlgate_added_latency",
            "Time from a request's head to its departure for the origin, without the time it was held",
            Unit::Seconds,
            added,
        );
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crawlgate_system::clock::Moment;

    #[test]
    fn decisions_are_counted_under_their_own_labels() {
        for mode in [Mode::Enforce, Mode::Report] {
            for reason in Reason::ALL {
                let counts = Counts::default();
                let mut decision = Decision::bare(reason, Moment::default());
                decision.mode = mode;
                counts.exchanged(&decision, Some(&AtomicU64::new(5)), 7);
                let mut registry = Registry::default();
                counts.register(&mut registry);
                let text = crawlgate_system::metrics::exposition::Format::Text.render(&registry);
                let text = String::from_utf8(text.expect("text")).expect("UTF-8");
                let expected = format!(
                    "crawlgate_decisions_total{{verdict=\"{}\",reason=\"{}\",mode=\"{}\"}} 1",
                    reason.verdict().as_str(),
                    reason.as_str(),
                    mode.as_str()
                );
                let counted: Vec<&str> = text
                    .lines()
                    .filter(|line| line.starts_with("crawlgate_decisions") && !line.ends_with(" 0"))
                    .collect();
                assert_eq!(counted, [expected]);
                assert!(text.contains("{direction=\"upstream\"} 5\n"), "{text}");
                assert!(text.contains("{direction=\"downstream\"} 7\n"), "{text}");
            }
        }
    }

    #[tokio::test]
    async fn only_the_time_that_something_waits_counts_as_held() {
        let clock = Clock::manual(Moment::from_millis(1_000));
        let counts = Counts::default();
        let (output, waited) = counts.holding(pin!(async { 1 }), &clock).await;
        assert_eq!((output, waited), (1, Duration::ZERO));
        assert_eq!(counts.holds.count(), 0, "it did not wait");

        let (sender, receiver) = tokio::sync::oneshot::channel::<u8>();
        let waits = async {
            // Work, not waiting.
            clock.advance(Duration::from_millis(3));
            let output = receiver.await;
            clock.advance(Duration::from_millis(5));
            output
        };
        let waits = pin!(waits);
        let mut held = Box::pin(counts.holding(waits, &clock));
        let polled = poll_fn(|cx| Poll::Ready(held.as_mut().poll(cx).is_pending())).await;
        assert!(polled);
        assert_eq!(counts.held.now(), 1);
        clock.advance(Duration::from_millis(40));
        sender.send(2).expect("it waits");
        assert_eq!(held.await, (Ok(2), Duration::from_millis(40)));
        assert_eq!((counts.held.now(), counts.holds.count()), (0, 1));
    }

    #[tokio::test]
    async fn a_request_that_hangs_up_is_not_held_any_more() {
        let clock = Clock::manual(Moment::from_millis(1_000));
        let counts = Counts::default();
        let waits = pin!(std::future::pending::<()>());
        let mut held = Box::pin(counts.holding(waits, &clock));
        poll_fn(|cx| Poll::Ready(held.as_mut().poll(cx).is_pending())).await;
        assert_eq!(counts.held.now(), 1);
        drop(held);
        assert_eq!(counts.held.now(), 0);
    }
}
