//! The file of fields that each delivery to a collector carries.

use std::collections::HashMap;
use std::path::Path;

use http::{HeaderName, HeaderValue};

use super::error::TelemetryError;

/// Reads the fields that each delivery carries: one `name: value` on a line.
pub(super) fn read_headers(path: &Path) -> Result<HashMap<String, String>, TelemetryError> {
    let text = std::fs::read_to_string(path).map_err(|error| TelemetryError::HeadersFile {
        path: path.to_owned(),
        error,
    })?;
    parse_headers(&text).map_err(|line| TelemetryError::HeadersLine {
        path: path.to_owned(),
        line,
    })
}

/// Parses the fields; returns the number of the first malformed line otherwise.
fn parse_headers(text: &str) -> Result<HashMap<String, String>, usize> {
    let mut headers = HashMap::new();
    for (number, line) in (1_usize..).zip(text.lines()) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once(':').ok_or(number)?;
        let (name, value) = (name.trim(), value.trim());
        HeaderName::try_from(name).map_err(|_| number)?;
        HeaderValue::try_from(value).map_err(|_| number)?;
        headers.insert(name.to_owned(), value.to_owned());
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_headers_has_one_on_each_line() {
        type Fields<'a> = &'a [(&'a str, &'a str)];
        #[rustfmt::skip] // one row, one case
        let cases: &[(&str, &str, Result<Fields<'_>, usize>)] = &[
            ("two", "a: 1\nb-c:2\n", Ok(&[("a", "1"), ("b-c", "2")])),
            ("colons in a value", "authorization: Basic a:b=\n", Ok(&[("authorization", "Basic a:b=")])),
            ("comments and empty lines", "# of ours\n\na: 1\n", Ok(&[("a", "1")])),
            ("nothing", "", Ok(&[])),
            ("no colon", "a: 1\nsecret\n", Err(2)),
            ("a name that is none", "a b: 1\n", Err(1)),
            ("a value that is none", "a: \u{7}\n", Err(1)),
        ];
        for (name, text, expected) in cases {
            let expected = expected.map(|fields| {
                let owned =
                    |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
                fields.iter().map(owned).collect::<HashMap<_, _>>()
            });
            assert_eq!(parse_headers(text), expected, "{name}");
        }
    }
}
