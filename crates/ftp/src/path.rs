//! The path of an `ftp` URL: which file or directory of the server it names (RFC 1738 3.2.2).
//!
//! A server without queries, redirects and rewriting serves one file for one name, so a path that robots.txt judges
//! must have one meaning. Spellings that a server would read as another path are refused instead of guessed: an escaped
//! slash, an empty or a dot segment, a query, a pattern. The name is relative to the directory of the login, as
//! robots.txt is.

use crawlgate_robots::{digit, split_transfer_type};

/// A name that fits into one command, and names one file: it holds no line end, no NUL, no Telnet control octet and no
/// pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(Vec<u8>);

/// The resource that a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// A file.
    File(Name),
    /// A directory; `None`: that of the login.
    Directory(Option<Name>),
}

/// The reason that a path names nothing on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// It holds a control octet or the octet FF: CR, LF, NUL and FF would end the command or begin another one, and some
    /// servers (Pure-FTPd) read all others as `_`.
    Control,
    /// It begins or ends with a space, or begins with `"`: some servers (FileZilla Server) leave these out.
    Edge,
    /// It holds an escaped slash.
    Slash,
    /// It holds an empty segment.
    Empty,
    /// It holds a dot segment.
    Dots,
    /// It holds a query.
    Query,
    /// Its first segment begins with `~`: servers expand that to the home of a user.
    Home,
    /// It holds `*`, `?`, `[`, `{` or `\`: some servers (FreeBSD's ftpd) expand these in the name of every command, and
    /// serve a file that fits.
    Pattern,
    /// It holds a `%` that begins no escape.
    Percent,
}

/// The reason that a path cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    /// It names nothing, however it is spelled.
    Nameless(PathError),
    /// It has another than the one spelling of its name, which is this.
    Spelled(String),
}

impl PathError {
    /// Says how to write the URL.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Control => {
                "The path of an ftp URL cannot hold a control octet or the octet FF: they would be read as another command or another name."
            }
            Self::Edge => {
                "The name in an ftp URL cannot begin or end with a space, or begin with a quotation mark: some servers leave them out and serve another file. Files with such names cannot be asked for."
            }
            Self::Slash => "Write the slashes of an ftp path as they are, not as %2F.",
            Self::Empty => "Write the path of an ftp URL without doubled slashes.",
            Self::Dots => "Write the path of an ftp URL without dot segments.",
            Self::Query => "An ftp URL has no query: leave out the ? and everything behind it.",
            Self::Home => {
                "An ftp path begins at the directory of the login and names no home: write it without the ~ at its beginning."
            }
            Self::Pattern => {
                "A name in an ftp URL cannot hold *, ?, [, { or \\, also not escaped: some servers expand them and serve another file. Files with such names cannot be asked for."
            }
            Self::Percent => "Write the % of a file's name in an ftp URL as %25.",
        }
    }
}

impl Name {
    /// Checks a decoded name: the wall between URLs and the control connection.
    ///
    /// # Errors
    /// When it holds an octet that ends a command or begins a Telnet one (RFC 959 4.1, RFC 854), one that begins a
    /// pattern, or one that a server may read as another or leave out.
    pub fn new(octets: Vec<u8>) -> Result<Name, PathError> {
        let has = |is: fn(&u8) -> bool| octets.iter().any(is);
        if has(|octet| matches!(octet, 0..=0x1f | 0x7f | 0xff)) {
            return Err(PathError::Control);
        }
        if matches!(octets[..], [b' ' | b'"', ..] | [.., b' ']) {
            return Err(PathError::Edge);
        }
        if has(|octet| matches!(octet, b'*' | b'?' | b'[' | b'{' | b'\\')) {
            return Err(PathError::Pattern);
        }
        Ok(Name(octets))
    }

