//! Both ways of a search give the answers of a plain filter on the derived lines.

mod lines;

use std::collections::HashSet;

use proptest::prelude::*;

use self::lines::Filter;
use super::*;
use crate::GroupBy;
use crate::segment::{SegmentKeys, SegmentKeysBuilder};
use crawlgate_block::{Block, BlockWriter};
use crawlgate_record::samples::Dice;
use crawlgate_record::samples::dice::{entry, objects};
use crawlgate_record::{Entry, write_line};
use crawlgate_system::clock::Moment;
use crawlgate_text::DecisionId;

/// Returns entries at random, with their lines.
fn entries(seed: u64, count: usize) -> Vec<(Vec<u8>, String)> {
    let mut dice = Dice(seed);
    let objects = objects();
    let one = |_| {
        let (entry, mut line) = (entry(&mut dice), Vec::new());
        write_line(&Entry::read(&entry).unwrap(), &objects, &mut line).unwrap();
        (entry, String::from_utf8(line).unwrap())
    };
    (0..count).map(one).collect()
}

fn block(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut writer = BlockWriter::new().unwrap();
    let mut out = Vec::new();
    for entry in entries {
        writer.push(entry).unwrap();
    }
    writer.finish(&mut out).unwrap();
    out
}

/// The entries with their lines.
struct Log {
    entries: Vec<Vec<u8>>,
    lines: Vec<String>,
    block: Vec<u8>,
    acknowledged: HashSet<u32>,
}

impl Log {
    fn of(entries: Vec<(Vec<u8>, String)>) -> Self {
        let (entries, lines): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        Self {
            lines,
            block: block(&entries),
            acknowledged: (0..entries.len() as u32).filter(|n| n % 3 == 1).collect(),
            entries,
        }
    }

    fn admitted(&self, search: &Search) -> Vec<u32> {
        let all = (0..).zip(&self.entries);
        let admits = |(place, entry): &(u32, &Vec<u8>)| match Entry::read(entry).unwrap() {
            Entry::Decision(decision) => {
                search.admits(&decision, self.acknowledged.contains(place))
            }
            Entry::Event(_) => false,
        };
        all.filter(admits).map(|(place, _)| place).collect()
    }

    fn placed(&self, search: &Search, newest_first: bool) -> Vec<u32> {
        let block = Block::read(&self.block).unwrap();
        let acknowledged = |place| self.acknowledged.contains(&place);
        let places = search.places(&block, 0..usize::MAX, newest_first, acknowledged);
        places.collect::<Result<_, _>>().unwrap()
    }

    fn filtered(&self, query: &DecisionQuery) -> Vec<u32> {
        let filter = Filter::new(query);
        let all = (0..).zip(&self.lines);
        let admits =
            |(place, line): &(u32, &String)| filter.admits(line, self.acknowledged.contains(place));
        all.filter(admits).map(|(place, _)| place).collect()
    }
}

/// Makes queries of the traits of a decision, some of which others share.
#[rustfmt::skip] // one line, one query
fn queries(decision: &Decision<'_>, dice: &mut Dice) -> Vec<DecisionQuery> {
    let all = DecisionQuery::default;
    let text = |text: &str| Some(text.to_owned());
    let time = Moment::from_millis(decision.time());
    let mut queries = vec![
        all(),
        DecisionQuery { since: Some(time), ..all() },
        DecisionQuery { until: Some(time), ..all() },
        DecisionQuery { mode: text(decision.mode.as_str()), ..all() },
        DecisionQuery { verdict: text(decision.verdict.as_str()), ..all() },
        DecisionQuery { verdict: text("none"), ..all() },
        DecisionQuery { reason: text(decision.reason), ..all() },
        DecisionQuery { reason: text("quota"), ..all() },
        DecisionQuery { failed: Some(true), ..all() },
        DecisionQuery { failed: Some(false), ..all() },
        DecisionQuery { acknowledged: Some(true), ..all() },
        DecisionQuery { acknowledged: Some(false), ..all() },
        DecisionQuery { client: Some(decision.client.to_string()), ..all() },
        DecisionQuery { client: Some(decision.client.ip().to_string()), ..all() },
        DecisionQuery { path: text("/*a"), ..all() },
        DecisionQuery { path: text("/"), ..all() },
        DecisionQuery { path: text("/*-*b$"), ..all() },
        DecisionQuery { origin: text("none.example"), ..all() },
    ];
    if let Some(origin) = decision.origin {
        let host = origin_parts(origin).1;
        queries.push(DecisionQuery { origin: text(origin), ..all() });
        queries.push(DecisionQuery { origin: Some(origin.to_ascii_uppercase()), ..all() });
        queries.push(DecisionQuery { origin: text(host), ..all() });
        queries.push(DecisionQuery { origin: Some(format!("http://{host}")), ..all() });
        queries.push(DecisionQuery {
            origin: text(&host.to_ascii_uppercase()),
            verdict: text("deny"),
            path: text("/*e"),
            ..all()
        });
    }
    if let Some(name) = decision.client_name {
        queries.push(DecisionQuery { client: text(name.kept), ..all() });
    }
    for token in decision.chain.iter().take(2) {
        queries.push(DecisionQuery { agent: text(token.kept), ..all() });
        queries.push(DecisionQuery { agent: Some(token.kept.to_ascii_uppercase()), ..all() });
    }
    if let Some(rule) = decision.rule {
        queries.push(DecisionQuery { rule: Some(shown(rule.text.kept).into_owned()), ..all() });
    }
    // Several conditions at once.
    let (one, other) = (
        dice.below(queries.len() as u64),
        dice.below(queries.len() as u64),
    );
    let (one, other) = (
        queries[one as usize].clone(),
        queries[other as usize].clone(),
    );
    queries.push(DecisionQuery {
        since: one.since.or(other.since),
        until: one.until.or(other.until),
        origin: one.origin.or(other.origin),
        path: one.path.or(other.path),
        client: one.client.or(other.client),
        agent: one.agent.or(other.agent),
        reason: one.reason.or(other.reason),
        rule: one.rule.or(other.rule),
        verdict: one.verdict.or(other.verdict),
        mode: one.mode.or(other.mode),
        failed: one.failed.or(other.failed),
        acknowledged: one.acknowledged.or(other.acknowledged),
        ..all()
    });
    queries
}

