//! Checks that hold for any octets. The properties, the kept corpus and the fuzz targets share them; each check panics
//! on a violation.

use crawlgate_robots::{
    ComparisonPath, Origin, OtherLine, ParseOptions, PathVariants, ProductToken, Robots, RuleKind,
    Rules, Selection, decoded, product_tokens,
};

use super::naive::{self, Decision, Reading};

/// Parses the octets as a file, and checks that every number and text in its description refers to the file itself.
pub(crate) fn parse(data: &[u8]) {
    for (lenient, limit) in [(true, data.len()), (true, data.len() / 2), (false, data.len())] {
        let robots = Robots::parse(data, ParseOptions { lenient, limit });
        let text = robots.text();
        assert!(data.starts_with(text) && text.len() <= limit);
        assert_eq!(robots.is_truncated(), data.len() > limit);
        assert!(robots.bytes() >= text.len());

        let read = decoded(text);
        let last = 1 + read.iter().filter(|octet| b"\r\n".contains(octet)).count() as u32;
        let mut lines = Vec::new();
        for group in robots.groups() {
            lines.extend(group.user_agents());
            lines.extend(group.rules().map(|(_, text, line)| (text, line)));
        }
        assert!(lines.is_sorted_by(|(_, line), (_, next)| line < next));
        lines.extend(robots.others().map(|other| (other.value, other.line)));
        for (piece, line) in lines {
            assert!((1..=last).contains(&line), "line {line} of {last}");
            assert!(piece.is_empty() || memchr::memmem::find(&read, piece).is_some());
        }
        for note in robots.notes() {
            assert!((1..=last).contains(&note.line), "{note:?} of {last} lines");
        }

        let chains = robots.groups().flat_map(|group| group.user_agents());
        let mut chains: Vec<Vec<ProductToken>> =
            chains.map(|(value, _)| product_tokens(value)).take(16).collect();
        chains.push(product_tokens(data));
        for chain in chains {
            let rules = robots.rules(robots.selection(&chain));
            let path = ComparisonPath::new(data);
            assert!(path.as_bytes().is_ascii() && path.as_bytes().starts_with(b"/"));
            if let Some(rule) = rules.verdict(&path) {
                assert!(!rules.is_empty() && (1..=last).contains(&rule.line));
                assert!(rule.group_line < rule.line && rule.group_line > 0);
                assert!(rule.kind == RuleKind::Allow || !rules.disallows_nothing());
            }
        }
    }
    let path = ComparisonPath::new(data);
    for reading in PathVariants::of(&path).paths() {
        assert!(reading.starts_with(b"/") && reading.is_ascii() && *reading != *path.as_bytes());
    }
    let _ = Origin::parse(&String::from_utf8_lossy(data));
}

/// The longest rule value that [`matching`] takes: three times as many octets still fit into a line.
const MAX_VALUE: usize = 4096;

/// Reads paths, one a line up to the first empty line, then rules (`+` allows, anything else disallows). Judges each
/// path by the rules in this and in other arrangements.
pub(crate) fn matching(data: &[u8]) {
    let mut lines = data.split(|octet| *octet == b'\n');
    let paths: Vec<&[u8]> = lines.by_ref().take_while(|line| !line.is_empty()).take(8).collect();
    let rules: Vec<Vec<u8>> = lines
        .filter_map(|line| line.split_first())
        // Values that are not exactly one whole line belong to another check.
        .filter(|(_, value)| value.len() <= MAX_VALUE && !value.contains(&b'\r'))
        .map(|(sign, value)| {
            let field: &[u8] = if *sign == b'+' { b"allow:" } else { b"disallow:" };
            [field, value].concat()
        })
        .take(64)
        .collect();
    let compiled = |rules: &[Vec<u8>]| {
        let text = [b"user-agent:*\n", &rules.join(&b'\n')[..]].concat();
        let robots = Robots::parse(&text, OPTIONS);
        let rules = robots.rules(Selection::Global);
        (text, rules)
    };
    let (text, as_written) = compiled(&rules);
    let reversed: Vec<Vec<u8>> = rules.iter().rev().cloned().collect();
    let (_, reversed) = compiled(&reversed);
    let (_, doubled) = compiled(&[&rules[..], &rules].concat());
    // Each raw octet counts three once it is escaped.
    let longest = rules.iter().map(|rule| 3 * rule.len()).max().unwrap_or(0);
    let override_all = [b"allow:/*", &vec![b'*'; longest][..]].concat();
    let (_, overridden) = compiled(&[&rules[..], &[override_all]].concat());

    for path in paths {
        let form = ComparisonPath::new(path);
        assert_eq!(form.as_bytes(), naive::comparison_form(path));
        let decision = verdict(&as_written, path);
        assert_eq!(decision, naive::decide(&text, READING, &[], path), "{}", shown(path));
        assert_eq!(decision, verdict(&doubled, path), "a doubled rule counts once");
        let kind = decision.as_ref().map(|decision| decision.is_allow);
        let other_way = verdict(&reversed, path).map(|decision| decision.is_allow);
        assert_eq!(kind, other_way, "the order of rules changes no verdict");
        assert!(form.is_robots_txt() || verdict(&overridden, path).unwrap().is_allow);
        // A second pass changes nothing, unless the first one left a lone `%` in front of digits.
        if !has_lone_percent(path) {
            assert_eq!(ComparisonPath::new(form.as_bytes()).as_bytes(), form.as_bytes());
        }
    }
}

