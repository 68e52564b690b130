//! Listings of a directory, line by line: MLSD (RFC 3659 section 7), and the two forms of LIST that servers use, of Unix
//! and of DOS. No standard describes LIST, so a line that is not understood is left out.

use super::path::Name;

/// Octets of one line. A longer one is left out.
const MAX_LINE: usize = 4096;

/// Lines of one listing. The largest directories of public servers have some hundred thousand entries.
const MAX_LINES: u32 = 1_000_000;

/// Octets of one listing.
const MAX_OCTETS: usize = 128 * 1024 * 1024;

/// The listing exceeds its bounds: it may have no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endless;

/// The command that a listing answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// MLSD: facts for machines.
    Facts,
    /// LIST: columns for people.
    Columns,
}

/// The kind of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A file, or a link to something unknown.
    File,
    /// A directory.
    Directory,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub kind: Kind,
    /// Its name: one segment of a path.
    pub name: Vec<u8>,
    /// Its length in octets, if it is a file.
    pub size: Option<u64>,
    /// Its time of modification, as the server writes it.
    pub modified: String,
}

/// The octets of a listing, as entries.
#[derive(Debug)]
pub struct Listing {
    format: Format,
    /// The beginning of a line.
    buffer: Vec<u8>,
    /// True while the rest of a line that is too long is skipped.
    is_skipping: bool,
    /// True if the directory is that of the login.
    is_of_login: bool,
    /// Lines that have ended.
    lines: u32,
    /// Octets of all lines.
    octets: usize,
}

impl Listing {
    /// Begins a listing.
    pub fn new(format: Format) -> Listing {
        Listing {
            format,
            buffer: Vec::new(),
            is_skipping: false,
            is_of_login: false,
            lines: 0,
            octets: 0,
        }
    }

    /// Makes it a listing of the directory of the login: its entries are the first segments of paths.
    pub fn of_login(self, is_of_login: bool) -> Listing {
        Listing { is_of_login, ..self }
    }

    /// Reads more octets, and gives each entry with a whole line to `take`.
    ///
    /// # Errors
    /// When the listing exceeds its bounds.
    pub fn push(&mut self, octets: &[u8], mut take: impl FnMut(Entry)) -> Result<(), Endless> {
        self.octets = self.octets.saturating_add(octets.len());
        if self.octets > MAX_OCTETS {
            return Err(Endless);
        }
        let mut rest = octets;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.lines == MAX_LINES {
                return Err(Endless);
            }
            self.lines += 1;
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            self.keep(line);
            self.end_line(&mut take);
            rest = after.get(1..).unwrap_or_default();
        }
        self.keep(rest);
        Ok(())
    }

    /// Reads the last line, which may lack its end.
    pub fn finish(&mut self, mut take: impl FnMut(Entry)) {
        self.end_line(&mut take);
    }

    fn keep(&mut self, part: &[u8]) {
        if self.is_skipping || self.buffer.len() + part.len() > MAX_LINE {
            self.is_skipping = true;
            self.buffer.clear();
            return;
        }
        self.buffer.extend_from_slice(part);
    }

    fn end_line(&mut self, take: &mut impl FnMut(Entry)) {
        let is_cut = std::mem::take(&mut self.is_skipping);
        let line = self.buffer.strip_suffix(b"\r").unwrap_or(&self.buffer);
        let entry = match (is_cut, self.format) {
            (true, _) => None,
            (false, Format::Facts) => facts(line),
            (false, Format::Columns) => unix(line).or_else(|| dos(line)),
        };
        // A path that begins with `~` is refused.
        let is_home = |entry: &Entry| self.is_of_login && entry.name.starts_with(b"~");
        if let Some(entry) = entry.filter(|entry| is_segment(&entry.name) && !is_home(entry)) {
            take(entry);
        }
        self.buffer.clear();
    }
}

/// Tells whether a name is one that a path can have: a link to any other would be refused, or lead elsewhere.
fn is_segment(name: &[u8]) -> bool {
    let is_dots = matches!(name, b"" | b"." | b"..");
    !is_dots && !name.contains(&b'/') && Name::new(name.to_vec()).is_ok()
}

