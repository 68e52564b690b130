//! Checks of what an FTP server sends, and of the paths of `ftp` URLs, that hold for any octets. The kept corpus and the
//! fuzz target share them; each check panics on a violation.

use crawlgate_ftp::command::Command;
use crawlgate_ftp::listing::{Entry, Format, Kind, Listing};
use crawlgate_ftp::media_type;
use crawlgate_ftp::page::Page;
use crawlgate_ftp::path::{ReadError, Resource, canonical, read};
use crawlgate_ftp::range::Range;
use crawlgate_ftp::reply::{Replies, Reply, ReplyError};
use crawlgate_robots::split_transfer_type;

/// Octets of one line of a server.
const MAX_LINE: usize = 4096;

/// Octets of one reply.
const MAX_REPLY: usize = 64 * 1024;

/// The directory of the pages.
const DIRECTORY: &str = "ftp://a.example/x/";

/// Reads the octets as everything that comes from outside.
pub fn ftp(data: &[u8]) {
    replies(data);
    for format in [Format::Facts, Format::Columns] {
        listing(data, format);
    }
    let text = String::from_utf8_lossy(data);
    path(&text);
    range(&text);
    assert!(media_type::of(data).is_ascii());
}

/// Reads replies as pieces of a length bring them.
fn taken(data: &[u8], length: usize) -> (Vec<Reply>, Option<ReplyError>) {
    let mut replies = Replies::default();
    let mut taken = Vec::new();
    for piece in data.chunks(length) {
        replies.push(piece);
        loop {
            match replies.take() {
                Ok(Some(reply)) => taken.push(reply),
                Ok(None) => break,
                Err(error) => return (taken, Some(error)),
            }
        }
    }
    (taken, None)
}

/// Checks that replies do not depend on how their octets come, and that nothing without an end is kept.
fn replies(data: &[u8]) {
    let (whole, error) = taken(data, data.len().max(1));
    for length in [1, 7] {
        assert_eq!(taken(data, length), (whole.clone(), error));
    }
    for reply in &whole {
        assert!((100..600).contains(&reply.code) && reply.text.len() <= MAX_LINE);
        assert!(!reply.text.contains(&b'\n'));
        let ports = [reply.extended_port(), reply.passive_port()];
        assert!(ports.into_iter().flatten().all(|port| port >= 1024));
        if let Some(size) = reply.size() {
            let text = String::from_utf8_lossy(&reply.text);
            assert_eq!(text.trim().parse(), Ok(size));
        }
        // The end of the year 9999.
        let modified = reply.modified().map(|modified| modified.as_millis());
        assert!(modified.is_none_or(|millis| millis < 253_402_300_800_000));
    }
    if data.is_empty() || !whole.is_empty() {
        return;
    }
    let mut endless = Replies::default();
    let mut pushed = 0;
    while let Ok(None) = endless.take() {
        assert!(pushed <= MAX_REPLY + MAX_LINE + data.len());
        endless.push(data);
        pushed += data.len();
    }
}

/// Reads the entries of a listing as pieces of a length bring them.
fn entries(data: &[u8], format: Format, is_of_login: bool, length: usize) -> Vec<Entry> {
    let mut listing = Listing::new(format).of_login(is_of_login);
    let mut entries = Vec::new();
    for piece in data.chunks(length) {
        listing.push(piece, |entry| entries.push(entry)).unwrap();
    }
    listing.finish(|entry| entries.push(entry));
    entries
}

/// Checks that each entry of a listing is one segment, and that its link on a page leads to it and to nothing else.
fn listing(data: &[u8], format: Format) {
    let found = entries(data, format, false, data.len().max(1));
    for length in [1, 7] {
        assert_eq!(entries(data, format, false, length), found);
    }
    let at_login = entries(data, format, true, 64);
    let beginning = |entry: &&Entry| !entry.name.starts_with(b"~");
    assert!(at_login.iter().eq(found.iter().filter(beginning)));

    let mut page = Page::new(DIRECTORY.to_owned(), Listing::new(format));
    let mut text = page.push(data).unwrap();
    text.extend(page.finish());
    let text = String::from_utf8(text).unwrap();
    let empty = {
        let mut page = Page::new(DIRECTORY.to_owned(), Listing::new(format));
        String::from_utf8(page.finish()).unwrap()
    };
    let tags = |page: &str| page.matches(['<', '>']).count();
    assert_eq!(tags(&text), tags(&empty) + 4 * found.len(), "{text}");
    let directory = url::Url::parse(DIRECTORY).unwrap();
    let links: Vec<&str> = text.split("<a href=\"").skip(1).collect();
    assert_eq!(links.len(), found.len(), "{text}");
    for (link, entry) in links.into_iter().zip(&found) {
        assert!(entry.name.len() <= MAX_LINE);
        let (link, _) = link.split_once('"').unwrap();
        // In a link, no other character is escaped.
        let link = link.replace("&#39;", "'").replace("&amp;", "&");
        let url = directory.join(&link).unwrap();
        assert_eq!(url.host_str(), Some("a.example"), "{link}");
        assert_eq!((url.query(), url.fragment()), (None, None), "{link}");
        let (path, named) = split_transfer_type(url.path());
        assert_eq!(named, None, "{link}");
        let name = [b"x/", entry.name.as_slice()].concat();
        match (read(path), entry.kind) {
            (Ok(Resource::File(found)), Kind::File) => assert_eq!(found.as_bytes(), name),
            (Ok(Resource::Directory(Some(found))), Kind::Directory) => {
                assert_eq!(found.as_bytes(), name);
            }
            other => panic!("{link} is {other:?}"),
        }
    }
}

/// Checks that a path has one spelling, and that its name stays in its command.
fn path(text: &str) {
    let (path, _) = split_transfer_type(text);
    match read(path) {
        Ok(resource) => {
            let spelling = canonical(path).unwrap();
            assert!(spelling == path || spelling.strip_prefix('/') == Some(path));
            assert_eq!(read(&spelling), Ok(resource.clone()));
            let (Resource::File(name) | Resource::Directory(Some(name))) = resource else {
                return;
            };
            for command in [Command::Retr(&name), Command::Cwd(&name)] {
                let line = command.line();
                let ends = line.iter().filter(|octet| matches!(octet, b'\r' | b'\n'));
                assert!(ends.count() == 2 && line.ends_with(b"\r\n"));
            }
            let octets = name.as_bytes();
            let is_foreign = |octet: &u8| br"*?[{\".contains(octet) || matches!(octet, 0 | 0xff);
            assert!(!octets.iter().any(is_foreign) && !octets.starts_with(b"~"));
            let mut segments = octets.split(|octet| *octet == b'/');
            assert!(segments.all(|segment| !matches!(segment, b"" | b"." | b"..")));
        }
        Err(ReadError::Spelled(spelling)) => {
            assert!(read(&spelling).is_ok(), "{spelling}");
            assert_eq!(canonical(path), Some(spelling));
        }
        Err(ReadError::Nameless(error)) => {
            assert_eq!(canonical(path), None);
            assert!(!error.advice().is_empty());
        }
    }
}

/// Checks that a range lies within its file.
fn range(text: &str) {
    for size in [0, 1, 10, u64::MAX] {
        if let Range::Part { from, to } = Range::read(text, size) {
            assert!(from <= to && to < size, "{text} of {size}");
        }
    }
}
