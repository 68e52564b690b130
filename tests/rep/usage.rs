//! Lines on use change no verdict of the protocol: every row of the tables, every published example and random files,
//! with such lines at random places.

use crawlgate_robots::{ComparisonPath, GuardVerdict, ParseOptions, ProductToken, Robots};
use proptest::prelude::*;

use super::checks::{OPTIONS, verdict};
use super::strategies::{chain, lines, options, path, syntax};
use super::tables::questions;

/// Lines with every field on use, in forms that look like other lines.
const LINES: [&str; 14] = [
    "Content-Usage: train-ai=n",
    "content-usage : / search=y, train-ai=n # why",
    "Content-Usage train-ai=n",
    "Content-Usage:",
    "Content-Usage: Disallow: /",
    "Content-Usage: User-agent: *",
    "Content-Usage: /a*$ train-ai=",
    "Content-Signal: ai-train=no, use=reference",
    "CONTENT-SIGNALS: /a ai-train=yes",
    "Content-Signal: Allow: /",
    "License: https://site.example/license.xml",
    "License: /",
    "license : Disallow: /",
    "\tLicense:User-agent: a",
];

/// A small generator of random numbers, so that a seed names a case.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Puts lines on use between the lines of a file. Returns the new file, and for each of its lines the number that it
/// had.
fn with_lines_on_use(file: &[u8], random: &mut Random) -> (Vec<u8>, Vec<u32>) {
    // The first line begins behind a byte order mark, also a partial one.
    let mark = file.iter().zip(b"\xEF\xBB\xBF").take_while(|(one, other)| one == other).count();
    let mut written = file[..mark].to_vec();
    let mut numbers = vec![0];
    let mut rest = &file[mark..];
    let mut number = 1;
    loop {
        let of_three = random.below(3);
        for _ in 0..of_three.saturating_sub(usize::from(rest.is_empty())) {
            written.extend(LINES[random.below(LINES.len())].bytes());
            written.push(b'\n');
            numbers.push(0);
        }
        let Some(end) = rest.iter().position(|octet| b"\r\n".contains(octet)) else {
            written.extend(rest);
            numbers.push(number);
            return (written, numbers);
        };
        let end = if rest[end..].starts_with(b"\r\n") { end + 2 } else { end + 1 };
        written.extend(&rest[..end]);
        rest = &rest[end..];
        numbers.push(number);
        number += 1;
    }
}

/// Returns the answer of the protocol: the deciding rule, and the guard's finding; numbers of lines as `numbers` tells.
fn told(
    file: &[u8],
    options: ParseOptions,
    chain: &[&str],
    path: &[u8],
    numbers: &[u32],
) -> String {
    let tokens = chain.iter().filter_map(|token| ProductToken::new(token).ok());
    let tokens: Vec<ProductToken> = tokens.collect();
    let robots = Robots::parse(file, options);
    let rules = robots.rules(robots.selection(&tokens));
    let before = |line: u32| numbers.get(line as usize).copied().unwrap_or(line);
    let decision = verdict(&rules, path).map(|decision| {
        let (line, group_line) = (before(decision.line), before(decision.group_line));
        (decision.is_allow, decision.text, line, decision.group, group_line)
    });
    let guarded = match rules.guard(&ComparisonPath::new(path)) {
        GuardVerdict::Allowed => "clear".to_owned(),
        GuardVerdict::TooMany => "too many".to_owned(),
        GuardVerdict::Disallowed { reading, rule } => {
            format!("{reading:?} by {}", before(rule.line))
        }
    };
    let is_empty = (rules.is_empty(), rules.disallows_nothing());
    format!("{decision:?}, {guarded}, {is_empty:?}")
}

fn assert_same(
    file: &[u8],
    options: ParseOptions,
    chain: &[&str],
    path: &[u8],
    random: &mut Random,
) {
    let seed = random.0;
    let (more, numbers) = with_lines_on_use(file, random);
    // The same lines of the old file count.
    let limit = more.len().max(options.limit);
    let wide = ParseOptions { limit, ..options };
    assert_eq!(
        told(&more, wide, chain, path, &numbers),
        told(file, options, chain, path, &[]),
        "seed {seed}, {chain:?} {} of\n{}",
        path.escape_ascii(),
        more[..more.len().min(4_096)].escape_ascii()
    );
}

#[test]
fn lines_on_use_change_no_row_of_the_tables() {
    let mut random = Random(20_261_123);
    let mut asked = 0;
    for question in questions() {
        // Behind a limit, another part of the file counts; UTF-16 has other line endings.
        let is_utf16 =
            question.robots.starts_with(b"\xFF\xFE") || question.robots.starts_with(b"\xFE\xFF");
        if question.options.limit < question.robots.len() || is_utf16 {
            continue;
        }
        let chain: Vec<&str> = question.chain.iter().map(String::as_str).collect();
        let rounds = if question.robots.len() < 4_096 { 16 } else { 1 };
        for _ in 0..rounds {
            assert_same(&question.robots, question.options, &chain, &question.path, &mut random);
            asked += 1;
        }
    }
    assert!(asked > 2_000, "{asked}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn lines_on_use_change_no_verdict(
        lines in lines(),
        options in options(),
        chain in chain(),
        path in path(),
        seed in any::<u64>(),
    ) {
        let options = ParseOptions { limit: OPTIONS.limit, ..options };
        let file = lines.join("\n");
        assert_same(file.as_bytes(), options, &chain, path.as_bytes(), &mut Random(seed));
    }

    #[test]
    fn nor_in_a_file_of_any_octets(file in syntax(), chain in chain(), path in path(), seed in any::<u64>()) {
        let is_utf16 = file.starts_with(b"\xFF\xFE") || file.starts_with(b"\xFE\xFF");
        prop_assume!(!is_utf16);
        assert_same(&file, OPTIONS, &chain, path.as_bytes(), &mut Random(seed));
    }
}
