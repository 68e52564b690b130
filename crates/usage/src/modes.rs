//! The operator's treatment of each signal.

use serde::{Deserialize, Serialize};

crawlgate_text::spelled! {
    /// The treatment of one signal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum SignalMode {
        /// It is not read.
        Off = "off",
        /// It is read and recorded, and takes no part in refusing.
        Record = "record",
        /// A use that it disallows is refused to a client that declares the purpose.
        Enforce = "enforce",
    }
}

impl SignalMode {
    /// Tells whether the signal is read at all.
    pub fn is_read(self) -> bool {
        self != SignalMode::Off
    }
}

/// The settings of all signals: section `[signals]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    /// Content-Usage (IETF aipref) of robots.txt and responses.
    pub content_usage: SignalMode,
    /// Content-Signal of robots.txt and responses.
    pub content_signal: SignalMode,
    /// `tdm-reservation` of responses (TDMRep).
    pub tdm_reservation: SignalMode,
    /// `/.well-known/tdmrep.json` (TDMRep).
    pub tdmrep: SignalMode,
    /// `X-Robots-Tag` of responses.
    pub robots_tag: SignalMode,
    /// License of robots.txt and Link of responses (RSL).
    pub license: SignalMode,
    /// Licences that the operator has, compared octet for octet.
    pub licenses: Vec<Box<str>>,
    /// False if what responses disallow is recorded only.
    pub withhold: bool,
    /// True if forwarded responses tell the crawler what was found, in `Crawlgate-Usage`.
    #[serde(skip)]
    pub stamp: bool,
}

impl Modes {
    /// Returns the modes under which nothing is read.
    #[must_use]
    pub fn off() -> Modes {
        Modes {
            content_usage: SignalMode::Off,
            content_signal: SignalMode::Off,
            tdm_reservation: SignalMode::Off,
            tdmrep: SignalMode::Off,
            robots_tag: SignalMode::Off,
            license: SignalMode::Off,
            ..Modes::default()
        }
    }
}

impl Default for Modes {
    fn default() -> Modes {
        Modes {
            content_usage: SignalMode::Enforce,
            content_signal: SignalMode::Enforce,
            tdm_reservation: SignalMode::Enforce,
            tdmrep: SignalMode::Off,
            robots_tag: SignalMode::Record,
            license: SignalMode::Record,
            licenses: Vec::new(),
            withhold: true,
            stamp: false,
        }
    }
}
