//! A second, plain implementation of the protocol: it copies every line, asks every rule and tries every place.
//!
//! It shares no code with the library and must pass the same tables.

/// The field names that count, each with the spellings that a name may begin with.
#[rustfmt::skip] // one row, one case
const FIELDS: &[(&str, &[&str])] = &[
    ("user-agent", &["user-agent", "useragent", "user agent"]),
    ("allow", &["allow"]),
    ("disallow", &["disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw"]),
    ("sitemap", &["sitemap", "site-map"]),
    ("crawl-delay", &[]),
    ("request-rate", &[]),
    ("visit-time", &[]),
    ("clean-param", &[]),
    ("host", &[]),
    ("content-signal", &[]),
    ("content-usage", &[]),
    ("license", &[]),
];

/// A field and another spelling of it, which even a strict reading knows.
const ALIAS: (&str, &str) = ("content-signal", "content-signals");

/// The options for reading a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) lenient: bool,
    pub(crate) limit: usize,
}

/// A file, line by line.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) groups: Vec<Group>,
    /// Field, line number, number of the group that holds it.
    pub(crate) others: Vec<(&'static str, u32, Option<usize>)>,
}

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Value and line number.
    pub(crate) agents: Vec<(Vec<u8>, u32)>,
    pub(crate) rules: Vec<Rule>,
}

#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) is_allow: bool,
    pub(crate) value: Vec<u8>,
    pub(crate) text: Vec<u8>,
    pub(crate) line: u32,
}

/// A rule that decides, and the user-agent line through which its group applies.
#[derive(Debug, PartialEq)]
pub(crate) struct Decision {
    pub(crate) is_allow: bool,
    pub(crate) line: u32,
    pub(crate) text: String,
    pub(crate) group: String,
    pub(crate) group_line: u32,
}

/// Returns the rule that decides whether a crawler with this chain of tokens may fetch the path.
pub(crate) fn decide(
    file: &[u8],
    reading: Reading,
    chain: &[&str],
    path: &[u8],
) -> Option<Decision> {
    let path = comparison_form(path);
    if path == b"/robots.txt" {
        return None;
    }
    let mut best: Option<((usize, bool), Decision)> = None;
    for (speaker, rule) in rules(file, reading, chain) {
        let precedence = (octets(&rule, &path), rule.is_allow);
        if precedence.0 > 0 && best.as_ref().is_none_or(|(other, _)| precedence > *other) {
            let (group, group_line) = speaker;
            let decision = Decision {
                is_allow: rule.is_allow,
                line: rule.line,
                text: String::from_utf8_lossy(&rule.text).into_owned(),
                group,
                group_line,
            };
            best = Some((precedence, decision));
        }
    }
    best.map(|(_, decision)| decision)
}

/// Tells whether any of a crawler's rules can match, and whether one of those disallows.
pub(crate) fn can(file: &[u8], reading: Reading, chain: &[&str]) -> (bool, bool) {
    let rules = rules(file, reading, chain).into_iter();
    let matching: Vec<bool> = rules
        .filter(|(_, rule)| begins_a_path(&rule.value))
        .map(|(_, rule)| rule.is_allow)
        .collect();
    (!matching.is_empty(), matching.contains(&false))
}

/// Returns a crawler's rules, each with its group's name for the crawler and the line of that name.
fn rules(file: &[u8], reading: Reading, chain: &[&str]) -> Vec<((String, u32), Rule)> {
    let file = parse(file, reading);
    let speakers = speakers(&file, chain);
    let mut rules = Vec::new();
    for (group, speaker) in file.groups.into_iter().zip(speakers) {
        if let Some(speaker) = speaker {
            rules.extend(group.rules.into_iter().map(|rule| (speaker.clone(), rule)));
        }
    }
    rules
}

/// Returns the other fields in a crawler's groups, and their lines.
pub(crate) fn others(file: &[u8], reading: Reading, chain: &[&str]) -> Vec<(&'static str, u32)> {
    let file = parse(file, reading);
    let speakers = speakers(&file, chain);
    let others = file.others.iter().filter(|(_, _, group)| {
        let speaker = group.and_then(|group| speakers[group].as_ref());
        speaker.is_some()
    });
    others.map(|(field, line, _)| (*field, *line)).collect()
}

/// Returns, for each group, its first name for a crawler, and the line of that name.
fn speakers(file: &File, chain: &[&str]) -> Vec<Option<(String, u32)>> {
    let values = || file.groups.iter().flat_map(|group| &group.agents);
    let token = chain
        .iter()
        .find(|token| values().any(|(value, _)| names(value, Some(token)).is_some()))
        .copied();
    let speaker = |group: &Group| {
        let mut agents = group.agents.iter();
        agents.find_map(|(value, line)| Some((names(value, token)?, *line)))
    };
    file.groups.iter().map(speaker).collect()
}

