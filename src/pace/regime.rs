//! The settings in force.

use std::time::Duration;

use super::meter::Rate;
use super::{InForce, Source};
use crate::config::{CrawlDelay, PaceConfig};
use crate::rep::Field;
use crate::robots::wish::Wish;

/// `[pace]`, and what follows from it.
#[derive(Debug)]
pub(super) struct Regime {
    pub(super) config: PaceConfig,
    /// The operator's own rate.
    pub(super) rate: Option<Rate>,
    /// Nothing is bounded and nothing is watched.
    pub(super) is_off: bool,
    /// Only an origin in trouble is bounded, or one whose robots.txt asks for it.
    pub(super) is_quiet: bool,
}

impl Regime {
    pub(super) fn of(config: &PaceConfig) -> Regime {
        let rate = config
            .requests_per_second
            .and_then(|rate| Rate::new(rate, config.burst));
        let is_quiet = rate.is_none() && config.concurrency.is_none();
        Regime {
            config: config.clone(),
            rate,
            is_off: is_quiet && !config.backoff && config.crawl_delay == CrawlDelay::Record,
            is_quiet,
        }
    }

    /// What is kept of what a robots.txt asks for.
    pub(super) fn keep(&self, wish: &Wish) -> InForce {
        let most = self.config.max_crawl_delay;
        InForce {
            interval: wish.interval.min(most),
            source: match wish.field {
                Field::RequestRate => Source::RequestRate,
                _ => Source::CrawlDelay,
            },
            clamped: wish.interval > most,
        }
    }

    /// Whether origins at one address are bounded together.
    pub(super) fn is_per_address(&self) -> bool {
        self.config.per_address && !self.is_quiet
    }

    /// The operator's own interval; zero where there is none.
    pub(super) fn own_interval(&self) -> Duration {
        self.rate.map(Rate::interval).unwrap_or_default()
    }

    /// How long a request can matter to the next.
    pub(super) fn longest_interval(&self) -> Duration {
        let asked = match self.config.crawl_delay {
            CrawlDelay::Honour => self.config.max_crawl_delay,
            CrawlDelay::Record => Duration::ZERO,
        };
        self.own_interval().max(asked)
    }
}