/// Tells whether a line holds a text that is not the entry's: cut, or with octets that are not UTF-8.
fn is_changed(line: &str) -> bool {
    line.contains("…[+") || line.contains("\\\\x")
}

/// Returns the number of matches, so that a test can tell that there were some.
fn compare(entries: Vec<(Vec<u8>, String)>, dice: &mut Dice) -> usize {
    let log = Log::of(entries);
    let decisions = log.entries.iter().filter_map(|entry| match Entry::read(entry) {
        Ok(Entry::Decision(decision)) => Some(decision),
        _ => None,
    });
    let decisions: Vec<Decision<'_>> = decisions.collect();
    let mut builder = SegmentKeysBuilder::new();
    builder.add_block(&Block::read(&log.block).unwrap());
    let keys = builder.finish();
    let all = log.entries.iter().cloned().zip(log.lines.iter().cloned());
    let unchanged: Vec<_> = all.filter(|(_, line)| !is_changed(line)).collect();
    let unchanged = (!unchanged.is_empty()).then(|| Log::of(unchanged));
    let mut matches = 0;
    for decision in decisions.iter().step_by(decisions.len() / 4 + 1) {
        for query in queries(decision, dice) {
            let search = Search::new(&query).unwrap();
            let admitted = log.admitted(&search);
            matches += admitted.len();
            let mut placed = log.placed(&search, false);
            assert_eq!(placed, admitted, "{query:?}");
            placed.reverse();
            assert_eq!(log.placed(&search, true), placed, "{query:?}");
            let whole = |place: &u32| !is_changed(&log.lines[*place as usize]);
            let filtered: Vec<u32> = log.filtered(&query).into_iter().filter(whole).collect();
            let admitted: Vec<u32> = admitted.into_iter().filter(whole).collect();
            assert_eq!(admitted, filtered, "{query:?}");
            let is_wanted = search.wanted().may_be_in(SegmentKeys::read(&keys).unwrap());
            assert!(is_wanted || placed.is_empty(), "{query:?}");
            let key = dice.below(3) as usize;
            let key = [GroupBy::Origin, GroupBy::Reason, GroupBy::Rule][key];
            if let Some(unchanged) = &unchanged {
                tallied(&log, unchanged, &query, key);
            }
        }
    }
    matches
}

/// Compares the counts over a block with those over its decisions, and of the log with `whole` texts over its lines.
fn tallied(log: &Log, whole: &Log, query: &DecisionQuery, key: GroupBy) {
    let search = Search::new(query).unwrap();
    for log in [log, whole] {
        let acknowledged = |place| log.acknowledged.contains(&place);
        let block = Block::read(&log.block).unwrap();
        let mut of_block = GroupCounts::new(key);
        of_block.count_block(&search, &block, 0..block.len(), acknowledged).unwrap();
        let mut of_decisions = GroupCounts::new(key);
        for place in log.admitted(&search) {
            if let Entry::Decision(one) = Entry::read(&log.entries[place as usize]).unwrap() {
                of_decisions.count(&one);
            }
        }
        let of_block = of_block.into_most_frequent(usize::MAX);
        assert_eq!(of_block, of_decisions.into_most_frequent(usize::MAX));
    }
}

