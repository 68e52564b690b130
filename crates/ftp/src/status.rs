//! The HTTP status for each refusal of an FTP server.
//!
//! | reply | to | status | a robots.txt is |
//! |---|---|---|---|
//! | 421 | any command | 503 | unreachable |
//! | 4yz | any command | 503 | unreachable |
//! | 5yz, 332 | the greeting, the login | 502 | unreachable |
//! | 550 | the name of a file or directory | 404 | unavailable |
//! | 551, 553 | the name of a file, where SIZE and MDTM said 550 | 404 | unavailable |
//! | other 5yz | the name of a file or directory | 502 | unreachable |
//! | 5yz | passive mode, the transfer type | 502 | unreachable |
//!
//! A robots.txt is judged by the HTTP status as any other (`access` in the crate `crawlgate-origins`): one table serves
//! both. A refused login is no 403, which would say that there is no robots.txt.

use super::reply::Reply;

/// The step of a session that a command belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The greeting and the login.
    Login,
    /// A file or a directory by its name.
    Name,
    /// A file by its name, of which SIZE and MDTM have said that it is not there (550).
    MissingName,
    /// The way that octets are transferred.
    Transfer,
}

/// A refusal of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The refused step.
    pub step: Step,
    /// The reply.
    pub reply: Reply,
}

impl Refusal {
    /// Returns the status of the HTTP response.
    pub fn status(&self) -> u16 {
        match (self.step, self.reply.code) {
            (_, 400..=499) => 503,
            (Step::Name | Step::MissingName, 550) | (Step::MissingName, 551 | 553) => 404,
            _ => 502,
        }
    }

    /// Returns the error type of Proxy-Status (RFC 9209 2.3); `None` where the server has answered about the file.
    pub fn error_type(&self) -> Option<&'static str> {
        match self.status() {
            404 => None,
            503 => Some("destination_unavailable"),
            _ => Some("http_protocol_error"),
        }
    }

    /// Describes it, as a sentence.
    pub fn sentence(&self) -> &'static str {
        match (self.step, self.status()) {
            (_, 404) => "The FTP server has no such file, or does not let anonymous users have it.",
            (Step::Login, 502) => "The FTP server does not take an anonymous login.",
            (_, 503) => "The FTP server does not serve this now; try again later.",
            _ => "The FTP server refuses this.",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(step: Step, code: u16) -> u16 {
        let text = Vec::new();
        let reply = Reply { code, text };
        Refusal { step, reply }.status()
    }

    #[test]
    fn refusals_have_a_status() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            (Step::Login, 421, 503), (Step::Login, 430, 503), (Step::Login, 530, 502), (Step::Login, 332, 502),
            (Step::Name, 550, 404), (Step::Name, 450, 503), (Step::Name, 421, 503), (Step::Name, 553, 502),
            (Step::Name, 501, 502), (Step::MissingName, 551, 404), (Step::MissingName, 552, 502),
            (Step::MissingName, 450, 503), (Step::Transfer, 425, 503), (Step::Transfer, 502, 502), (Step::Transfer, 550, 502),
        ];
        for (step, code, expected) in cases {
            assert_eq!(status(step, code), expected, "{step:?} {code}");
        }
    }
}
