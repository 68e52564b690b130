//! Checks of what sites say of use that hold for any octets. The kept corpus and the fuzz targets share them; each
//! check panics on a violation.

use std::collections::HashSet;

use crawlgate_robots::{Field, ParseOptions, ProductToken, Robots};
use crawlgate_usage::record::FieldRecord;
use crawlgate_usage::{
    Category, Modes, Place, Preference, Purpose, Purposes, Said, SignalMode, Statements, TdmRep,
    Value, fields, judge, lines, notes, tdmrep as file,
};

/// Everything is read and enforced.
fn modes() -> Modes {
    Modes {
        tdmrep: SignalMode::Enforce,
        robots_tag: SignalMode::Enforce,
        license: SignalMode::Enforce,
        ..Modes::default()
    }
}

fn chain() -> [ProductToken; 2] {
    ["ExampleBot-News", "ExampleBot"].map(|name| ProductToken::new(name).unwrap())
}

fn purposes() -> Purposes {
    Purpose::ALL.into_iter().collect()
}

/// Checks the bounds, and that the judgement follows from the preferences.
fn bounded(said: &Said, modes: &Modes) {
    assert!(said.preferences.len() <= Said::PREFERENCES);
    assert!(said.invalid.len() <= Said::INVALID && said.ignored.len() <= Said::IGNORED);
    assert!(said.licenses.len() <= Said::LICENSES);
    assert!(said.preferences.iter().all(|one| one.text.len() <= 1024));
    assert!(said.ignored.iter().all(|key| key.len() <= 1024));
    let judged = judge(purposes(), modes, said, None);
    for category in Category::ALL {
        let of = said.preferences.iter().filter(|one| one.category == category);
        let strictest = of.map(|one| one.value).max().unwrap_or(Value::Unknown);
        assert_eq!(judged.combined.get(category), strictest);
    }
    let expected = purposes().iter().filter(|purpose| {
        let mut asked = purpose.asks().iter();
        asked.any(|category| judged.combined.get(category) == Value::Disallow)
    });
    assert_eq!(judged.refused, expected.collect());
    assert_eq!(judged.unlicensed, !said.licenses.is_empty());
    let twice = said.clone().and(said);
    assert_eq!(judge(purposes(), modes, &twice, None), judged);
}

fn values(said: &Said) -> Vec<(Category, Value)> {
    let value = |one: &Preference| (one.category, one.value);
    said.preferences.iter().map(value).collect()
}

/// Reads a path (first line) and a robots.txt (the rest), and one statement: the first line again.
pub(crate) fn statements(data: &[u8]) {
    let end = data.iter().position(|octet| *octet == b'\n');
    let (first, text) = data.split_at(end.unwrap_or(data.len()));
    let text = text.get(1..).unwrap_or_default();
    let modes = modes();
    for lenient in [true, false] {
        let limit = text.len();
        let robots = Robots::parse(text, ParseOptions { lenient, limit });
        let on_use = robots.others().filter(|other| other.field.is_of_usage());
        assert_eq!(robots.has_usage(), on_use.count() > 0);
        let on_use: HashSet<u32> = robots.others().map(|other| other.line).collect();
        assert!(notes(&robots).is_sorted_by_key(|note| note.line));
        for chain in [&chain()[..], &[]] {
            let statements = Statements::of(&robots, chain);
            let [plain, guarded] = [false, true].map(|guard| statements.at(first, guard, &modes));
            for said in [&plain, &guarded] {
                bounded(said, &modes);
                let judged = judge(purposes(), &modes, said, None);
                let refuses = !judged.refused.is_empty() || judged.unlicensed;
                assert!(!refuses || statements.refuses_somewhere(purposes(), &modes));
                let places = said.preferences.iter().map(|one| &one.place);
                for place in places.chain(said.invalid.iter().map(|one| &one.place)) {
                    let is_line =
                        matches!(place, Place::Robots { line, .. } if on_use.contains(line));
                    assert!(is_line, "{place:?}");
                }
            }
            // What is said of the path as written is said of all its readings.
            if guarded.preferences.len() < Said::PREFERENCES {
                assert!(plain.preferences.iter().all(|one| guarded.preferences.contains(one)));
            }
            assert!(!statements.is_empty() || plain.is_empty());
        }
    }
    statement(first);
}

