//! The matching rules again, written for plainness: every rule is asked, every way to place a star
//! is tried.

/// What one position of a pattern accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Atom {
    Octet(u8),
    Run,
    End,
}

/// The index of the deciding rule among `(is_allow, value)` in file order.
pub(crate) fn verdict(rules: &[(bool, String)], path: &str) -> Option<usize> {
    let path = comparison_form(path);
    if path == b"/robots.txt" {
        return None;
    }
    let mut best: Option<(usize, bool, usize)> = None;
    for (at, (is_allow, value)) in rules.iter().enumerate() {
        let value = value.trim_matches(' ');
        let mut length = matched(value, &path);
        if length.is_none() && *is_allow {
            let slash = value
                .rfind('/')
                .filter(|at| value[*at..].starts_with("/index.htm"));
            length = slash.and_then(|at| matched(&format!("{}$", &value[..=at]), &path));
        }
        let Some(length) = length.filter(|length| *length > 0) else {
            continue;
        };
        let is_better =
            best.is_none_or(|(longest, allow, _)| (length, *is_allow) > (longest, allow));
        if is_better {
            best = Some((length, *is_allow, at));
        }
    }
    best.map(|(_, _, at)| at)
}

/// The length of the pattern for precedence, if it matches.
fn matched(value: &str, path: &[u8]) -> Option<usize> {
    if !value.starts_with(['/', '*']) {
        return None;
    }
    let units = units(value.as_bytes());
    let length = units.iter().map(|(unit, _)| unit.len()).sum();
    // A rule that escapes a star or dollar is about the characters: their spellings are made one on
    // both sides.
    let is_literal = units
        .iter()
        .any(|(unit, _)| unit == b"%2A" || unit == b"%24");
    let path = if is_literal {
        literal(path)
    } else {
        path.to_vec()
    };
    let atoms: Vec<Atom> = units
        .iter()
        .flat_map(|(unit, is_last)| match &unit[..] {
            b"*" => vec![Atom::Run],
            b"$" if *is_last => vec![Atom::End],
            b"$" | b"%24" if is_literal => vec![Atom::Octet(b'D')],
            b"%2A" => vec![Atom::Octet(b'S')],
            octets => octets
                .iter()
                .map(|octet| Atom::Octet(spared(*octet, is_literal)))
                .collect(),
        })
        .collect();
    accepts(&atoms, &path).then_some(length)
}

/// The path with `S` for every star and `D` for every dollar, and other letters spared the
/// confusion.
fn literal(path: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(path.to_vec()).unwrap();
    let text = text.replace("%2A", "*").replace("%24", "$");
    let mark = |octet| match octet {
        b'*' => b'S',
        b'$' => b'D',
        octet => spared(octet, true),
    };
    text.bytes().map(mark).collect()
}

/// Sets an octet apart from the marks of the literal form.
fn spared(octet: u8, is_literal: bool) -> u8 {
    if is_literal { octet | 0x80 } else { octet }
}

fn accepts(atoms: &[Atom], path: &[u8]) -> bool {
    let Some((first, rest)) = atoms.split_first() else {
        return true;
    };
    match *first {
        Atom::Octet(octet) => path.first() == Some(&octet) && accepts(rest, &path[1..]),
        Atom::Run => (0..=path.len()).any(|skipped| accepts(rest, &path[skipped..])),
        Atom::End => path.is_empty(),
    }
}

/// The comparison form of a path.
pub(crate) fn comparison_form(path: &str) -> Vec<u8> {
    let path = path.split('#').next().unwrap();
    let slash = if path.starts_with('/') { "" } else { "/" };
    units(format!("{slash}{path}").as_bytes())
        .into_iter()
        .flat_map(|(unit, _)| unit)
        .collect()
}

/// Each octet or escape in comparison form, and whether it is the last octet of what is written.
fn units(written: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let mut units = Vec::new();
    let mut at = 0;
    while at < written.len() {
        let escape = written.get(at + 1..at + 3).and_then(|digits| {
            let digits = str::from_utf8(digits)
                .ok()
                .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
            u8::from_str_radix(digits, 16).ok()
        });
        let (octet, width, is_escape) = match (written[at], escape) {
            (b'%', Some(octet)) => (octet, 3, true),
            (octet, _) => (octet, 1, false),
        };
        let is_unreserved = octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
        let is_reserved = b":/?#[]@!$&'()*+,;=%".contains(&octet);
        let unit = if is_unreserved || is_reserved && !is_escape {
            vec![octet]
        } else {
            format!("%{octet:02X}").into_bytes()
        };
        at += width;
        units.push((unit, at == written.len() && !is_escape));
    }
    units
}