    /// Returns its octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Reads the path of a URL, without its transfer type.
///
/// # Errors
/// When it has more than one meaning, or none, or is not the one spelling of its name: rules compare spellings, and the
/// server gets the name.
pub fn read(path: &str) -> Result<Resource, ReadError> {
    let resource = resource(path).map_err(ReadError::Nameless)?;
    let spelling = spelled(&resource);
    if spelling == path || spelling.strip_prefix('/') == Some(path) {
        Ok(resource)
    } else {
        Err(ReadError::Spelled(spelling))
    }
}

/// Returns the one spelling of a path: escapes stand only for octets that a segment cannot hold (RFC 3986 3.3). `None`
/// if the path cannot be read, however it is spelled.
pub fn canonical(path: &str) -> Option<String> {
    Some(spelled(&resource(path).ok()?))
}

/// Writes a name in its one spelling; that of a directory ends in a slash.
pub(super) fn encoded(name: &[u8], is_directory: bool) -> String {
    let mut text = String::with_capacity(name.len());
    for octet in name {
        match octet {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' // unreserved
            | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'+' | b',' | b';' | b'=' // sub-delims without *
            | b':' | b'@' | b'/' => text.push(char::from(*octet)),
            _ => text.push_str(&format!("%{octet:02X}")),
        }
    }
    if is_directory {
        text.push('/');
    }
    // The escape tells the end of such a name from a transfer type.
    let (name, named) = split_transfer_type(&text);
    match named.and(text.get(name.len() + 1..)) {
        Some(behind) => format!("{name}%3B{behind}"),
        None => text,
    }
}

fn spelled(resource: &Resource) -> String {
    match resource {
        Resource::Directory(None) => "/".to_owned(),
        Resource::Directory(Some(name)) => format!("/{}", encoded(name.as_bytes(), true)),
        Resource::File(name) => format!("/{}", encoded(name.as_bytes(), false)),
    }
}

fn resource(path: &str) -> Result<Resource, PathError> {
    if path.contains('?') {
        return Err(PathError::Query);
    }
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() {
        return Ok(Resource::Directory(None));
    }
    let (names, is_directory) = match path.strip_suffix('/') {
        Some(names) => (names, true),
        None => (path, false),
    };
    let mut name = Vec::with_capacity(names.len());
    for segment in names.split('/') {
        let segment = decoded(segment.as_bytes()).ok_or(PathError::Percent)?;
        match segment.as_slice() {
            [] => return Err(PathError::Empty),
            b"." | b".." => return Err(PathError::Dots),
            segment if segment.contains(&b'/') => return Err(PathError::Slash),
            [b'~', ..] if name.is_empty() => return Err(PathError::Home),
            segment => {
                if !name.is_empty() {
                    name.push(b'/');
                }
                name.extend_from_slice(segment);
            }
        }
    }
    let name = Name::new(name)?;
    Ok(if is_directory { Resource::Directory(Some(name)) } else { Resource::File(name) })
}

/// Decodes escapes once. `None` if a `%` begins none: it would stand for itself, which `%25` does, too.
fn decoded(segment: &[u8]) -> Option<Vec<u8>> {
    let mut octets = Vec::with_capacity(segment.len());
    let mut rest = segment;
    while let Some((first, after)) = rest.split_first() {
        match (first, after) {
            (b'%', [high, low, behind @ ..]) => {
                octets.push(digit(*high)? << 4 | digit(*low)?);
                rest = behind;
            }
            (b'%', _) => return None,
            _ => {
                octets.push(*first);
                rest = after;
            }
        }
    }
    Some(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn described(path: &str) -> String {
        let text = |name: &Name| String::from_utf8_lossy(name.as_bytes()).into_owned();
        match read(path) {
            Ok(Resource::File(name)) => text(&name),
            Ok(Resource::Directory(None)) => "/".to_owned(),
            Ok(Resource::Directory(Some(name))) => format!("{}/", text(&name)),
            Err(ReadError::Nameless(error)) => format!("{error:?}"),
            Err(ReadError::Spelled(spelling)) => format!("write {spelling}"),
        }
    }

    #[test]
    fn a_path_names_one_file() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("/", "/"),
            ("", "/"),
            ("/a", "a"),
            ("/pub/a.txt", "pub/a.txt"),
            ("/pub/", "pub/"),
            ("/p%75b/%61", "write /pub/a"),
            ("/a%3Db", "write /a=b"),
            ("/a=b", "a=b"),
            ("/a%c3%a9", "write /a%C3%A9"),
            ("/a b", "write /a%20b"),
            ("/a]}", "write /a%5D%7D"),
            ("/a%5D%7D", "a]}"),
            ("/!$&'()+,;=:@-._~", "!$&'()+,;=:@-._~"),
            ("/!$&'()*+,;=:@-._~", "Pattern"),
            ("/[a]", "Pattern"),
            ("/%5Ba%5D", "Pattern"),
            ("/%5bp]rivate/x", "Pattern"),
            ("/priv*te/x", "Pattern"),
            ("/priv%2Ate/x", "Pattern"),
            ("/priv%3Fte/x", "Pattern"),
            ("/{private,x}/x", "Pattern"),
            ("/%7Bprivate,x%7D/x", "Pattern"),
            ("/pri\\vate/x", "Pattern"),
            ("/pri%5Cvate/x", "Pattern"),
            ("/a/*/", "Pattern"),
            ("/a;type=i", "write /a%3Btype=i"),
            ("/a%3Btype=i", "a;type=i"),
            ("/a%3Btype=x", "write /a;type=x"),
            ("/a%3Btype=i/", "write /a;type=i/"),
            ("/a;type=i/", "a;type=i/"),
            ("/a%20b%3Fc%23d", "Pattern"),
            ("/a%20b%23d", "a b#d"),
            ("/a%zz", "Percent"),
            ("/a%", "Percent"),
            ("/a%2/b", "Percent"),
            ("/a%25zz", "a%zz"),
            ("/~", "Home"),
            ("/~root/x", "Home"),
            ("/%7E/x", "Home"),
            ("~/", "Home"),
            ("/pub/~x", "pub/~x"),
            ("/a~", "a~"),
            ("/a%2561", "a%61"),
            ("/C%C3%A9", "Cé"),
            ("/...", "..."),
            ("/-la", "-la"),
            ("//a", "Empty"),
            ("/a//b", "Empty"),
            ("/a//", "Empty"),
            ("/./a", "Dots"),
            ("/a/../b", "Dots"),
            ("/a/%2e%2E/b", "Dots"),
            ("/a/..", "Dots"),
            ("/%2Fetc", "Slash"),
            ("/a%2fb", "Slash"),
            ("/a%0d%0aDELE%20x", "Control"),
            ("/a%0Ab", "Control"),
            ("/a%0D", "Control"),
            ("/a%00b", "Control"),
            ("/a%01b", "Control"),
            ("/a%1Fb", "Control"),
            ("/a%7Fb", "Control"),
            ("/a%C2%80b", "a\u{80}b"),
            ("/%20a/b", "Edge"),
            ("/a/b%20", "Edge"),
            ("/%22a/b%22", "Edge"),
            ("/a%20/%22b", "a /\"b"),
            ("/a%FF%f4", "Control"),
            ("/a%0A/", "Control"),
            ("/a?b", "Query"),
            ("/a?", "Query"),
        ];
        for (path, expected) in cases {
            assert_eq!(described(path), expected, "{path}");
        }
    }

