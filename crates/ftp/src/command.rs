//! The commands that crawlgate sends, all of which read.

use super::path::Name;

/// The user of an anonymous login (RFC 1635).
const USER: &str = "anonymous";

/// Its password: by custom an address, of which the part before the `@` tells who asks.
const PASSWORD: &str = "crawlgate@";

/// One command. Its parameters are ours, or a [`Name`]: none can hold a line end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// Begins an anonymous login.
    User,
    /// Ends it.
    Pass,
    /// Asks for octets as they are.
    TypeImage,
    /// Asks for lines that end in CR LF.
    TypeAscii,
    /// Asks for a file's length (RFC 3659).
    Size(&'a Name),
    /// Asks for a file's time of modification (RFC 3659).
    Mdtm(&'a Name),
    /// Enters a directory.
    Cwd(&'a Name),
    /// Asks for a port, whatever the family of addresses (RFC 2428).
    Epsv,
    /// Asks for a port, by IPv4 (RFC 959).
    Pasv,
    /// Begins the next transfer at an octet (RFC 3659).
    Rest(u64),
    /// Asks for a file.
    Retr(&'a Name),
    /// Asks for the listing of the directory for machines (RFC 3659).
    Mlsd,
    /// Asks for its listing for people.
    List,
    /// Ends the session.
    Quit,
}

impl Command<'_> {
    /// Returns the octets of its line.
    pub fn line(&self) -> Vec<u8> {
        let (verb, parameter): (&str, &[u8]) = match self {
            Self::User => ("USER", USER.as_bytes()),
            Self::Pass => ("PASS", PASSWORD.as_bytes()),
            Self::TypeImage => ("TYPE", b"I"),
            Self::TypeAscii => ("TYPE", b"A"),
            Self::Size(name) => ("SIZE", name.as_bytes()),
            Self::Mdtm(name) => ("MDTM", name.as_bytes()),
            Self::Cwd(name) => ("CWD", name.as_bytes()),
            Self::Epsv => ("EPSV", b""),
            Self::Pasv => ("PASV", b""),
            Self::Rest(from) => return format!("REST {from}\r\n").into_bytes(),
            Self::Retr(name) => ("RETR", name.as_bytes()),
            Self::Mlsd => ("MLSD", b""),
            Self::List => ("LIST", b""),
            Self::Quit => ("QUIT", b""),
        };
        let mut line = Vec::with_capacity(verb.len() + parameter.len() + 3);
        line.extend_from_slice(verb.as_bytes());
        if !parameter.is_empty() {
            line.push(b' ');
            line.extend_from_slice(parameter);
        }
        line.extend_from_slice(b"\r\n");
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_one_line() {
        let name = Name::new(b"pub/a b".to_vec()).expect("a name");
        #[rustfmt::skip] // one row, one case
        let cases = [
            (Command::User, "USER anonymous\r\n"),
            (Command::Pass, "PASS crawlgate@\r\n"),
            (Command::TypeImage, "TYPE I\r\n"),
            (Command::TypeAscii, "TYPE A\r\n"),
            (Command::Size(&name), "SIZE pub/a b\r\n"),
            (Command::Mdtm(&name), "MDTM pub/a b\r\n"),
            (Command::Cwd(&name), "CWD pub/a b\r\n"),
            (Command::Epsv, "EPSV\r\n"),
            (Command::Pasv, "PASV\r\n"),
            (Command::Rest(7), "REST 7\r\n"),
            (Command::Retr(&name), "RETR pub/a b\r\n"),
            (Command::Mlsd, "MLSD\r\n"),
            (Command::List, "LIST\r\n"),
            (Command::Quit, "QUIT\r\n"),
        ];
        for (command, expected) in cases {
            assert_eq!(String::from_utf8_lossy(&command.line()), expected);
        }
    }
}
