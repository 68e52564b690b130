//! The beginning of a foreign text, as a cause keeps it.

/// At most `N` octets of visible ASCII and spaces, without those that JSON and Structured Fields escape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PlainText<const N: usize> {
    octets: [u8; N],
    length: usize,
}

impl<const N: usize> PlainText<N> {
    /// Keeps the beginning of a text. Each other octet becomes `?`.
    pub(super) fn new(text: &[u8]) -> PlainText<N> {
        let mut octets = [0; N];
        for (to, octet) in octets.iter_mut().zip(text) {
            let is_plain = matches!(octet, b' '..=b'~') && !matches!(octet, b'"' | b'\\');
            *to = if is_plain { *octet } else { b'?' };
        }
        PlainText {
            octets,
            length: text.len().min(N),
        }
    }

    pub(super) fn as_str(&self) -> &str {
        let text = self.octets.get(..self.length).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }
}
