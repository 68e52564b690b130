//! The path guard against real servers: for each spelling of a path, the resource that a server serves and the gate's
//! decision.
//!
//! Every server has the same files, and each file names itself. The tests send each spelling to each server; if the
//! server answers with a disallowed file, the gate must deny the spelling. The servers come from Debian, PyPI and npm
//! (`.ci/clients` installs them). If one is missing, the tests say so and pass, or fail with
//! `CRAWLGATE_REQUIRE_CLIENTS=1`.
//!
//! `CRAWLGATE_WRITE_PAGE=1` writes the results to `docs/path-guard.md`.

mod fields;
mod page;
mod real;
mod servers;
mod spellings;

use std::collections::HashMap;
use std::thread;

use crate::support::CrawlgateProcess;
use crawlgate_robots::{
    ComparisonPath, GuardVerdict, ParseOptions, Robots, RuleKind, Rules, Selection,
};
use servers::{KINDS, Server};
use spellings::{CAFE, SHAPES, Spelling, WIKI, all_spellings, is_told_apart};

/// The gate's decision about a target.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Says {
    Allow,
    /// A rule disallows the path as written.
    Disallow,
    /// The path guard denies it.
    Guard,
}

fn rules(shape: &str) -> Rules {
    let text = format!("User-agent: *\n{shape}\n");
    Robots::parse(text.as_bytes(), ParseOptions::default()).rules(Selection::Global)
}

fn says(rules: &Rules, target: &str) -> Says {
    let path = ComparisonPath::new(target.as_bytes());
    let is_disallowed = |rule: &_| *rule == RuleKind::Disallow;
    if rules.verdict(&path).map(|rule| rule.kind).as_ref().is_some_and(is_disallowed) {
        return Says::Disallow;
    }
    match rules.guard(&path) {
        GuardVerdict::Allowed => Says::Allow,
        GuardVerdict::Disallowed { .. } | GuardVerdict::TooMany => Says::Guard,
    }
}

/// The results of one server for all spellings.
pub(crate) struct Found {
    pub(crate) kind: &'static servers::Kind,
    /// The resource that it served for each spelling.
    pub(crate) served: Vec<Option<String>>,
}

impl Found {
    /// Returns the pairs of spelling and rules for which the server serves a disallowed resource.
    pub(crate) fn disallowed<'a>(
        &'a self,
        spellings: &'a [Spelling],
    ) -> impl Iterator<Item = (&'a Spelling, &'static str)> {
        let served = spellings.iter().zip(&self.served);
        let served =
            served.filter_map(|(spelling, resource)| Some((spelling, resource.as_deref()?)));
        served.flat_map(|(spelling, resource)| {
            let target = ComparisonPath::new(spelling.target.as_bytes());
            let shapes = SHAPES.iter().filter(move |(shape, resources)| {
                resources.contains(&resource) && !is_told_apart(shape, &target)
            });
            shapes.map(move |(shape, _)| (spelling, *shape))
        })
    }
}

/// Returns the port of the server that a server stands before.
fn behind(kind: &servers::Kind, running: &[Server]) -> u16 {
    let behind =
        kind.behind.and_then(|name| running.iter().find(|server| server.kind.name == name));
    behind.map_or(0, |server| server.address.port())
}