/// Returns the groups of a file, and its other fields.
pub(crate) fn parse(file: &[u8], reading: Reading) -> File {
    let mut parsed = File::default();
    for (line, text) in (1..).zip(lines(file, reading.limit)) {
        let Some((key, value)) = pair(&text, reading.lenient) else {
            continue;
        };
        match field(&key, reading.lenient) {
            Some("user-agent") => {
                if parsed.groups.last().is_none_or(|group| !group.rules.is_empty()) {
                    parsed.groups.push(Group::default());
                }
                parsed.groups.last_mut().unwrap().agents.push((value, line));
            }
            Some(kind @ ("allow" | "disallow")) => {
                if let Some(group) = parsed.groups.last_mut() {
                    group.rules.push(Rule { is_allow: kind == "allow", value, text, line });
                }
            }
            Some(other) => {
                let group = parsed.groups.len().checked_sub(1);
                parsed.others.push((other, line, group));
            }
            None => {}
        }
    }
    parsed
}

/// Returns the text of a UTF-16 file as UTF-8, without a line that the limit cuts.
fn utf_16(file: &[u8], limit: usize) -> Option<Vec<u8>> {
    let unit: fn([u8; 2]) -> u16 = match file {
        [0xFF, 0xFE, ..] => u16::from_le_bytes,
        [0xFE, 0xFF, ..] => u16::from_be_bytes,
        _ => return None,
    };
    let units = |octets: &[u8]| -> Vec<u16> {
        octets.chunks_exact(2).map(|two| unit([two[0], two[1]])).collect()
    };
    let is_end = |unit: Option<&u16>| unit.is_some_and(|unit| [10, 13].contains(unit));
    let mut kept = units(&file[..file.len().min(limit)]);
    let is_ended = match file.get(2 * kept.len()..) {
        Some([octet]) => b"\r\n".contains(octet),
        _ => is_end(units(file).get(kept.len())),
    };
    if file.len() > limit && !is_ended {
        while !kept.is_empty() && !is_end(kept.last()) {
            kept.pop();
        }
    }
    let text = String::from_utf16_lossy(kept.get(1..).unwrap_or_default());
    Some(text.into_bytes())
}

/// Returns the part of each line that counts.
fn lines(file: &[u8], limit: usize) -> Vec<Vec<u8>> {
    let decoded = utf_16(file, limit);
    let mut file = file.to_vec();
    if let Some(decoded) = decoded {
        file = decoded;
    } else if file.len() > limit {
        let next = file[limit];
        file.truncate(limit);
        while !b"\r\n".contains(&next) && file.last().is_some_and(|last| !b"\r\n".contains(last)) {
            file.pop();
        }
    }
    for mark in b"\xEF\xBB\xBF" {
        if file.first() != Some(mark) {
            break;
        }
        file.remove(0);
    }
    let mut lines = vec![Vec::new()];
    for (at, octet) in file.iter().enumerate() {
        match octet {
            b'\n' if at > 0 && file[at - 1] == b'\r' => {}
            b'\n' | b'\r' => lines.push(Vec::new()),
            octet => lines.last_mut().unwrap().push(*octet),
        }
    }
    let counted = |line: &Vec<u8>| {
        let counted = line.iter().take(16_663);
        let text: Vec<u8> = counted.take_while(|octet| !b"\0#".contains(octet)).copied().collect();
        trimmed(&text)
    };
    lines.iter().map(counted).collect()
}

fn trimmed(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    let is_space = |octet: Option<&u8>| octet.is_some_and(|octet| b" \t\x0B\x0C".contains(octet));
    while is_space(text.first()) {
        text.remove(0);
    }
    while is_space(text.last()) {
        text.pop();
    }
    text
}

fn pair(text: &[u8], lenient: bool) -> Option<(Vec<u8>, Vec<u8>)> {
    let colon = text.iter().position(|octet| *octet == b':');
    let words: Vec<&[u8]> =
        text.split(|octet| b" \t".contains(octet)).filter(|word| !word.is_empty()).collect();
    let (key, value) = match (colon, &words[..]) {
        (Some(at), _) => (&text[..at], &text[at + 1..]),
        (None, [key, value]) if lenient => (*key, *value),
        _ => return None,
    };
    let key = trimmed(key);
    (!key.is_empty()).then(|| (key, trimmed(value)))
}

fn field(key: &[u8], lenient: bool) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    if key == ALIAS.1.as_bytes() {
        return Some(ALIAS.0);
    }
    let begins = |spelling: &&str| key.starts_with(spelling.as_bytes());
    FIELDS
        .iter()
        .find(|(name, spellings)| key == name.as_bytes() || lenient && spellings.iter().any(begins))
        .map(|(name, _)| *name)
}

