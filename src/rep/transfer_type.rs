//! The transfer type of an `ftp` URL: how a file is asked for, and no part of its name.

/// Splits the transfer type off the path of an `ftp` URL: `;type=` and one of the letters `a`, `i` and `d` (RFC 1738
/// 3.2.2). The letter is in lower case.
pub fn split_transfer_type(path: &str) -> (&str, Option<char>) {
    const BEGIN: &str = ";type=";
    let split = path.char_indices().next_back().and_then(|(at, letter)| {
        let (before, _) = path.split_at_checked(at)?;
        let (path, begin) = before.split_at_checked(at.checked_sub(BEGIN.len())?)?;
        let letter = letter.to_ascii_lowercase();
        let is_type = begin.eq_ignore_ascii_case(BEGIN) && matches!(letter, 'a' | 'i' | 'd');
        is_type.then_some((path, Some(letter)))
    });
    split.unwrap_or((path, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_at_the_end_is_split_off() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("/a;type=i", "/a", Some('i')), ("/a;Type=D", "/a", Some('d')), (";type=a", "", Some('a')),
            ("/a;type=x", "/a;type=x", None), ("/a;type=", "/a;type=", None), ("/a;type=i/", "/a;type=i/", None),
            ("/a", "/a", None), ("", "", None), ("i", "i", None), ("/é", "/é", None), ("/ü;type=i", "/ü", Some('i')),
        ];
        for (path, name, letter) in cases {
            assert_eq!(split_transfer_type(path), (name, letter), "{path}");
        }
    }
}
