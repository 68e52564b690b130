//! A turn at a known origin, without a wait.

use super::*;
use crawlgate_config::{CrawlDelayMode, PaceConfig};
use crawlgate_origins::crawl_delay::CrawlDelay;
use crawlgate_robots::Field;
use crawlgate_turns::pace::{Ask, Pace, SharedPace as _};

fn off() -> PaceConfig {
    PaceConfig { backoff: false, ..Config::default().pace }
}

/// Unlimited, so that no turn ever waits.
fn unheld() -> PaceConfig {
    PaceConfig {
        requests_per_second: Some(1_000_000.0),
        burst: 1_000_000,
        concurrency: Some(1_000_000),
        ..off()
    }
}

fn turns(bencher: Bencher<'_, '_>, config: &PaceConfig, crawl_delay: Option<CrawlDelay>) {
    let clock = Clock::system();
    let pace = Pace::new(config, clock.clone());
    let origin = Origin::parse("https://www.site.example/").unwrap().0;
    let crawl_delay = crawl_delay.map(Arc::new);
    let now = clock.now();
    bencher.bench_local(|| {
        let ask = Ask { origin: black_box(&origin), crawl_delay: crawl_delay.as_ref() };
        // The gate checks this first.
        (!pace.is_unlimited()).then(|| pace.try_turn(ask, now))
    });
}

/// Neither limits nor watches the origin.
#[divan::bench]
fn off_(bencher: Bencher<'_, '_>) {
    turns(bencher, &off(), None);
}

/// As without a configuration: the origin is watched, and gets a rest if it asks for that.
#[divan::bench]
fn backoff(bencher: Bencher<'_, '_>) {
    turns(bencher, &Config::default().pace, None);
}

/// The operator's rate and concurrency.
#[divan::bench]
fn own(bencher: Bencher<'_, '_>) {
    turns(bencher, &unheld(), None);
}

/// The robots.txt's crawl delay, too.
#[divan::bench]
fn honour(bencher: Bencher<'_, '_>) {
    let config = PaceConfig {
        crawl_delay: CrawlDelayMode::Honour,
        // Less than a tick: never waited for.
        max_crawl_delay: std::time::Duration::from_nanos(1),
        ..unheld()
    };
    let crawl_delay = CrawlDelay {
        interval: std::time::Duration::from_secs(1),
        field: Field::CrawlDelay,
        line: 2,
        group: "*".into(),
    };
    turns(bencher, &config, Some(crawl_delay));
}

/// Recording of an answer.
#[divan::bench]
fn answer(bencher: Bencher<'_, '_>) {
    let clock = Clock::system();
    let pace = Pace::new(&Config::default().pace, clock.clone());
    let origin = Origin::parse("https://www.site.example/").unwrap().0;
    let ask = Ask { origin: &origin, crawl_delay: None };
    let turn = pace.try_turn(ask, clock.now()).unwrap();
    bencher.bench_local(|| pace.answered(black_box(&turn), 200, || None, true));
}