/// Returns the name in a user-agent value that matches a token (`None`: `*`), as written.
fn names(value: &[u8], token: Option<&str>) -> Option<String> {
    let Some(token) = token else {
        let is_global = matches!(value, [b'*'] | [b'*', b' ' | b'\t' | 0x0B | 0x0C, ..]);
        return is_global.then(|| "*".to_owned());
    };
    let wide = token.bytes().any(|octet| octet.is_ascii_digit() || octet == b'.');
    let belongs = |octet: &u8| {
        octet.is_ascii_alphabetic()
            || b"-_".contains(octet)
            || wide && (octet.is_ascii_digit() || *octet == b'.')
    };
    let name = value.iter().copied().take_while(belongs).collect();
    let name = String::from_utf8(name).unwrap();
    name.eq_ignore_ascii_case(token).then_some(name)
}

/// Returns the length of a rule that matches a path; 0 if it does not match.
fn octets(rule: &Rule, path: &[u8]) -> usize {
    let whole = matched(&rule.value, path);
    let slash = rule.value.iter().rposition(|octet| *octet == b'/');
    match slash {
        Some(at) if whole == 0 && rule.is_allow && rule.value[at..].starts_with(b"/index.htm") => {
            matched(&[&rule.value[..=at], b"$"].concat(), path)
        }
        _ => whole,
    }
}

/// A set of octets that one position of a pattern accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Atom {
    Symbol(u16),
    Run,
    End,
}

/// A literal star or dollar, in either spelling.
const STAR: u16 = 0x100;
const DOLLAR: u16 = 0x101;

/// Returns the length of the pattern for precedence if it matches, otherwise 0.
fn matched(value: &[u8], path: &[u8]) -> usize {
    if !begins_a_path(value) {
        return 0;
    }
    let units = units(value);
    // A rule with an escaped star or dollar, or a dollar inside, means the characters: both spellings of each become
    // one, in the rule and in the path.
    let within = units.split_last().map_or(&[][..], |(_, within)| within);
    let is_literal = units.iter().any(|unit| unit == b"%2A" || unit == b"%24")
        || within.iter().any(|unit| unit == b"$");
    let path: Vec<u16> = if is_literal {
        let path = str::from_utf8(path).unwrap();
        let path = path.replace("%2A", "*").replace("%24", "$");
        path.bytes().flat_map(|octet| symbols(&[octet])).collect()
    } else {
        path.iter().copied().map(u16::from).collect()
    };
    let last = units.len() - 1;
    let atoms = units.iter().enumerate().flat_map(|(at, unit)| match &unit[..] {
        b"*" => vec![Atom::Run],
        b"$" if at == last => vec![Atom::End],
        unit if is_literal => symbols(unit).into_iter().map(Atom::Symbol).collect(),
        unit => unit.iter().map(|octet| Atom::Symbol(u16::from(*octet))).collect(),
    });
    // The places in the path, in order, that the pattern can have reached so far.
    let mut reached = vec![0];
    for atom in atoms {
        reached = match atom {
            Atom::Symbol(symbol) => reached
                .into_iter()
                .filter(|at| path.get(*at) == Some(&symbol))
                .map(|at| at + 1)
                .collect(),
            Atom::Run => match reached.first() {
                Some(first) => (*first..=path.len()).collect(),
                None => vec![],
            },
            Atom::End => reached.into_iter().filter(|at| *at == path.len()).collect(),
        };
    }
    if reached.is_empty() { 0 } else { units.iter().map(Vec::len).sum() }
}

fn begins_a_path(value: &[u8]) -> bool {
    value.starts_with(b"/") || value.starts_with(b"*")
}

fn symbols(unit: &[u8]) -> Vec<u16> {
    match unit {
        b"*" | b"%2A" => vec![STAR],
        b"$" | b"%24" => vec![DOLLAR],
        octets => octets.iter().copied().map(u16::from).collect(),
    }
}

/// Returns the comparison form of a path.
pub(crate) fn comparison_form(path: &[u8]) -> Vec<u8> {
    let before_fragment = path.split(|octet| *octet == b'#').next().unwrap();
    let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
    units(&[slash, before_fragment].concat()).concat()
}

/// Returns each octet or escape, in comparison form.
fn units(written: &[u8]) -> Vec<Vec<u8>> {
    let mut units = Vec::new();
    let mut rest = written;
    while let [first, after @ ..] = rest {
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let (octet, is_escape) = match (first, digits) {
            (b'%', Some(digits)) => {
                let digits = str::from_utf8(digits).unwrap();
                (u8::from_str_radix(digits, 16).unwrap(), true)
            }
            (octet, _) => (*octet, false),
        };
        rest = if is_escape { &after[2..] } else { after };
        let is_unreserved = octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
        let is_reserved = b":/?#[]@!$&'()*+,;=%".contains(&octet);
        units.push(if is_unreserved || is_reserved && !is_escape {
            vec![octet]
        } else {
            format!("%{octet:02X}").into_bytes()
        });
    }
    units
}
