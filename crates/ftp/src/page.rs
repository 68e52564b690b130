//! The listing of a directory as an HTML page, entry by entry: a crawler that reads links finds the files.

use super::listing::{Endless, Entry, Kind, Listing};
use super::path::encoded;

/// A page that is written while its listing comes.
#[derive(Debug)]
pub struct Page {
    listing: Listing,
    /// The URL of the directory; `None` once the page has begun.
    url: Option<String>,
}

impl Page {
    /// Begins the page of the directory at `url`.
    pub fn new(url: String, listing: Listing) -> Page {
        Page { listing, url: Some(url) }
    }

    /// Reads octets of the listing, and returns what they add to the page.
    ///
    /// # Errors
    /// When the listing exceeds its bounds.
    pub fn push(&mut self, octets: &[u8]) -> Result<Vec<u8>, Endless> {
        let mut page = self.begin();
        self.listing.push(octets, |entry| write(&entry, &mut page))?;
        Ok(page)
    }

    /// Returns the end of the page.
    pub fn finish(&mut self) -> Vec<u8> {
        let mut page = self.begin();
        self.listing.finish(|entry| write(&entry, &mut page));
        page.extend_from_slice(b"</pre>\n</body>\n</html>\n");
        page
    }

    /// Returns the beginning of the page at the first call.
    fn begin(&mut self) -> Vec<u8> {
        let Some(url) = self.url.take() else {
            return Vec::new();
        };
        let url = escaped(&url);
        format!(
            "<!DOCTYPE html>\n<html>\n<head>\n<meta charset=\"utf-8\">\n<title>{url}</title>\n</head>\n<body>\n\
             <h1>{url}</h1>\n<pre>\n"
        )
        .into_bytes()
    }
}

/// Writes the line of one entry. Its link is relative, and a reader resolves it to an `ftp` URL.
fn write(entry: &Entry, page: &mut Vec<u8>) {
    let slash = match entry.kind {
        Kind::Directory => "/",
        Kind::File => "",
    };
    let size = entry.size.map_or(String::new(), |size| format!("{size}  "));
    let line = format!(
        "<a href=\"{}\">{}{slash}</a>  {size}{}\n",
        escaped(&link(entry)),
        escaped(&String::from_utf8_lossy(&entry.name)),
        escaped(&entry.modified)
    );
    page.extend_from_slice(line.as_bytes());
}

/// Writes the link to an entry. A colon in it would read as the end of a scheme (RFC 3986 4.2).
fn link(entry: &Entry) -> String {
    let link = encoded(&entry.name, entry.kind == Kind::Directory);
    if link.contains(':') { format!("./{link}") } else { link }
}

/// Escapes text for HTML.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ if character.is_control() => escaped.push('\u{fffd}'),
            _ => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::super::listing::Format;
    use super::*;

    #[test]
    fn a_page_has_a_link_for_each_entry() {
        let listing = Listing::new(Format::Facts);
        let mut page = Page::new("ftp://a.example/x&y/".to_owned(), listing);
        let mut text = Vec::new();
        for part in [
            "type=file;size=3; a b.txt\r\ntype=dir; p",
            "ub\r\ntype=file; <script>\"';type=i\r\n",
            "type=dir; x:a&b=%\r\n",
            "type=file; last",
        ] {
            text.extend(page.push(part.as_bytes()).expect("an end"));
        }
        text.extend(page.finish());
        let text = String::from_utf8(text).expect("UTF-8");
        for expected in [
            "<title>ftp://a.example/x&amp;y/</title>",
            "<a href=\"a%20b.txt\">a b.txt</a>  3  \n",
            "<a href=\"pub/\">pub/</a>  \n",
            "<a href=\"%3Cscript%3E%22&#39;%3Btype=i\">&lt;script&gt;&quot;&#39;;type=i</a>",
            "<a href=\"./x:a&amp;b=%25/\">x:a&amp;b=%/</a>",
            "<a href=\"last\">last</a>",
            "</html>\n",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
        assert_eq!(text.matches("<html>").count(), 1);
    }

    #[test]
    fn an_empty_directory_is_a_page() {
        let mut page = Page::new("ftp://a.example/".to_owned(), Listing::new(Format::Columns));
        let text = String::from_utf8(page.finish()).expect("UTF-8");
        assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    }
}