/// Reads a line of MLSD: `Type=file;Size=12;Modify=20261120120000; name`.
fn facts(line: &[u8]) -> Option<Entry> {
    let space = memchr::memchr(b' ', line)?;
    let (facts, name) = line.split_at_checked(space)?;
    let facts = std::str::from_utf8(facts).ok()?;
    let mut kind = None;
    let (mut size, mut modified) = (None, String::new());
    for fact in facts.split(';') {
        let Some((fact, value)) = fact.split_once('=') else {
            continue;
        };
        match fact.to_ascii_lowercase().as_str() {
            "type" => kind = Some(value.to_ascii_lowercase()),
            "size" => size = value.parse().ok(),
            "modify" => modified = day_and_time(value).unwrap_or_default(),
            _ => {}
        }
    }
    let kind = match kind?.as_str() {
        "dir" => Kind::Directory,
        "cdir" | "pdir" => return None,
        _ => Kind::File,
    };
    Some(Entry {
        kind,
        name: name.get(1..)?.to_vec(),
        size: size.filter(|_| kind == Kind::File),
        modified,
    })
}

/// Writes a time-val of RFC 3659 for people: `2026-11-20 12:00`.
fn day_and_time(value: &str) -> Option<String> {
    let digits = value.get(..12)?;
    if !digits.bytes().all(|octet| octet.is_ascii_digit()) {
        return None;
    }
    let part = |from, to| digits.get(from..to).unwrap_or_default();
    Some(format!("{}-{}-{} {}:{}", part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 12)))
}

/// Reads a line of a Unix server: `-rw-r--r-- 1 owner group 12 Nov 20 12:00 name`. Some leave the group out.
fn unix(line: &[u8]) -> Option<Entry> {
    let kind = match line.first()? {
        b'd' => Kind::Directory,
        b'-' | b'l' => Kind::File,
        _ => return None,
    };
    let (permissions, _) = word(line)?;
    if permissions.len() < 10 {
        return None;
    }
    // The columns end at the month; what stands before it is the size.
    let mut rest = line;
    let mut size = None;
    for column in 0..6 {
        let (this, after) = word(rest)?;
        if column >= 3
            && is_month(this)
            && let Some((day, after)) = word(after)
            && let Some((time, after)) = word(after)
            && is_day(day)
            && is_time_or_year(time)
        {
            let name = after.get(1..)?;
            let modified = [this, day, time].map(String::from_utf8_lossy).join(" ");
            let name = match line.first() {
                Some(b'l') => memchr::memmem::find(name, b" -> ")
                    .and_then(|arrow| name.get(..arrow))
                    .unwrap_or(name),
                _ => name,
            };
            return Some(Entry {
                kind,
                name: name.to_vec(),
                size: size.filter(|_| line.first() == Some(&b'-')),
                modified,
            });
        }
        size = std::str::from_utf8(this).ok().and_then(|text| text.parse().ok());
        rest = after;
    }
    None
}

/// Reads a line of a DOS server: `11-20-26 12:00PM <DIR> name`, `11-20-26 12:00PM 12 name`.
fn dos(line: &[u8]) -> Option<Entry> {
    let (date, rest) = word(line)?;
    let (time, rest) = word(rest)?;
    let (size, rest) = word(rest)?;
    let is_date = matches!(date.len(), 8 | 10)
        && date.iter().all(|octet| octet.is_ascii_digit() || *octet == b'-');
    if !is_date || !time.contains(&b':') {
        return None;
    }
    let kind = match size {
        b"<DIR>" => Kind::Directory,
        _ => Kind::File,
    };
    let octets = std::str::from_utf8(size).ok().and_then(|text| text.parse().ok());
    if kind == Kind::File && octets.is_none() {
        return None;
    }
    Some(Entry {
        kind,
        name: rest.trim_ascii_start().to_vec(),
        size: octets,
        modified: [date, time].map(String::from_utf8_lossy).join(" "),
    })
}

