//! The transfer type of an `ftp` URL: how a file is asked for, and no part of its name.

/// The transfer type of a URL: `;type=` (RFC 1738 3.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransferType {
    /// `i`: the octets of a file.
    Image,
    /// `a`: its lines, each ended by CR LF.
    Ascii,
    /// `d`: a listing.
    Directory,
}

/// Splits the transfer type off the path of an `ftp` URL: `;type=` and one of the letters `a`, `i` and `d`, in any case.
pub fn split_transfer_type(path: &str) -> (&str, Option<TransferType>) {
    const BEGIN: &str = ";type=";
    let split = path.char_indices().next_back().and_then(|(at, letter)| {
        let named = match letter {
            'i' | 'I' => TransferType::Image,
            'a' | 'A' => TransferType::Ascii,
            'd' | 'D' => TransferType::Directory,
            _ => return None,
        };
        let (before, _) = path.split_at_checked(at)?;
        let (path, begin) = before.split_at_checked(at.checked_sub(BEGIN.len())?)?;
        begin.eq_ignore_ascii_case(BEGIN).then_some((path, Some(named)))
    });
    split.unwrap_or((path, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_letter_at_the_end_is_split_off() {
        use TransferType::{Ascii, Directory, Image};
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("/a;type=i", "/a", Some(Image)), ("/a;Type=D", "/a", Some(Directory)), (";type=a", "", Some(Ascii)),
            ("/a;TYPE=A", "/a", Some(Ascii)), ("/a/;type=d", "/a/", Some(Directory)), (";type=i", "", Some(Image)),
            ("/a;type=x", "/a;type=x", None), ("/a;type=ii", "/a;type=ii", None), ("/a;type=", "/a;type=", None),
            ("/a;type=i;type=a", "/a;type=i", Some(Ascii)), ("/a;type=i/b", "/a;type=i/b", None),
            ("/a;type=i/", "/a;type=i/", None), ("/a", "/a", None), ("", "", None), ("i", "i", None),
            ("/é", "/é", None), ("/éééé", "/éééé", None), ("/ü;type=i", "/ü", Some(Image)),
        ];
        for (path, name, named) in cases {
            assert_eq!(split_transfer_type(path), (name, named), "{path}");
        }
    }
}