/// Reads a crawler's chain of tokens (first line), a path (second line) and a file (the rest), and compares all results
/// with those of the naive implementation.
pub(crate) fn differential(data: &[u8]) {
    let mut parts = data.splitn(3, |octet| *octet == b'\n');
    let (Some(chain), Some(path), Some(file)) = (parts.next(), parts.next(), parts.next()) else {
        return;
    };
    let chain = String::from_utf8_lossy(chain);
    let chain: Vec<&str> = chain.split_ascii_whitespace().collect();
    for (lenient, limit) in [(true, file.len()), (false, file.len()), (true, file.len() / 2)] {
        agree(file, ParseOptions { lenient, limit }, &chain, path);
    }
}

/// Compares both implementations on a file. Elements of the chain that are not product tokens are left out.
pub(crate) fn agree(file: &[u8], options: ParseOptions, chain: &[&str], path: &[u8]) {
    let ParseOptions { lenient, limit } = options;
    let reading = Reading { lenient, limit };
    let (tokens, chain): (Vec<ProductToken>, Vec<&str>) =
        chain.iter().filter_map(|name| Some((ProductToken::new(name).ok()?, *name))).unzip();
    let robots = Robots::parse(file, options);
    let selection = robots.selection(&tokens);
    let rules = robots.rules(selection);
    let (can_match, can_disallow) = naive::can(file, reading, &chain);
    assert_eq!(rules.is_empty(), !can_match);
    assert!(can_disallow || rules.disallows_nothing());
    assert_eq!(
        verdict(&rules, path),
        naive::decide(file, reading, &chain, path),
        "{options:?} {chain:?} {} of\n{}",
        shown(path),
        shown(file)
    );

    let expected = naive::parse(file, reading);
    let agents = |robots: &Robots| {
        let groups = robots.groups();
        let agents = groups.map(|group| group.user_agents().map(owned).collect::<Vec<_>>());
        agents.collect::<Vec<_>>()
    };
    let expected_agents = expected.groups.iter().map(|group| group.agents.clone());
    assert_eq!(agents(&robots), expected_agents.collect::<Vec<_>>());
    let rules = robots.groups().flat_map(|group| group.rules());
    let rules: Vec<_> =
        rules.map(|(kind, text, line)| (kind == RuleKind::Allow, text.to_vec(), line)).collect();
    let expected_rules = expected.groups.iter().flat_map(|group| &group.rules);
    let expected_rules: Vec<_> =
        expected_rules.map(|rule| (rule.is_allow, rule.text.clone(), rule.line)).collect();
    assert_eq!(rules, expected_rules);
    let shown = |other: OtherLine<'_>| (other.field.as_str(), other.line);
    let others: Vec<_> = robots.others().map(shown).collect();
    let expected_others = expected.others.iter();
    let expected_others: Vec<_> = expected_others.map(|(field, line, _)| (*field, *line)).collect();
    assert_eq!(others, expected_others);
    let others: Vec<_> = robots.others_of(selection).map(shown).collect();
    assert_eq!(others, naive::others(file, reading, &chain));
}

/// Returns the rule that decides about a path.
pub(crate) fn verdict(rules: &Rules, path: &[u8]) -> Option<Decision> {
    let path = ComparisonPath::new(path);
    let rule = rules.verdict(&path)?;
    Some(Decision {
        is_allow: rule.kind == RuleKind::Allow,
        line: rule.line,
        text: rule.text.to_string(),
        group: rule.group.to_string(),
        group_line: rule.group_line,
    })
}

/// The default options.
pub(crate) const OPTIONS: ParseOptions = ParseOptions { lenient: true, limit: 512_000 };
pub(crate) const READING: Reading = Reading { lenient: true, limit: 512_000 };

fn owned((value, line): (&[u8], u32)) -> (Vec<u8>, u32) {
    (value.to_vec(), line)
}

fn has_lone_percent(path: &[u8]) -> bool {
    let is_lone = |at: usize| {
        let digits = path.get(at + 1..at + 3);
        path[at] == b'%' && !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    (0..path.len()).any(is_lone)
}

fn shown(octets: &[u8]) -> String {
    octets.escape_ascii().to_string()
}
