//! Any case: made-up files, states, settings, overrides and requests.

use crawlgate_config::{Finally, Mode};
use crawlgate_origins::access::tls_fault::TlsFault;
use crawlgate_origins::access::{Absence, Cause};
use crawlgate_origins::state::{Fresh, Outage, State};
use crawlgate_policy::overrides::{Action, Override};
use crawlgate_policy::settings::{PolicySettings, Unreachable};
use crawlgate_system::clock::Moment;
use proptest::prelude::*;

use super::case::{Case, MINUTE, NOON, asserted, snapshot, terms};

prop_compose! {
    fn a_line()(
        field in prop::sample::select(vec!["User-agent", "Disallow", "Allow", "dissalow", "useragent", "Crawl-delay"]),
        separator in prop::sample::select(vec![": ", ":", " "]),
        value in prop::sample::select(vec!["*", "ExampleBot", "OtherBot", "ExampleBot-Image", "/", "", "/a", "/a/*", "/*.gif$", "/b?", "/%61", "/private", "/a/index.html", "#x", "/a%2Fb", "//b"]),
        end in prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n"]),
    ) -> String {
        format!("{field}{separator}{value}{end}")
    }
}

prop_compose! {
    fn any_terms()(
        lenient: bool,
        short: bool,
        path_guard: bool,
        disallow_for in 0_u64..5,
        last_good_until in prop::option::of(0_u64..8),
        finally in prop::sample::select(vec![Finally::Allow, Finally::Reachable]),
    ) -> PolicySettings {
        PolicySettings {
            lenient,
            // Below any configurable limit, so that files are cut.
            size_limit: if short { 100 } else { 512_000 },
            path_guard,
            unreachable: Unreachable {
                disallow_for_ms: disallow_for * 60_000,
                last_good_until_ms: last_good_until.map(|minutes| minutes * 60_000),
                finally,
            },
            ..terms()
        }
    }
}

prop_compose! {
    fn an_outage()(
        cause in prop::sample::select(vec![Cause::Status(503), Cause::Dns, Cause::Redirect(304), Cause::Timeout, Cause::Encoding(None), Cause::from(TlsFault::Alert(40))]),
        since in 0_u32..10,
        length in prop::option::of(0_u32..10),
        next in 0_u32..10,
    ) -> Outage {
        let since = NOON - MINUTE * since;
        let last_failure = length.map(|length| since + MINUTE * length);
        Outage { cause, since, last_failure, last_attempt: last_failure.unwrap_or(since), attempts: 2, next_attempt: NOON + MINUTE * next - MINUTE * 5 }
    }
}

fn any_state(terms: PolicySettings) -> impl Strategy<Value = (PolicySettings, State)> {
    let text = prop::collection::vec(a_line(), 0..12).prop_map(|lines| lines.concat());
    (0..4, text, prop::option::of(an_outage()), an_outage(), any::<bool>(), -2_i64..3).prop_map(
        move |(kind, text, outage, last, has_copy, fresh)| {
            let until = Moment::from_millis(NOON.as_millis().saturating_add_signed(fresh));
            let fresh = Fresh { refresh_from: until, until };
            let copy = || snapshot(&text, &terms, NOON - MINUTE * 30);
            let state = match kind {
                0 => State::NeverFetched,
                1 => State::Successful { snapshot: copy(), fresh, outage },
                2 => State::Unavailable {
                    why: Absence::Status(404),
                    fetched: NOON - MINUTE,
                    fresh,
                    outage,
                },
                _ => State::Unreachable { outage: last, last_good: has_copy.then(copy) },
            };
            (terms.clone(), state)
        },
    )
}

prop_compose! {
    fn an_override()(
        pattern in prop::sample::select(vec!["/", "/a", "/private", "/*.gif$", "*"]),
        allow: bool,
        until in prop::option::of(-1_i64..3),
    ) -> Override {
        let action = if allow { Action::Allow } else { Action::Deny };
        let until = until.map(|ms| Moment::from_millis(NOON.as_millis().saturating_add_signed(ms)));
        asserted(pattern, action, until)
    }
}

/// Returns a strategy for cases.
pub fn a_case() -> impl Strategy<Value = Case> {
    let paths = vec![
        "/",
        "/a",
        "/a/",
        "/a/b?c=d",
        "/private/x",
        "/x/../private",
        "//private",
        "/b?x",
        "/x.gif",
        "/%61",
        "/robots.txt",
        "/a/%2e%2e/private",
        "/private%2Fx",
        "/x;y/a",
        "//host/b",
        "/a%252Fb?",
        "/caf\u{e9}?\u{1f577}",
        "/;x",
        "/a\\b",
    ];
    let agents = vec!["", "ExampleBot", "ExampleBot-Image ExampleBot", "examplebot", "MJ12bot"];
    (
        any_terms().prop_flat_map(any_state),
        prop::sample::select(paths),
        prop::sample::select(agents),
        prop::sample::select(vec![Mode::Enforce, Mode::Report]),
        prop::bool::weighted(0.2),
        prop::collection::vec(an_override(), 0..2),
    )
        .prop_map(|((terms, state), path, agent, mode, opaque, overrides)| Case {
            state,
            terms,
            mode,
            opaque,
            overrides,
            ..Case::of("", agent, path)
        })
}
