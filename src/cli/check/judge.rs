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
use crate::policy::overrides::Overrides;
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
    Fetching(Target, JoinHandle<View>),
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
        let asked = target.clone();
        let (mode, now) = (self.settings.mode, self.clock.now());
        let decided = policy::clear_robots_txt(target, mode, now)
            .or_else(|target| policy::decide_by_override(target, &self.overrides, mode, now));
        let target = match decided {
            Ok(ruling) => {
                return Waiting::Judged(Ok(Box::new(Judgement {
                    target: asked,
                    agent: Arc::clone(&self.agent),
                    decision: decision(ruling),
                    snapshot: None,
                    explanation: None,
                })));
            }
            Err(target) => target,
        };
        match &self.source {
            Source::File(file) => {
                let view = source::view(file, self.config, &self.clock);
                Waiting::Judged(Ok(Box::new(self.judge(target, view))))
            }
            Source::Origins(registry) => {
                let fetch =
                    source::ask(Arc::clone(registry), asked.origin, self.user_agent.clone());
                Waiting::Fetching(target, tokio::spawn(fetch))
            }
        }
    }

    async fn end(&self, waiting: Waiting) -> Result<Judgement, Unjudged> {
        match waiting {
            Waiting::Judged(judged) => judged.map(|judged| *judged),
            Waiting::Fetching(target, fetch) => match fetch.await {
                Ok(view) => Ok(self.judge(target, view)),
                Err(error) => Err(Unjudged {
                    url: format!("{}{}", target.origin, target.path),
                    why: format!("its robots.txt was not fetched: {error}"),
                }),
            },
        }
    }

    fn judge(&self, target: Target, view: View) -> Judgement {
        let View { state, stance, now } = view;
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
