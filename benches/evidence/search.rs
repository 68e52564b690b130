//! The cost of questions to blocks: of only their keys, by each kind of condition, and of counts.

use std::time::Duration;

use crawlgate_block::Block;
use crawlgate_store::search::{GroupCounts, Search};
use crawlgate_store::segment::sums::{Sums, SumsBuilder};
use crawlgate_store::segment::{SegmentKeys, SegmentKeysBuilder};
use crawlgate_store::{DecisionQuery, GroupBy};
use crawlgate_system::clock::Moment;

use crate::cpu;

/// Prints the cost of each question to all blocks of a set, of which each finds few decisions.
pub(crate) fn measure(blocks: &[Vec<u8>], records: u64, rounds: u64) {
    let least = |mut work: Box<dyn FnMut() + '_>| {
        let mut least = Duration::MAX;
        for _ in 0..rounds {
            let began = cpu();
            work();
            least = least.min(cpu() - began);
        }
        least.as_nanos() as f64 / records as f64
    };
    let keys = least(Box::new(|| {
        for block in blocks {
            std::hint::black_box(Block::read(block).unwrap());
        }
    }));
    print!("   read {keys:.1} ns");
    for (name, query) in queries() {
        let search = Search::new(&query).unwrap();
        let mut found = 0;
        let ns = least(Box::new(|| {
            found = 0;
            for block in blocks {
                let block = Block::read(block).unwrap();
                found += search.places(&block, 0..block.len(), true, |_| false).count();
            }
        }));
        print!(" · {name} {ns:.1} ({found})");
    }
    println!();
    print!("   tally:");
    let search = Search::new(&DecisionQuery::default()).unwrap();
    for (name, key) in
        [("origin", GroupBy::Origin), ("reason", GroupBy::Reason), ("rule", GroupBy::Rule)]
    {
        let ns = least(Box::new(|| {
            let mut counts = GroupCounts::new(key);
            for block in blocks {
                let block = Block::read(block).unwrap();
                let all = 0..block.len();
                counts.count_block(&search, &block, all, |_| false).unwrap();
            }
            std::hint::black_box(counts.into_most_frequent(100));
        }));
        print!(" {name} {ns:.1}");
    }
    let mut set = Vec::new();
    let ns = least(Box::new(|| {
        let mut builder = SegmentKeysBuilder::new();
        for block in blocks {
            builder.add_block(&Block::read(block).unwrap());
        }
        set = builder.finish();
    }));
    let octets = set.len() as f64 / records as f64;
    let wanted = Search::new(&queries()[0].1).unwrap().wanted();
    let began = cpu();
    for _ in 0..1_000 {
        std::hint::black_box(wanted.may_be_in(SegmentKeys::read(&set).unwrap()));
    }
    let probe = (cpu() - began).as_nanos() as f64 / 1_000.0;
    print!(" · keys {ns:.1} ns, {octets:.2} octets, a probe {probe:.0} ns");
    let ns = least(Box::new(|| {
        let mut builder = SumsBuilder::new();
        for block in blocks {
            builder.add_block(&Block::read(block).unwrap());
        }
        set = builder.finish().unwrap().unwrap();
    }));
    let octets = set.len() as f64 / records as f64;
    let answer = least(Box::new(|| {
        let mut counts = GroupCounts::new(GroupBy::Origin);
        assert!(Sums::read(&set).unwrap().count_by(&search, &mut counts));
        std::hint::black_box(counts.into_most_frequent(100));
    }));
    let answer = answer * records as f64 / 1e6;
    println!(" · sums {ns:.1} ns, {octets:.2} octets, a tally of origins {answer:.2} ms");
}

fn queries() -> Vec<(&'static str, DecisionQuery)> {
    let all = DecisionQuery::default;
    let text = |text: &str| Some(text.to_owned());
    let until = Moment::from_millis(1_795_176_000_100);
    #[rustfmt::skip] // one row, one question
    let queries = vec![
        ("origin", DecisionQuery { origin: text("https://www.site-7.example"), ..all() }),
        ("host", DecisionQuery { origin: text("www.site-7.example"), ..all() }),
        ("rule", DecisionQuery { rule: text("Disallow: /news"), ..all() }),
        ("reason", DecisionQuery { reason: text("robots_disallow"), ..all() }),
        ("client", DecisionQuery { client: text("10.0.0.3"), ..all() }),
        ("token", DecisionQuery { agent: text("none"), ..all() }),
        ("until", DecisionQuery { until: Some(until), ..all() }),
        ("path", DecisionQuery { path: text("/news/*-99.html"), ..all() }),
        ("denied path", DecisionQuery { path: text("/news/*-99.html"), verdict: text("deny"), ..all() }),
    ];
    queries
}