/// Reads one statement as a line and as a field, which must be one.
fn statement(text: &[u8]) {
    let is_plain = !text.iter().any(|octet| b"\r\n#\0\x0B\x0C".contains(octet));
    if !is_plain || text.first() == Some(&b'/') || text.len() > fields::LONGEST {
        return;
    }
    for (field, name) in
        [(Field::ContentUsage, "Content-Usage"), (Field::ContentSignal, "Content-Signal")]
    {
        let file = [b"User-agent: *\n", name.as_bytes(), b":", text].concat();
        let robots = Robots::parse(&file, ParseOptions { lenient: true, limit: file.len() });
        assert!(robots.others().next().is_none_or(|other| other.field == field));
        let modes = modes();
        let as_line = Statements::of(&robots, &[]).at(b"/", true, &modes);
        let as_field = fields::read(&lines::of([(name, text)].into_iter()), &[], &modes);
        if text.trim_ascii().first() == Some(&b'/') {
            continue;
        }
        assert_eq!(values(&as_line), values(&as_field), "{}", text.escape_ascii());
        assert_eq!(as_line.ignored, as_field.ignored);
        assert_eq!(as_line.invalid.len(), as_field.invalid.len());
    }
}

/// Reads the field lines of a response: `name: value`.
pub(crate) fn fields(data: &[u8]) {
    let lines: Vec<(String, &[u8])> = data
        .split(|octet| *octet == b'\n')
        .filter_map(|line| {
            let colon = line.iter().position(|octet| *octet == b':')?;
            let name = String::from_utf8_lossy(&line[..colon]).into_owned();
            Some((name, &line[colon + 1..]))
        })
        .collect();
    let all = lines.iter().map(|(name, value)| (&**name, *value));
    let of_usage = lines::of(all.clone());
    let modes = modes();
    let chain = chain();
    let said = fields::read(&of_usage, &chain, &modes);
    bounded(&said, &modes);
    for (name, line) in all {
        let record = FieldRecord::of(name, line, false);
        assert_eq!(record.line().as_deref(), Some(line), "a line from its record");
        let unread = FieldRecord::of(name, line, true).line().unwrap();
        assert_eq!(unread.len(), line.len().min(fields::LONGEST + 1));
    }
    let off = Modes {
        content_usage: SignalMode::Off,
        content_signal: SignalMode::Off,
        tdm_reservation: SignalMode::Off,
        robots_tag: SignalMode::Off,
        license: SignalMode::Off,
        ..modes.clone()
    };
    assert!(fields::read(&of_usage, &chain, &off).is_empty());
    // A crawler without a token is addressed by fewer names.
    let stranger = fields::read(&of_usage, &[], &modes);
    let is_general = |one: &Preference| said.preferences.contains(one);
    assert!(
        said.preferences.len() == Said::PREFERENCES || stranger.preferences.iter().all(is_general)
    );
}

/// Reads a path (first line) and a tdmrep.json (the rest).
pub(crate) fn tdmrep(data: &[u8]) {
    let end = data.iter().position(|octet| *octet == b'\n');
    let (path, text) = data.split_at(end.unwrap_or(data.len()));
    let text = text.get(1..).unwrap_or_default();
    let modes = modes();
    let parsed = match TdmRep::parse(text) {
        Ok(parsed) => parsed,
        Err(why) => return bounded(&file::unusable(why), &modes),
    };
    let [plain, guarded] = [false, true].map(|guard| parsed.at(path, guard));
    assert!(plain.preferences.len() <= 1, "one entry decides");
    for said in [&plain, &guarded] {
        bounded(said, &modes);
        let judged = judge(purposes(), &modes, said, None);
        assert!(judged.refused.is_empty() || parsed.refuses_somewhere(purposes(), &modes));
        let is_entry = |one: &Preference| matches!(one.place, Place::Entry(1..));
        assert!(said.preferences.iter().all(is_entry));
    }
    assert!(plain.preferences.iter().all(|one| guarded.preferences.contains(one)));
}
