//! Judging URLs as the proxy would, and keeping what it rests on.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use http::HeaderValue;
use http::uri::PathAndQuery;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::source::{self, File, Source};
use crate::agent::{self, Agent, Agents};
use crate::cli::overrides;
use crate::clock::Clock;
use crate::config::{Config, Mode};
use crate::policy::overrides::{Override, Overrides};
use crate::policy::{self, Decision, Reason, Ruling, Target};
use crate::rep::{Explanation, Origin, OriginError, ProductToken, Scheme};
use crate::robots::registry::View;
use crate::robots::state::Stance;

/// How many origins are asked at the same time.
pub(super) const AT_ONCE: usize = 32;

/// A URL, judged.
pub(super) struct Judgement {
    pub(super) target: Target,
    pub(super) agent: Arc<Agent>,
    pub(super) decision: Decision,
    /// The robots.txt whose rules decided.
    pub(super) snapshot: Option<File>,
    /// How they did.
    pub(super) explanation: Option<Explanation>,
    /// What else has something to say.
    pub(super) aside: Option<Aside>,
}

/// What would decide, were it asked.
pub(super) enum Aside {
    /// An override: the proxy goes by it, but a file was asked about.
    Override(Arc<Override>),
    /// robots.txt: an override decided, over what it says.
    Robots(Decision),
}

/// A URL that could not be judged.
pub(super) struct Unjudged {
    pub(super) url: String,
    pub(super) why: String,
}

/// Why not all URLs were judged.
pub(super) enum Stopped {
    /// The list of URLs cannot be read.
    Input(io::Error),
    /// Nobody takes the judgements.
    Output(io::Error),
}

/// Judges as one crawler.
pub(super) struct Judge<'c> {
    config: &'c Config,
    clock: Clock,
    runtime: Runtime,
    source: Source,
    agent: Arc<Agent>,
    user_agent: Option<HeaderValue>,
    overrides: Overrides,
    settings: policy::Settings,
}

/// A URL whose turn to be told has not come.
enum Waiting {
    Judged(Result<Box<Judgement>, Unjudged>),
    /// With what an override decides over it, where one does.
    Fetching(Target, Option<Box<Decision>>, JoinHandle<View>),
}

