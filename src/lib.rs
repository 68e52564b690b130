//! crawlgate: a forward proxy that makes every crawler keep to robots.txt.
//!
//! A crawler in any language points `http_proxy` and `https_proxy` here. crawlgate judges each request by the
//! robots.txt of its origin (scheme, host, port). A disallowed request is answered 403 and never reaches the origin,
//! any other is forwarded as it is, and each denial is recorded with the robots.txt that it rests on, so that it can be
//! repeated and proven.
//!
//! # Principles
//!
//! 1. **No proof, no send; no stale proof either.** [`egress::Egress::send`] takes a [`policy::Permit`] that only
//!    [`policy`] makes, and sends by it only while it is [`policy::Current`]: a request is judged again when settings,
//!    overrides, clients or a robots.txt have changed. The judged request is the one that is sent.
//! 2. **Pure core, IO around it.** [`rep`] (the protocol), [`robots::state`] (the error-state machine),
//!    [`robots::access`] and [`policy`] know no sockets, clocks or logs.
//! 3. **One path.** Plain requests, intercepted ones and tunnels ask the same [`gate`] and leave through the same exit,
//!    which records each exchange once, even if it fails or the crawler hangs up.
//! 4. **The answer names the rule that decided.** One [`policy::Decision`] feeds the response, the record and the
//!    summary, so they cannot disagree; [`audit::replay`] derives it again from the record, by the same code.
//! 5. **Time is an argument.** [`clock`] alone reads it. Durations that a change of the wall clock must not distort are
//!    measured by a clock that is never set.
//!
//! # One request's way
//!
//! `proxy::server` accepts through `proxy::listener` and takes a connection slot (`proxy::limits`) → `proxy::checked_stream`
//! passes octets that `proxy::framing` finds well-formed → `proxy::exchange` opens the exchange recorder, identifies
//! the [`client`] and the [`agent`] → `proxy::target` reads the request target, once → [`gate::Gate::clear`] asks the
//! address policy of [`egress`], the identity requirements, then [`policy::overrides`] (an override needs no
//! robots.txt), then [`cache`] for the state of the origin and the crawler's [`robots::identity`], which
//! asks the [`store`] and fetches if nothing usable is known, then [`policy::decide`], the client's quota, then
//! [`pace`] → `proxy::fields` and `proxy::upstream` forward through [`egress`], or `proxy::respond` refuses →
//! `proxy::recorder` gives the record to [`audit`], which writes it into the [`store`], after the robots.txt that it
//! rests on. A CONNECT goes through `proxy::connect`: its TLS ends here, with a leaf of [`ca`], and the requests inside
//! begin again at `proxy::checked_stream`; opaque tunnels and WebSockets go through `proxy::relay`. Other proxies ask through
//! `proxy::decide`, by the same gate and the same exit. One answer asks no gate: the self-test, at a host that exists
//! nowhere else.
//!
//! The admin side ([`admin::http`]) has a listener of its own and shares with a request's way only counts, the store
//! and one feed of decisions. Each module counts its own events; [`metrics`] holds the instruments.
//!
//! # Reading order
//!
//! [`clock`] · [`descriptors`] · `gcra` · [`metrics`] · [`rep`] · [`config`] · [`robots::access`], [`robots::reach`],
//! [`robots::state`] · [`agent`] · [`client`] · [`policy`] · [`trust`], [`egress`] · [`store`], [`store::persist`] ·
//! [`audit`] · [`robots::identity`], [`cache::fetch`], [`cache`] · [`pace`] · [`gate`] · [`ca`] · [`proxy`]
//! · [`admin`] · [`audit::replay`], [`audit::verify`] · [`explain`] · [`telemetry`] · [`cli`]. Some arrows point back,
//! on purpose: [`egress`] fetches a robots.txt by a permit that only [`cache::fetch`] can issue, as only [`policy`]
//! can issue one for a page; [`policy`] names the part of the address policy of [`egress`] that prohibits an origin;
//! and [`config`] holds [`policy::overrides::Override`], as some overrides stand in the file.
//!
//! # Departures from a textbook
//!
//! - hyper parses requests, but leniently where RFC 9112 lets a recipient be; `proxy::framing` reads each head first,
//!   strictly. A request that it refuses is answered in its turn through the same exit (see `proxy::checked_stream`).
//! - The pool of upstream connections is ours (`egress::pool`): hyper-util's takes a microsecond more for each request
//!   and cannot tell whether a lost request may be sent again.
//! - The store is asked for an origin once, at its first request, and is written by one thread behind a queue: no
//!   request to a known origin waits for a disk, unless `[audit] durability` is `strict`.
//! - [`rep::Origin`] leaves hosts of unusual spelling to the `url` crate; the rest of [`rep`] uses only the standard
//!   library and `memchr`.

pub mod admin;
pub mod agent;
pub mod audit;
pub mod ca;
pub mod cache;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod descriptors;
pub mod egress;
pub mod explain;
pub mod gate;
mod gcra;
pub mod metrics;
pub mod pace;
pub mod policy;
pub mod proxy;
pub mod rep;
pub mod robots;
pub mod socket;
pub mod store;
pub mod telemetry;
pub mod text;
pub mod trust;