/// Splits the first word off, and the white space before it.
fn word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii_start();
    let end = line.iter().position(|octet| *octet == b' ');
    let (word, rest) = line.split_at_checked(end.unwrap_or(line.len()))?;
    (!word.is_empty()).then_some((word, rest))
}

fn is_month(word: &[u8]) -> bool {
    const MONTHS: &[u8] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let word = word.to_ascii_lowercase();
    word.len() == 3 && MONTHS.chunks(3).any(|month| month == word)
}

fn is_day(word: &[u8]) -> bool {
    let day = std::str::from_utf8(word).ok().and_then(|day| day.parse().ok());
    day.is_some_and(|day: u8| (1..=31).contains(&day))
}

/// Tells whether a word is `12:00` or `2025`.
fn is_time_or_year(word: &[u8]) -> bool {
    let is_number = |part: &[u8], most: usize| {
        (1..=most).contains(&part.len()) && part.iter().all(u8::is_ascii_digit)
    };
    let is_time =
        word.contains(&b':') && word.split(|octet| *octet == b':').all(|part| is_number(part, 2));
    is_time || (word.len() == 4 && is_number(word, 4))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries(format: Format, octets: &[u8]) -> Vec<String> {
        let mut listing = Listing::new(format);
        let mut entries = Vec::new();
        let mut take = |entry: Entry| {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let slash = if entry.kind == Kind::Directory { "/" } else { "" };
            let size = entry.size.map_or(String::new(), |size| size.to_string());
            entries.push(format!("{name}{slash}|{size}|{}", entry.modified));
        };
        listing.push(octets, &mut take).expect("an end");
        listing.finish(&mut take);
        entries
    }

    #[test]
    fn lines_become_entries() {
        use Format::{Columns, Facts};
        #[rustfmt::skip] // one row, one case
        let cases = [
            (Facts, "type=file;size=12;modify=20261120120000; a b", "a b|12|2026-11-20 12:00"),
            (Facts, "Type=dir;Modify=20261120120000.123;UNIX.mode=0755; pub", "pub/||2026-11-20 12:00"),
            (Facts, "type=OS.unix=slink:/x;size=3; link", "link|3|"),
            (Facts, "type=file;size=-1;modify=x; a", "a||"),
            (Facts, "type=cdir;; .", ""),
            (Facts, "type=pdir; ..", ""),
            (Facts, "type=file; a/b", ""),
            (Facts, "type=file; ..", ""),
            (Facts, "type=file; priv*te", ""),
            (Facts, "type=file; priv?te", ""),
            (Facts, "type=dir; [p]rivate", ""),
            (Facts, "type=dir; {private,x}", ""),
            (Facts, "type=file; pri\\vate", ""),
            (Facts, "type=file; a]}", "a]}||"),
            (Facts, "size=12; a", ""),
            (Facts, "no facts", ""),
            (Facts, "type=file;", ""),
            (Columns, "-rw-r--r--   1 ftp  ftp    12 Nov 20 12:00 a.txt", "a.txt|12|Nov 20 12:00"),
            (Columns, "-rw-r--r--   1 ftp  ftp    12 Nov 20  2025 a  b", "a  b|12|Nov 20 2025"),
            (Columns, "-rw-r--r--   1 ftp  ftp    12 Nov 20  2025 a  b ", ""),
            (Columns, "drwxr-xr-x   2 ftp  ftp  4096 Nov  2 12:00 pub", "pub/||Nov 2 12:00"),
            (Columns, "lrwxrwxrwx   1 ftp  ftp     3 Nov 20 12:00 l -> pub", "l||Nov 20 12:00"),
            (Columns, "-rw-r--r--   1 owner 12 Nov 20 12:00 no-group", "no-group|12|Nov 20 12:00"),
            (Columns, "-rw-r--r--   1 ftp  ftp    12 Nov 20 12:00  begins with a space", ""),
            (Columns, "-rw-r--r--   1 ftp  may    12 Nov 20 12:00 a", "a|12|Nov 20 12:00"),
            (Columns, "-rw-r--r--   1 ftp  dec    12 Nov 20  2025 a", "a|12|Nov 20 2025"),
            (Columns, "-rw-r--r--   1 ftp  ftp    12 Nov 32 12:00 a", ""),
            (Columns, "-rw-r--r--   1 ftp  ftp    12 Nov 20 noon a", ""),
            (Columns, "11-20-26  12:00PM       <DIR>          pub", "pub/||11-20-26 12:00PM"),
            (Columns, "11-20-2026  12:00PM       12 a b.txt", "a b.txt|12|11-20-2026 12:00PM"),
            (Columns, "total 12", ""),
            (Columns, "", ""),
            (Columns, "-rw-r--r-- 1 ftp ftp 12 Nov 20 12:00 ../etc", ""),
            (Columns, "-rw-r--r-- 1 ftp ftp 12 Nov 20 12:00 priv?te", ""),
            (Columns, "11-20-26  12:00PM       <DIR>          {private,x}", ""),
            (Columns, "-rw-r--r-- 1 ftp ftp 12 Nov 20 12:00", ""),
        ];
        for (format, line, expected) in cases {
            let found = entries(format, line.as_bytes());
            let expected: Vec<&str> =
                [expected].into_iter().filter(|text| !text.is_empty()).collect();
            assert_eq!(found, expected, "{line}");
            assert_eq!(
                entries(format, format!("{line}\r\n").as_bytes()),
                expected,
                "{line}, ended"
            );
        }
    }

    #[test]
    fn a_home_is_left_out_where_paths_begin() {
        for (is_of_login, expected) in [(true, 1), (false, 2)] {
            let mut listing = Listing::new(Format::Facts).of_login(is_of_login);
            let mut found = 0;
            let listed = listing.push(b"type=dir; ~x\ntype=file; x~\n", |_| found += 1);
            assert_eq!(listed, Ok(()));
            assert_eq!(found, expected, "{is_of_login}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_memory() {
        let mut listing = Listing::new(Format::Facts);
        let mut found = 0;
        for _ in 0..1000 {
            let listed = listing.push(&[b'x'; 1000], |_| found += 1);
            assert_eq!(listed, Ok(()));
            assert!(listing.buffer.capacity() <= 2 * MAX_LINE);
        }
        let listed = listing.push(b"\ntype=file; a\n", |_| found += 1);
        assert_eq!((listed, found), (Ok(()), 1), "the line after it counts");
    }

    #[test]
    fn a_listing_without_end_is_an_error() {
        let lines = "\n".repeat(MAX_LINES as usize);
        let octets = "x".repeat(MAX_OCTETS);
        for (name, whole) in [("lines", lines), ("octets", octets)] {
            let mut listing = Listing::new(Format::Facts);
            assert_eq!(listing.push(whole.as_bytes(), |_| {}), Ok(()), "{name}");
            assert_eq!(listing.push(b"\n", |_| {}), Err(Endless), "{name}");
        }
    }

    proptest! {
        #[test]
        fn cuts_change_nothing(octets in "(type=file; [ab./]{0,3}|-rw-r--r-- 1 a b 1 Nov 1 1:00 x|[ -~]{0,9})?(\r?\n)?.{0,20}", cut in 0usize..40, facts: bool) {
            let format = if facts { Format::Facts } else { Format::Columns };
            let octets = octets.as_bytes();
            let cut = cut.min(octets.len());
            let mut listing = Listing::new(format);
            let mut found = Vec::new();
            for part in [&octets[..cut], &octets[cut..]] {
                prop_assert_eq!(listing.push(part, |entry| found.push(entry)), Ok(()));
            }
            listing.finish(|entry| found.push(entry));
            prop_assert_eq!(found.len(), entries(format, octets).len());
        }

        #[test]
        fn no_octets_panic_and_every_name_is_a_segment(octets: Vec<u8>, facts: bool) {
            let mut listing = Listing::new(if facts { Format::Facts } else { Format::Columns });
            let mut all = Vec::new();
            prop_assert_eq!(listing.push(&octets, |entry| all.push(entry)), Ok(()));
            listing.finish(|entry| all.push(entry));
            prop_assert!(all.iter().all(|entry| is_segment(&entry.name)));
        }
    }
}