impl Judge<'_> {
    /// Judges as `named` says, by `robots` or by what the origins say.
    pub(super) fn new<'c>(
        named: &[String],
        robots: Option<&Path>,
        config: &'c Config,
    ) -> Result<Judge<'c>, String> {
        let clock = Clock::system();
        let runtime = source::runtime()?;
        let overrides = runtime.block_on(overrides::known(config))?;
        Ok(Judge {
            source: Source::new(robots, config, &clock)?,
            runtime,
            agent: agent(named, config)?,
            user_agent: user_agent(named),
            overrides: Overrides::new(overrides),
            settings: policy::Settings::of(&config.robots, Mode::Enforce),
            config,
            clock,
        })
    }

    /// Judges URLs and tells each in its turn, while the robots.txt of later ones is being fetched.
    pub(super) fn all(
        &self,
        urls: impl Iterator<Item = io::Result<String>>,
        mut tell: impl FnMut(Result<Judgement, Unjudged>) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        self.runtime.block_on(async {
            let mut waiting: VecDeque<Waiting> = VecDeque::new();
            for url in urls {
                waiting.push_back(self.begin(url.map_err(Stopped::Input)?));
                let is_judged = |first: Option<&Waiting>| matches!(first, Some(Waiting::Judged(_)));
                while (waiting.len() > AT_ONCE || is_judged(waiting.front()))
                    && let Some(first) = waiting.pop_front()
                {
                    tell(self.end(first).await).map_err(Stopped::Output)?;
                }
            }
            for next in waiting {
                tell(self.end(next).await).map_err(Stopped::Output)?;
            }
            Ok(())
        })
    }

    /// Judges what needs no fetch, begins to fetch what does.
    fn begin(&self, url: String) -> Waiting {
        let target = match target(&url) {
            Ok(target) => target,
            Err(why) => return Waiting::Judged(Err(Unjudged { url, why })),
        };
        let (mode, now) = (self.settings.mode, self.clock.now());
        let target = match policy::clear_robots_txt(target.clone(), mode, now) {
            Ok(ruling) => {
                let cleared = self.bare(target, decision(ruling));
                return Waiting::Judged(Ok(Box::new(cleared)));
            }
            Err(target) => target,
        };
        let asserted = policy::decide_by_override(target.clone(), &self.overrides, mode, now);
        let asserted = asserted.ok().map(decision);
        match &self.source {
            // Who names a file asks what that says.
            Source::File(file) => {
                let view = source::view(file, self.config, &self.clock);
                let asserted = asserted.and_then(|decision| decision.asserted);
                let judged = Judgement {
                    aside: asserted.map(Aside::Override),
                    ..self.judge(target, view)
                };
                Waiting::Judged(Ok(Box::new(judged)))
            }
            Source::Origins(registry) => {
                let (registry, origin) = (Arc::clone(registry), target.origin.clone());
                let fetch = source::ask(registry, origin, self.user_agent.clone());
                Waiting::Fetching(target, asserted.map(Box::new), tokio::spawn(fetch))
            }
        }
    }

    async fn end(&self, waiting: Waiting) -> Result<Judgement, Unjudged> {
        match waiting {
            Waiting::Judged(judged) => judged.map(|judged| *judged),
            Waiting::Fetching(target, asserted, fetch) => match (fetch.await, asserted) {
                (Ok(view), None) => Ok(self.judge(target, view)),
                (Ok(view), Some(asserted)) => {
                    let judged = self.judge(target, view);
                    Ok(match judged.decision.reason {
                        // The proxy asks the walls before it asks the overrides.
                        Reason::AddressProhibited => judged,
                        _ => Judgement {
                            aside: Some(Aside::Robots(judged.decision)),
                            decision: *asserted,
                            ..judged
                        },
                    })
                }
                (Err(_), Some(asserted)) => Ok(self.bare(target, *asserted)),
                (Err(error), None) => Err(Unjudged {
                    url: format!("{}{}", target.origin, target.path),
                    why: format!("its robots.txt was not fetched: {error}"),
                }),
            },
        }
    }

    /// A judgement that rests on no robots.txt.
    fn bare(&self, target: Target, decision: Decision) -> Judgement {
        Judgement {
            target,
            agent: Arc::clone(&self.agent),
            decision,
            snapshot: None,
            explanation: None,
            aside: None,
        }
    }

    fn judge(&self, target: Target, view: View) -> Judgement {
        let View {
            state, stance, now, ..
        } = view;
        let (asked, settings) = (target.clone(), self.settings);
        let ruling = policy::decide(asked, &self.agent, &state, &stance, settings, now);
        let mut decision = decision(ruling);
        if stance.is_walled() {
            // The proxy asks the walls first.
            decision.reason = Reason::AddressProhibited;
        }
        let snapshot = match stance {
            Stance::Rules(snapshot) => Some(snapshot),
            _ => None,
        };
        let path = target.path.as_str().as_bytes();
        Judgement {
            explanation: snapshot
                .as_ref()
                .map(|snapshot| snapshot.robots.explain(&self.agent.tokens, path)),
            snapshot,
            decision,
            agent: Arc::clone(&self.agent),
            target,
            aside: None,
        }
    }
}

fn decision(ruling: Ruling) -> Decision {
    match ruling {
        Ruling::Clear(_, decision) | Ruling::Refuse(decision) => decision,
    }
}

/// The crawler that is judged: product tokens, or what whole User-Agents name; else the configured one.
pub(super) fn agent(named: &[String], config: &Config) -> Result<Arc<Agent>, String> {
    if named.is_empty() {
        let nothing = http::HeaderMap::new();
        return Ok(Agents::new(&config.agent.product_tokens).identify(&nothing));
    }
    self::named(named)
}

/// The crawler of these product tokens, or of these User-Agents.
pub(super) fn named(named: &[String]) -> Result<Arc<Agent>, String> {
    let tokens: Result<Vec<ProductToken>, _> =
        named.iter().map(|name| ProductToken::new(name)).collect();
    if let Ok(tokens) = tokens {
        let source = agent::Source::Config;
        return Ok(Arc::new(Agent { tokens, source }));
    }
    let mut headers = http::HeaderMap::new();
    for name in named {
        let value = HeaderValue::from_str(name)
            .map_err(|_| format!("agent {name:?}: neither a product token nor a User-Agent"))?;
        headers.append(http::header::USER_AGENT, value);
    }
    Ok(Agents::new(&[]).identify(&headers))
}

/// What robots.txt is fetched as.
pub(super) fn user_agent(named: &[String]) -> Option<HeaderValue> {
    named
        .first()
        .and_then(|name| HeaderValue::from_str(name).ok())
}

/// What a URL asks for.
fn target(url: &str) -> Result<Target, String> {
    let (origin, path) = origin(url)?;
    if origin.scheme() == Scheme::Ftp {
        return Err("only http and https are forwarded".to_owned());
    }
    match PathAndQuery::try_from(&*path) {
        Ok(path) => Ok(Target { origin, path }),
        Err(error) => Err(match PathAndQuery::try_from(encoded(&path)) {
            Ok(encoded) => {
                format!("no request can carry it as it is written: write {origin}{encoded}")
            }
            Err(_) => error.to_string(),
        }),
    }
}

