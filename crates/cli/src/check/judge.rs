//! Judges URLs as the proxy would, and keeps the grounds.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::source::{self, Known, Source};
use crate::{Failure, overrides};
use crawlgate_config::Config;
use crawlgate_gate::explain::usage::UsageQuery;
use crawlgate_gate::explain::{self, Documents, Evaluation, Evaluator, Judgement, Unjudged};
use crawlgate_policy::overrides::Overrides;
use crawlgate_policy::{Decision, Target};
use crawlgate_system::clock::Clock;

/// Origins to fetch from at the same time.
pub(super) const AT_ONCE: usize = 32;

/// The reason why not all URLs were judged.
pub(super) enum Stopped {
    /// The list of URLs cannot be read.
    Input(io::Error),
    /// The output is closed or fails.
    Output(io::Error),
}

/// Judges for one crawler.
pub(super) struct Judge<'c> {
    config: &'c Config,
    clock: Clock,
    runtime: Runtime,
    source: Source,
    evaluator: Arc<Evaluator>,
}

/// A URL that waits for its turn in the output.
enum PendingUrl {
    Judged(Result<Box<Judgement>, Unjudged>),
    /// With the decision of an override, if there is one.
    Fetching(Target, Option<Box<Decision>>, JoinHandle<Documents>),
}

impl Judge<'_> {
    /// Creates a judge for the agents `named`, by `robots` or by the origins' files, and by what is `asked` about use.
    pub(super) fn new<'c>(
        named: &[String],
        (robots, known): (Option<&Path>, Known),
        asked: UsageQuery,
        config: &'c Config,
    ) -> Result<Judge<'c>, Failure> {
        let clock = Clock::system();
        let runtime = source::runtime()?;
        let overrides = runtime.block_on(overrides::known(config))?;
        Ok(Judge {
            source: Source::new(robots, known, config, &clock)?,
            runtime,
            evaluator: Arc::new(Evaluator::of(
                explain::agent(named, config)?,
                asked,
                Overrides::new(overrides),
                config,
            )),
            config,
            clock,
        })
    }

    /// Judges URLs and reports each in its turn, while the robots.txt of later ones is being fetched.
    pub(super) fn all(
        &self,
        urls: impl Iterator<Item = io::Result<String>>,
        mut tell: impl FnMut(Result<Judgement, Unjudged>) -> io::Result<()>,
    ) -> Result<(), Stopped> {
        self.runtime.block_on(async {
            let mut waiting: VecDeque<PendingUrl> = VecDeque::new();
            for url in urls {
                waiting.push_back(self.begin(url.map_err(Stopped::Input)?));
                let is_judged =
                    |first: Option<&PendingUrl>| matches!(first, Some(PendingUrl::Judged(_)));
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

    /// Judges a URL that needs no fetch, or starts the fetch.
    fn begin(&self, url: String) -> PendingUrl {
        let target = match explain::target(&url) {
            Ok(target) => target,
            Err(why) => {
                let why = why.to_string();
                return PendingUrl::Judged(Err(Unjudged { url, why }));
            }
        };
        let now = self.clock.now();
        let (target, asserted) = match self.evaluator.begin(target, now) {
            Evaluation::Judged(judged) => return PendingUrl::Judged(Ok(judged)),
            Evaluation::Open(target, asserted) => (target, asserted),
        };
        match &self.source {
            Source::File(file) => {
                let view = explain::view(file, &self.config.robots, now);
                let judged = self.evaluator.by_file(target, asserted, view);
                PendingUrl::Judged(Ok(Box::new(judged)))
            }
            Source::Origins(cache) => {
                let (by, cache) = (Arc::clone(&self.evaluator), Arc::clone(cache));
                let page = target.clone();
                let fetch = async move { by.fetch(&cache, &page).await };
                PendingUrl::Fetching(target, asserted, tokio::spawn(fetch))
            }
        }
    }

    async fn end(&self, waiting: PendingUrl) -> Result<Judgement, Unjudged> {
        match waiting {
            PendingUrl::Judged(judged) => judged.map(|judged| *judged),
            PendingUrl::Fetching(target, asserted, fetch) => match (fetch.await, asserted) {
                (Ok(documents), asserted) => {
                    Ok(self.evaluator.by_origin(target, asserted, documents))
                }
                (Err(_), Some(asserted)) => Ok(self.evaluator.bare(target, *asserted)),
                (Err(error), None) => Err(Unjudged {
                    url: format!("{}{}", target.origin, target.path),
                    why: format!("its robots.txt was not fetched: {error}"),
                }),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_system::clock::Moment;

    #[test]
    fn a_given_file_decides_and_overrides_are_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("robots.txt");
        std::fs::write(&file, "User-agent: *\nDisallow: /\n").expect("written");
        let mut config = Config::default();
        config.store.path = None;
        config.policy.overrides = vec![crawlgate_policy::overrides::Override {
            id: crawlgate_policy::overrides::OverrideId::Configured(1),
            origin: explain::origin("http://a.example/").expect("an origin").0,
            pattern: "/press/".to_owned(),
            action: crawlgate_policy::overrides::Action::Allow,
            until: None,
            by: "Ada".to_owned(),
            reason: "a letter".to_owned(),
            created: Clock::system().now(),
            instance: None,
        }];
        let asked = UsageQuery::configured(&config);
        let judge = Judge::new(&[], (Some(&file), Known::Stored), asked, &config).expect("a judge");
        for (name, url, is_told) in [
            ("an override would decide", "http://a.example/press/", true),
            ("none would", "http://a.example/other", false),
        ] {
            let mut results = Vec::new();
            let urls = std::iter::once(Ok(url.to_owned()));
            let done = judge.all(urls, |judged| {
                results.extend(judged.ok());
                Ok(())
            });
            assert!(done.is_ok(), "{name}");
            let [judged] = &*results else { panic!("{name}: one URL, one judgement") };
            assert_eq!(judged.decision.reason, crawlgate_policy::Reason::RobotsDisallow, "{name}");
            let text = super::super::text::of(
                judged,
                Moment::default(),
                false,
                crate::terminal::Paint::Plain,
            );
            let says =
                "override: config-1 is left aside for --robots, and would decide: allow /press/";
            assert_eq!(text.contains(says), is_told, "{name}: {text}");
            let json = crawlgate_gate::explain::document::of(judged);
            let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
            let id = json["override_left_aside"]["id"].as_str();
            assert_eq!(id, is_told.then_some("config-1"), "{name}");
            assert!(json["override"].is_null(), "{name}");
        }
    }
}