#[test]
fn golden_entries_are_found_by_their_traits() {
    let entries = crawlgate_record::samples::golden::entries();
    assert!(entries.len() >= 200);
    assert!(compare(entries, &mut Dice(1)) > 1_000);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 16,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn all_ways_give_the_same_answers(seed: u64, count in 1_usize..40) {
        compare(entries(seed, count), &mut Dice(seed));
    }

    #[test]
    fn a_part_of_a_block_is_searched(seed: u64, from in 0_usize..50, to in 0_usize..50) {
        let log = Log::of(entries(seed, 40));
        let block = Block::read(&log.block).unwrap();
        let search = Search::new(&DecisionQuery::default()).unwrap();
        let part: Vec<u32> = search.places(&block, from..to, false, |_| false).map(Result::unwrap).collect();
        let whole = log.placed(&search, false);
        let want = whole.into_iter().filter(|place| (from..to).contains(&(*place as usize)));
        prop_assert_eq!(part, want.collect::<Vec<_>>());
    }
}

#[test]
fn decisions_are_found_by_a_prefix() {
    let log = Log::of(entries(11, 200));
    let block = Block::read(&log.block).unwrap();
    let mut all = Vec::new();
    for (place, entry) in (0..).zip(&log.entries) {
        if let Entry::Decision(decision) = Entry::read(entry).unwrap() {
            all.push((place, DecisionId::from_octets(decision.id)));
        }
    }
    assert!(all.len() > 150 && all.len() < 200);
    for (_, id) in all.iter().step_by(9) {
        for length in [1, 6, 8, 9, 10, 11, 26] {
            let prefix = &id.to_string()[..length];
            let want = all.iter().filter(|(_, id)| id.to_string().starts_with(prefix));
            let want: Vec<_> = want.copied().collect();
            let ids = DecisionId::with_prefix(prefix).unwrap();
            let found: Vec<_> = decisions_by_id(&block, &ids).collect();
            assert_eq!(found, want, "{prefix}");
        }
    }
}

#[test]
fn a_refusal_has_not_failed() {
    let cases = [
        (Mode::Enforce, Verdict::Allow, true, true),
        (Mode::Enforce, Verdict::Allow, false, false),
        (Mode::Enforce, Verdict::Deny, true, false),
        (Mode::Enforce, Verdict::Defer, true, false),
        (Mode::Report, Verdict::Deny, true, true),
        (Mode::Report, Verdict::Deny, false, false),
    ];
    for (mode, verdict, ends_in_failure, want) in cases {
        let facts = ShapeFacts { mode, verdict, reason: "", error: None, ends_in_failure };
        assert_eq!(facts.has_failed(), want, "{facts:?}");
    }
}

#[test]
fn a_pattern_that_no_path_matches_is_refused() {
    let query = DecisionQuery { path: Some("no/slash".to_owned()), ..DecisionQuery::default() };
    assert!(Search::new(&query).is_err());
}

#[test]
fn octets_of_a_rule_are_compared_as_they_are_shown() {
    assert_eq!(shown(b"Disallow: /caf\xe9/\xff"), "Disallow: /caf\\xE9/\\xFF");
    assert_eq!(shown("Disallow: /café".as_bytes()), "Disallow: /café");
    let cases: [(&[u8], &[u8]); 5] = [
        (b"https://u@a.example/p?q", b"/p?q"),
        (b"https://a.example?q", b"?q"),
        (b"https://a.example", b"/"),
        (b"a.example:443", b"/"),
        (b"", b"/"),
    ];
    for (url, path) in cases {
        assert_eq!(path_of(url), path);
    }
}

/// A damaged section ends a search with an error, and nothing else is wrong.
#[test]
fn a_damaged_section_ends_the_search() {
    let whole = Log::of(entries(3, 40)).block;
    let query = DecisionQuery { path: Some("/".to_owned()), ..DecisionQuery::default() };
    let search = Search::new(&query).unwrap();
    let mut errors = 0;
    for at in (0..whole.len()).step_by(7) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        let Ok(block) = Block::read(&damaged) else {
            continue;
        };
        let found: Vec<_> = search.places(&block, 0..40, true, |_| false).collect();
        let failed = found.iter().filter(|one| one.is_err()).count();
        assert!(failed <= 1 && (failed == 0 || found.last().unwrap().is_err()));
        errors += failed;
    }
    assert!(errors > 10, "{errors}");
}