/// The origin of a URL and its path; where there is none, what to write.
pub(super) fn origin(url: &str) -> Result<(Origin, String), String> {
    Origin::parse(url).map_err(|error| {
        let guess = format!("https://{}", url.trim_start_matches('/'));
        match error {
            OriginError::NotAbsolute if url.starts_with('/') => {
                format!(
                    "a path, not a URL: write it with scheme and host, as https://example.com{url}"
                )
            }
            OriginError::NotAbsolute if Origin::parse(&guess).is_ok() => {
                format!("not a URL: write it with its scheme, as {guess}")
            }
            error => error.to_string(),
        }
    })
}

/// A path with what no request can carry percent-encoded.
fn encoded(path: &str) -> String {
    use std::fmt::Write as _;
    path.bytes().fold(String::new(), |mut encoded, octet| {
        if octet.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&octet) {
            encoded.push(char::from(octet));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(encoded, "%{octet:02X}");
        }
        encoded
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_that_is_none_is_told_what_to_write() {
        let cases = [
            (
                "example.com/a",
                "write it with its scheme, as https://example.com/a",
            ),
            ("//example.com/a", "a path, not a URL"),
            ("/a", "as https://example.com/a"),
            ("a b", "must begin with http://"),
            ("gopher://a/", "the scheme must be http, https or ftp"),
            ("ftp://a/", "only http and https are forwarded"),
            ("http://a:0/", "the port must be"),
            ("http://a/b c", "write http://a/b%20c"),
            ("http://a/\u{1}", "write http://a/%01"),
        ];
        for (url, expected) in cases {
            let told = target(url).map(|_| ()).expect_err(url);
            assert!(told.contains(expected), "{url}: {told}");
        }
        assert!(target("http://a/ツ?{}#x y").is_ok_and(|target| target.path == "/ツ?{}"));
    }

    #[test]
    fn a_file_is_asked_over_the_overrides_and_they_are_told_of() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("robots.txt");
        std::fs::write(&file, "User-agent: *\nDisallow: /\n").expect("written");
        let mut config = Config::default();
        config.store.path = None;
        config.policy.overrides = vec![Override {
            id: crate::policy::overrides::OverrideId::Configured(1),
            origin: origin("http://a.example/").expect("an origin").0,
            pattern: "/press/".to_owned(),
            action: crate::policy::overrides::Action::Allow,
            until: None,
            by: "Ada".to_owned(),
            reason: "a letter".to_owned(),
            created: Clock::system().now(),
        }];
        let judge = Judge::new(&[], Some(&file), &config).expect("a judge");
        for (name, url, is_told) in [
            ("an override would decide", "http://a.example/press/", true),
            ("none would", "http://a.example/other", false),
        ] {
            let mut told = Vec::new();
            let urls = std::iter::once(Ok(url.to_owned()));
            let done = judge.all(urls, |judged| {
                told.extend(judged.ok());
                Ok(())
            });
            assert!(done.is_ok(), "{name}");
            let [judged] = &*told else {
                panic!("{name}: one URL, one judgement")
            };
            assert_eq!(judged.decision.reason, Reason::RobotsDisallow, "{name}");
            let text = super::super::text::of(judged, false, crate::cli::screen::Paint::Plain);
            let says =
                "override: config-1 is left aside for --robots, and would decide: allow /press/";
            assert_eq!(text.contains(says), is_told, "{name}: {text}");
            let json = super::super::document::of(judged);
            let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let id = json["override_left_aside"]["id"].as_str();
            assert_eq!(id, is_told.then_some("config-1"), "{name}");
            assert!(json["override"].is_null(), "{name}");
        }
    }

    #[test]
    fn who_is_judged() {
        let config = Config::default();
        let chain = |named: &[&str]| {
            let named: Vec<String> = named.iter().map(|&name| name.to_owned()).collect();
            let agent = agent(&named, &config).expect("an agent");
            let chain: Vec<String> = agent.tokens.iter().map(ToString::to_string).collect();
            chain.join(" ")
        };
        assert_eq!(chain(&[]), "");
        assert_eq!(
            chain(&["Googlebot-Image", "Googlebot"]),
            "Googlebot-Image Googlebot"
        );
        assert_eq!(chain(&["Mozilla/5.0 (compatible; bingbot/2.0)"]), "bingbot");
        assert_eq!(chain(&["*"]), "");
        assert!(agent(&["a\nb".to_owned()], &config).is_err());
    }
}
