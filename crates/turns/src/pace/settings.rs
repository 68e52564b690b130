//! The pace settings in force.

use std::time::Duration;

use super::turns::Rate;
use super::{EffectivePace, Source};
use crawlgate_config::{CrawlDelayMode, PaceConfig};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_robots::Field;

/// `[pace]`, with derived values.
#[derive(Debug)]
pub(super) struct PaceSettings {
    pub(super) config: PaceConfig,
    /// The operator's own rate.
    pub(super) rate: Option<Rate>,
    /// True if nothing is bounded and no outcome is recorded.
    pub(super) is_off: bool,
    /// True if requests are bounded only by an origin's trouble or its robots.txt.
    pub(super) is_quiet: bool,
}

impl PaceSettings {
    pub(super) fn of(config: &PaceConfig) -> PaceSettings {
        let rate = config
            .requests_per_second
            .and_then(|rate| Rate::new(rate, config.burst));
        let is_quiet = rate.is_none() && config.concurrency.is_none();
        PaceSettings {
            config: config.clone(),
            rate,
            is_off: is_quiet && !config.backoff && config.crawl_delay == CrawlDelayMode::Record,
            is_quiet,
        }
    }

    /// Returns the part of a robots.txt's interval that is kept.
    pub(super) fn effective_pace(&self, crawl_delay: &CrawlDelay) -> EffectivePace {
        let most = self.config.max_crawl_delay;
        EffectivePace {
            interval: crawl_delay.interval.min(most),
            source: match crawl_delay.field {
                Field::RequestRate => Source::RequestRate,
                _ => Source::CrawlDelay,
            },
            clamped: crawl_delay.interval > most,
        }
    }

    /// Tells whether origins at one address share limits.
    pub(super) fn is_per_address(&self) -> bool {
        self.config.per_address && !self.is_quiet
    }

    /// Returns the operator's own interval; zero if there is none.
    pub(super) fn own_interval(&self) -> Duration {
        self.rate.map(Rate::interval).unwrap_or_default()
    }

    /// Returns the number of requests that may go at once.
    pub(super) fn burst(&self) -> u32 {
        self.rate.map_or(1, Rate::burst)
    }

    /// Tells whether the intervals that a robots.txt asks for are kept.
    pub(super) fn honours_crawl_delay(&self) -> bool {
        self.config.crawl_delay == CrawlDelayMode::Honour
    }

    /// Returns the longest time for which a request can delay the next one.
    pub(super) fn longest_interval(&self) -> Duration {
        let asked = match self.config.crawl_delay {
            CrawlDelayMode::Honour => self.config.max_crawl_delay,
            CrawlDelayMode::Record => Duration::ZERO,
        };
        self.own_interval().max(asked)
    }
}
