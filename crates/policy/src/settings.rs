//! The settings that verdicts follow from, as a text for the store and a digest for records.
//!
//! To check later whether a decision was right, an auditor needs the robots.txt, the state, and these settings: with
//! other spans or another limit the same file may mean something else. Settings that only delay a decision, or change
//! its answer, are left out.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crawlgate_origins::timing::{Finally, ProfileName, ProfileRules};
use crawlgate_robots::ParseOptions;
use crawlgate_text::hex::Hex;
use crawlgate_usage::Modes;
use crawlgate_usage::category::VOCABULARY;

/// The settings of `[robots]` that can change a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicySettings {
    /// True if frequent misspellings and lines without a colon count.
    pub lenient: bool,
    /// Octets of a file that count.
    pub size_limit: u64,
    /// True if paths are judged in all their readings.
    pub path_guard: bool,
    /// True if a 5xx with a "page not found" body means that there is no file.
    pub soft_404: bool,
    /// 4xx statuses that mean complete disallow, in ascending order.
    pub deny_statuses: Vec<u16>,
    /// The rules for an unreachable file.
    pub unreachable: Unreachable,
    /// The treatment of what sites say of use; `None` in texts from before it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signals: Option<SignalSettings>,
}

/// The treatment of each signal, and the words that it is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignalSettings {
    /// The version of the vocabulary that the categories are of.
    pub vocabulary: String,
    /// The treatment of each signal. The stamp is no part of the text: no verdict follows from it.
    #[serde(flatten)]
    pub modes: Modes,
}

impl SignalSettings {
    /// Returns the settings under these modes.
    pub fn of(modes: &Modes) -> SignalSettings {
        SignalSettings {
            vocabulary: VOCABULARY.to_owned(),
            modes: Modes { stamp: false, ..modes.clone() },
        }
    }
}

/// [`ProfileRules`] as text; spans in milliseconds from the first failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreachable {
    /// The span in which an unreachable file means complete disallow.
    pub disallow_for_ms: u64,
    /// The end of the last good copy's use; `None`: never.
    pub last_good_until_ms: Option<u64>,
    /// The rule after that.
    #[serde(with = "FinallyText")]
    pub finally: Finally,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Finally", rename_all = "snake_case")]
enum FinallyText {
    Allow,
    Reachable,
}

impl PolicySettings {
    /// Reads what [`PolicySettings::text`] wrote.
    ///
    /// # Errors
    /// When the text has another form.
    pub fn read(text: &str) -> Result<PolicySettings, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Returns one JSON object, the same for the same settings.
    pub fn text(&self) -> String {
        // Writing these types cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the digest that records name.
    pub fn digest(&self) -> PolicyDigest {
        PolicyDigest::of(&self.text())
    }

    /// Returns the treatment of each signal.
    pub fn modes(&self) -> Modes {
        let signals = self.signals.as_ref();
        signals.map_or_else(Modes::off, |signals| signals.modes.clone())
    }

    /// Returns the options for parsing a file under these settings.
    pub fn parse_options(&self) -> ParseOptions {
        ParseOptions {
            lenient: self.lenient,
            limit: usize::try_from(self.size_limit).unwrap_or(usize::MAX),
        }
    }

    /// Returns the meaning of an outage under these settings. The name of the original profile is not kept, since it
    /// changes nothing: this says `standard`.
    pub fn profile(&self) -> ProfileRules {
        ProfileRules {
            name: ProfileName::Standard,
            disallow_for: Duration::from_millis(self.unreachable.disallow_for_ms),
            last_good_until: self.unreachable.last_good_until_ms.map(Duration::from_millis),
            finally: self.unreachable.finally,
        }
    }
}

/// The SHA-256 of a [`PolicySettings::text`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PolicyDigest(pub [u8; 32]);

impl PolicyDigest {
    /// Returns the digest of a text.
    pub fn of(text: &str) -> PolicyDigest {
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
        PolicyDigest(digest.as_ref().try_into().unwrap_or_default())
    }
}

impl fmt::Display for PolicyDigest {
    /// Writes 64 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Hex(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_64_digits() {
        let digest = PolicyDigest::of("");
        let digits = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest.to_string(), digits);
    }
}
