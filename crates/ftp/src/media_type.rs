//! The media type of a file by the end of its name: FTP tells none.

/// Types by suffix, in lower case.
const TYPES: &[(&str, &str)] = &[
    ("txt", "text/plain"),
    ("text", "text/plain"),
    ("log", "text/plain"),
    ("md", "text/markdown"),
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("html", "text/html"),
    ("htm", "text/html"),
    ("xhtml", "application/xhtml+xml"),
    ("css", "text/css"),
    ("js", "text/javascript"),
    ("xml", "application/xml"),
    ("rss", "application/rss+xml"),
    ("atom", "application/atom+xml"),
    ("json", "application/json"),
    ("jsonl", "application/jsonl"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("pdf", "application/pdf"),
    ("ps", "application/postscript"),
    ("rtf", "application/rtf"),
    ("doc", "application/msword"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("xls", "application/vnd.ms-excel"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("ppt", "application/vnd.ms-powerpoint"),
    ("pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
    ("odt", "application/vnd.oasis.opendocument.text"),
    ("epub", "application/epub+zip"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("tgz", "application/gzip"),
    ("bz2", "application/x-bzip2"),
    ("xz", "application/x-xz"),
    ("zst", "application/zstd"),
    ("7z", "application/x-7z-compressed"),
    ("tar", "application/x-tar"),
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("svg", "image/svg+xml"),
    ("tif", "image/tiff"),
    ("tiff", "image/tiff"),
    ("ico", "image/x-icon"),
    ("mp3", "audio/mpeg"),
    ("ogg", "audio/ogg"),
    ("flac", "audio/flac"),
    ("wav", "audio/wav"),
    ("mp4", "video/mp4"),
    ("webm", "video/webm"),
    ("mpg", "video/mpeg"),
    ("mpeg", "video/mpeg"),
];

/// The type of a file with an unknown suffix.
const UNKNOWN: &str = "application/octet-stream";

/// Returns the media type of a file with this name.
pub fn of(name: &[u8]) -> &'static str {
    let file = name.rsplit(|octet| *octet == b'/').next().unwrap_or(name);
    let mut parts = file.rsplitn(2, |octet| *octet == b'.');
    let (Some(suffix), Some(_)) = (parts.next(), parts.next()) else {
        return UNKNOWN;
    };
    let mut types = TYPES.iter();
    let found = types.find(|(known, _)| suffix.eq_ignore_ascii_case(known.as_bytes()));
    found.map_or(UNKNOWN, |(_, media_type)| media_type)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_suffix_counts() {
        for (name, expected) in [
            ("robots.txt", "text/plain"),
            ("pub/INDEX.HTML", "text/html"),
            ("a.tar.gz", "application/gzip"),
            ("README", UNKNOWN),
            ("pub.txt/README", UNKNOWN),
            ("a.", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(of(name.as_bytes()), expected, "{name}");
        }
    }
}
