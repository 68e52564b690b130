//! The reply by which an FTP server refuses a robots.txt, as states and records keep it.

use std::fmt;

use super::codings::PlainText;
use super::numbered;
use crawlgate_ftp::reply::Reply;

/// Octets of the text that are kept: the server chooses their number.
const KEPT: usize = 96;

/// The code of a reply, and the beginning of its text in plain ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FtpReply {
    code: u16,
    text: PlainText<KEPT>,
}

impl FtpReply {
    /// Keeps a reply. Octets that are no plain text become `?`.
    pub fn of(reply: &Reply) -> FtpReply {
        FtpReply::new(reply.code, reply.text.trim_ascii())
    }

    fn new(code: u16, text: &[u8]) -> FtpReply {
        FtpReply { code, text: PlainText::new(text) }
    }

    /// Returns the three digits.
    pub fn code(&self) -> u16 {
        self.code
    }

    /// Returns one word for records, with the text behind it; [`FtpReply::from_word`] reads it.
    pub(super) fn word(&self) -> String {
        format!("ftp_{}:{}", self.code, self.text.as_str())
    }

    /// Reads what [`FtpReply::word`] wrote.
    pub(super) fn from_word(word: &str) -> Option<FtpReply> {
        let (code, text) = word.split_once(':')?;
        let reply = FtpReply::new(numbered(code, "ftp_")?, text.as_bytes());
        (reply.text.as_str() == text).then_some(reply)
    }
}

impl fmt::Display for FtpReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its FTP server replied {} {}", self.code, self.text.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_kept_in_plain_text_within_a_bound() {
        let long = "x".repeat(KEPT + 1);
        for (text, kept) in [
            ("Anonymous sessions must use encryption.", "Anonymous sessions must use encryption."),
            (" a\x1b[1m\"b\\é: ", "a?[1m?b???:"),
            ("", ""),
            (long.as_str(), &long[1..]),
        ] {
            let text = text.as_bytes().to_vec();
            let reply = FtpReply::of(&Reply { code: 530, text });
            let told = format!("its FTP server replied 530 {kept}");
            assert_eq!(reply.to_string(), told);
            assert_eq!(FtpReply::from_word(&reply.word()), Some(reply));
        }
        for word in ["ftp_530", "ftp_x:", "status_530:", "ftp_530:a\tb"] {
            assert_eq!(FtpReply::from_word(word), None, "{word}");
        }
    }
}