    proptest! {
        /// Each file has one spelling, which is its own.
        #[test]
        fn one_spelling_is_read(path in "[/.%a-f0-9;=:typei~ ]{0,24}|\\PC{0,24}") {
            let Some(spelling) = canonical(&path) else {
                return Ok(());
            };
            prop_assert_eq!(resource(&spelling), resource(&path));
            prop_assert_eq!(canonical(&spelling), Some(spelling.clone()));
            prop_assert_eq!(split_transfer_type(&spelling), (spelling.as_str(), None));
            prop_assert!(read(&spelling).is_ok());
        }

        /// No path brings a line end or a pattern into a name, nor a segment that leads elsewhere.
        #[test]
        fn no_path_breaks_out(path in "[/.%a-f0-9;?*\\[{\\\\ ]{0,24}|[/a-c]{0,9}(%[0-9A-F]{2}){0,5}|\\PC{0,24}") {
            let name = match read(&path) {
                Ok(Resource::File(name) | Resource::Directory(Some(name))) => name,
                Ok(Resource::Directory(None)) | Err(_) => return Ok(()),
            };
            let octets = name.as_bytes();
            prop_assert!(!octets.iter().any(|octet| matches!(octet, 0..=0x1f | 0x7f | 0xff)));
            let has_pattern = octets.iter().any(|octet| br"*?[{\".contains(octet));
            prop_assert!(!has_pattern);
            prop_assert!(octets.split(|octet| *octet == b'/').all(|segment| !matches!(segment, b"" | b"." | b"..")));
        }
    }
}
