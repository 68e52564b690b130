//! crawlgate: a forward proxy that makes every crawler keep to robots.txt.
//!
//! A crawler in any language points `http_proxy` and `https_proxy` here. crawlgate judges each request by the
//! robots.txt of its origin (scheme, host, port). A disallowed request is answered 403 and never reaches the origin,
//! any other is forwarded as it is, and each denial is recorded with the robots.txt that it rests on, so that it can be
//! repeated and proven.
//!
//! # Principles
//!
//! 1. **No proof, no send; no stale proof either.** [`Egress::send`](crawlgate_egress::Egress::send) takes a [`Permit`](crawlgate_policy::Permit) that only
//!    [`policy`](crawlgate_policy) makes, and sends by it only while it is [`Current`](crawlgate_policy::Current): a request is judged again when settings,
//!    overrides, clients or a robots.txt have changed. The judged request is the one that is sent. The body of its
//!    response passes by a [`Release`](crawlgate_policy::usage::Release), which only [`policy`](crawlgate_policy) makes from the head of the response.
//! 2. **Pure core, IO around it.** [`rep`](crawlgate_robots) (the protocol), [`state`](crawlgate_origins::state) (the error-state machine),
//!    [`access`](crawlgate_origins::access), [`usage`](crawlgate_usage) (preferences), [`ftp`](crawlgate_ftp) (names, commands, replies), [`policy`](crawlgate_policy) and [`tlog`](crawlgate_tlog) (Merkle
//!    tree, checkpoints, proofs) know no sockets, clocks or logs.
//! 3. **One path.** Plain requests, intercepted ones and tunnels ask the same [`gate`](crawlgate_gate) and leave through the same exit,
//!    which records each exchange once, even if it fails or the crawler hangs up.
//! 4. **The answer names the rule that decided.** One [`Decision`](crawlgate_policy::Decision) feeds the response, the record and the
//!    summary, so they cannot disagree; [`audit::replay`](crawlgate_evidence::replay) derives it again from the record, by the same code, and
//!    [`audit::prove`](crawlgate_evidence::prove) writes a file ([`audit::bundle`](crawlgate_evidence::bundle)) that proves it to strangers.
//! 5. **Time is an argument.** Only [`clock`](crawlgate_system::clock) reads it. Durations that a change of the wall
//!    clock must not distort are measured by a clock that is never set.
//!
//! # One request's way
//!
//! 1. `proxy::server` accepts the connection through `proxy::listener` and takes a connection slot (`proxy::limits`).
//! 2. `proxy::checked_stream` passes the octets that `proxy::framing` finds well-formed to hyper.
//! 3. `proxy::exchange` opens the exchange, whose steps are types of `proxy::recorder`, and takes the settings for all of it;
//!    `proxy::admission` identifies the [`client`](crawlgate_turns::client) and the [`agent`](crawlgate_policy::agent).
//! 4. `proxy::target` reads the request target, once.
//! 5. [`gate::Gate::clear`](crawlgate_gate::Gate::clear) checks the [address policy](crawlgate_policy::address_policy), the identity requirements and
//!    [`overrides`](crawlgate_policy::overrides); an override needs no robots.txt.
//! 6. [`cache`](crawlgate_gate::cache) gives the state of the origin for the crawler's [`identity`](crawlgate_origins::identity). It asks the [`store`](crawlgate_store) and fetches
//!    if nothing usable is known.
//! 7. [`decide`](crawlgate_policy::decide) decides; where tdmrep.json counts, [`cache`](crawlgate_gate::cache) gives its state, and it decides again. Then the
//!    client's quota and the origin's [`pace`](crawlgate_turns::pace) may hold or refuse the request.
//! 8. `proxy::forward` and `proxy::upstream` send the request through [`egress`](crawlgate_egress), or `proxy::respond` refuses it.
//!    `egress::ftp` makes an HTTP response of what an FTP server answers.
//! 9. [`usage`](crawlgate_policy::usage) judges what the head of the response says of use, and releases its body. `proxy::body` passes the
//!    response on and counts its octets.
//! 10. The exchange is dropped in whatever step it ends: `proxy::recorder` gives the record to [`audit`](crawlgate_evidence), which writes it into the [`store`](crawlgate_store), after the robots.txt that it
//!     rests on.
//!
//! On HTTP/2, `proxy::http2` takes the place of step 2: each stream enters at step 3.
//!
//! A CONNECT goes through `proxy::connect`: its TLS ends here, with a leaf of [`ca`](crawlgate_ca), and the requests inside begin again
//! at step 2. Opaque tunnels and WebSockets go through `proxy::relay`. Other proxies ask through `proxy::decide`, by the
//! same gate and the same exit. One answer asks no gate: the self-test, at a host that exists nowhere else.
//!
//! The admin side ([`admin::http`](crawlgate_admin::http)) has a separate listener and shares with a request's way only counts, the store
//! and one feed of decisions. Each room counts its own events; [`metrics`](crawlgate_system::metrics) holds the instruments.
//!
//! Several instances act as one gate through a [`fleet`](crawlgate_turns::fleet): [`gate`](crawlgate_gate) asks for the state of its link first, [`cache`](crawlgate_gate::cache) fetches
//! under a lease that all instances share, [`pace`](crawlgate_turns::pace) reserves turns, and [`override_sync`](crawlgate_proxy::override_sync) takes over the
//! overrides of others.
//!
//! # Reading order
//!
//! From the leaves up. Each crate names in its Cargo.toml what it may know; the first nine are pure.
//!
//! | crate | what it is |
//! |---|---|
//! | [`crawlgate_robots`] | the Robots Exclusion Protocol: octets in, a verdict and its rule out |
//! | [`crawlgate_text`] | what records are written with: points in time, identifiers, JSON |
//! | [`crawlgate_usage`] | what sites say of the use of their content |
//! | [`crawlgate_ftp`] | commands, replies, listings, paths |
//! | [`crawlgate_origins`] | what is known of an origin: answers to a fetch, error states |
//! | [`crawlgate_policy`] | known facts become one decision, and its permit |
//! | [`crawlgate_tlog`] | the Merkle tree of the log, checkpoints, proofs |
//! | [`crawlgate_record`] | a decision as octets, and its line |
//! | [`crawlgate_block`] | entries in columns, as the store keeps them |
//! | [`crawlgate_system`] | the clock, files that are replaced as a whole, metrics |
//! | [`crawlgate_signing`] | Web Bot Auth |
//! | [`crawlgate_config`] | a file and variables become checked values |
//! | [`crawlgate_ca`] | the local certificate authority |
//! | [`crawlgate_turns`] | who may go now: clients, pace, fleets |
//! | [`crawlgate_store`] | origins, robots.txt and the log in SQLite |
//! | [`crawlgate_net`] | connections and their octets, on all sides |
//! | [`crawlgate_trust`] | the roots that origins are verified by, and files of them for crawlers |
//! | [`crawlgate_egress`] | the only way out: names, connections, HTTP/1.1, HTTP/2, FTP |
//! | [`crawlgate_evidence`] | the log of decisions: written, proven, exported, reported, shipped, signed by witnesses |
//! | [`crawlgate_gate`] | what is remembered of each origin, and the judgement by it; explanations |
//! | [`crawlgate_proxy`] | the forward proxy: listeners, exchanges, tunnels, telemetry |
//! | [`crawlgate_admin`] | the HTTP API, the console, the socket |
//! | [`crawlgate_cli`] | the commands, and the service that `serve` and `run` start |
//!
//! Each crate imports only crates before it: Cargo holds that, and `tests/layering` the order inside them.
//!
//! # Departures from a textbook
//!
//! - hyper parses requests, but leniently where RFC 9112 lets a recipient be; `proxy::framing` reads each head first,
//!   strictly. A request that it refuses is answered in its turn through the same exit (see `proxy::checked_stream`).
//! - The pools of upstream connections are ours (`egress::pool`, `egress::multiplexer`): hyper-util's takes a microsecond
//!   more for each request and cannot tell whether a lost request may be sent again. HTTP/2 to origins is the `h2` crate,
//!   without hyper's client (`egress::http2` has the reasons).
//! - The store is asked for an origin once, at its first request, and is written by one thread behind a queue: no
//!   request to a known origin waits for a disk, unless `[audit] durability` is `strict`.
//! - The transparency log is ours ([`tlog`](crawlgate_tlog)): the crates for it keep the whole tree in memory, or bring a second
//!   cryptographic provider. Other programs verify its output in the tests.
//! - [`Origin`](crawlgate_robots::Origin) leaves hosts of unusual spelling to the `url` crate; the rest of [`rep`](crawlgate_robots) uses only the standard
//!   library and `memchr`.
