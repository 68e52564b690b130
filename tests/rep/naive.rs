//! The matching rules again, written for plainness: every rule is asked, every way to place a star is tried.

/// What one position of a pattern accepts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Atom {
    Octet(u8),
    /// A literal that may be written in either way.
    Either(&'static str, &'static str),
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
    let (atoms, length) = atoms(value);
    accepts(&atoms, path).then_some(length)
}

fn atoms(value: &str) -> (Vec<Atom>, usize) {
    let mut atoms = Vec::new();
    let mut length = 0;
    for (unit, is_last) in units(value.as_bytes()) {
        length += unit.len();
        match &unit[..] {
            b"*" => atoms.push(Atom::Run),
            b"$" if is_last => atoms.push(Atom::End),
            b"%2A" => atoms.push(Atom::Either("*", "%2A")),
            b"%24" => atoms.push(Atom::Either("$", "%24")),
            octets => atoms.extend(octets.iter().copied().map(Atom::Octet)),
        }
    }
    (atoms, length)
}

fn accepts(atoms: &[Atom], path: &[u8]) -> bool {
    let Some((first, rest)) = atoms.split_first() else {
        return true;
    };
    match *first {
        Atom::Octet(octet) => path.first() == Some(&octet) && accepts(rest, &path[1..]),
        Atom::Either(raw, escaped) => [raw, escaped]
            .iter()
            .any(|way| path.starts_with(way.as_bytes()) && accepts(rest, &path[way.len()..])),
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