#[test]
fn no_server_serves_what_is_disallowed_where_the_gate_allows() {
    if !servers::are_there() {
        return;
    }
    let root = servers::files();
    let spellings = all_spellings();
    let mut running: Vec<Server> = Vec::new();
    for kind in KINDS {
        running.push(Server::start(kind, root.path(), behind(kind, &running)));
    }
    let found: Vec<Found> = thread::scope(|scope| {
        let asked: Vec<_> = running
            .iter()
            .map(|server| {
                let spellings = &spellings;
                scope.spawn(move || Found {
                    kind: server.kind,
                    served: spellings
                        .iter()
                        .map(|spelling| server.serves(&spelling.target))
                        .collect(),
                })
            })
            .collect();
        asked.into_iter().map(|found| found.join().unwrap()).collect()
    });
    drop(running);

    let judged: HashMap<&str, Vec<Says>> = SHAPES
        .iter()
        .map(|(shape, _)| {
            let rules = rules(shape);
            let said = spellings.iter().map(|spelling| says(&rules, &spelling.target));
            (*shape, said.collect())
        })
        .collect();
    let places: HashMap<&str, usize> =
        spellings.iter().enumerate().map(|(at, one)| (&*one.target, at)).collect();
    let mut leaks = Vec::new();
    for found in &found {
        // A server that does not serve each file by its plain name would prove nothing.
        for (spelling, served) in spellings.iter().zip(&found.served) {
            // nginx sends octets beyond ASCII on as they are, which most servers refuse.
            let is_refused =
                spelling.resource == CAFE && found.kind.name.starts_with("nginx before");
            let is_plain = spelling.target == spelling.resource && spelling.resource != WIKI;
            if is_plain && !is_refused {
                assert_eq!(served.as_deref(), Some(spelling.resource), "{}", found.kind.name);
            }
        }
        for (spelling, shape) in found.disallowed(&spellings) {
            if judged[shape][places[&*spelling.target]] == Says::Allow {
                leaks.push(format!("{}: {} against {shape:?}", found.kind.name, spelling.target));
            }
        }
    }
    let page = page::write(&spellings, &found, &judged);
    if std::env::var("CRAWLGATE_WRITE_PAGE").is_ok_and(|value| value == "1") {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/path-guard.md"), &page).unwrap();
    }
    println!("{page}");
    assert!(leaks.is_empty(), "{} leaks:\n{}", leaks.len(), leaks.join("\n"));
}

/// Makes the files of a site with this robots.txt.
fn site(robots: &str) -> tempfile::TempDir {
    let root = servers::files();
    std::fs::write(root.path().join("robots.txt"), robots).unwrap();
    root
}

#[test]
fn the_proxy_denies_what_a_real_server_would_serve() {
    if !servers::are_there() {
        return;
    }
    let root = site("User-agent: *\nDisallow: /private/\nDisallow: /page.php$\n");
    let gate = CrawlgateProcess::start();
    for name in ["nginx", "Express", "Python http.server"] {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let server = Server::start(kind, root.path(), 0);
        let url = |target: &str| format!("http://{}{target}", server.address);
        let mut passed = 0;
        let words = "/private%2Fdiary.html /x/..%2Fprivate/diary.html /private%2fdiary.html? \
            /x/../private/diary.html /page.php/.";
        for target in words.split(' ') {
            passed += usize::from(server.serves(target).is_some());
            gate.refuses(&url(target), 403, "path_guard");
        }
        assert!(passed >= 3, "{name} serves {passed}");
        for target in ["/x%2Fy.html", "/images/x.gif", "/c%3Ad@e%2Cf/g!h.html"] {
            let answer = gate.get(&url(target));
            assert_eq!(answer.status, 200, "{name}: {target}: {answer:?}");
            assert!(answer.text().contains("marker:/"), "{name}: {target}");
        }
    }
}

#[test]
fn a_slash_before_a_query_gets_past_no_rule_about_the_query() {
    if !servers::are_there() {
        return;
    }
    let root = site("User-agent: *\nDisallow: /private/diary.html?x=\nDisallow: /a/b?x=1$\n");
    let gate = CrawlgateProcess::start();
    for name in ["aiohttp", "PHP"] {
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        let server = Server::start(kind, root.path(), 0);
        for target in ["/private/diary.html/?x=1", "/private/diary.html%2F?x=1", "/a/b//?x=1"] {
            assert!(server.serves(target).is_some(), "{name} serves {target}");
            let answer = gate.get(&format!("http://{}{target}", server.address));
            gate.refused(&answer, 403, "path_guard");
        }
        let answer = gate.get(&format!("http://{}/private/diary.html/?y=1", server.address));
        assert_eq!(answer.status, 200, "{name}: {answer:?}");
    }
}

#[test]
fn spellings_are_many_and_the_matcher_alone_misses_most() {
    let spellings = all_spellings();
    let singles = spellings.iter().filter(|spelling| spelling.change.is_some()).count();
    assert!(singles > 60 && spellings.len() > 1_000, "{singles} of {}", spellings.len());
}
