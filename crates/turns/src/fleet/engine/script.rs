//! The scripts that run in the engine. Each is atomic there, names its keys, and refuses under another generation than
//! the one its caller knows.
//!
//! Reads the replies of scripts: arrays of texts and numbers.

use std::collections::BTreeSet;

use redis::Value;

use crate::fleet::coordinator::CoordinatorError;

macro_rules! scripts {
    ($($script:ident $file:literal,)*) => {
        /// A script.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Script {
            $($script,)*
        }

        impl Script {
            /// All scripts, in the order of the variants, with their texts.
            pub(super) const ALL: &[(Script, &str)] =
                &[$((Script::$script, include_str!(concat!("scripts/", $file, ".lua")))),*];

            /// Their names in metrics, in the same order: those of their files.
            pub(super) const NAMES: &[&'static str] = &[$($file),*];
        }
    };
}

scripts! {
    Heartbeat "heartbeat",
    Leave "leave",
    Announce "announce",
    AcquireFetch "acquire_fetch",
    PublishState "publish_state",
    ReleaseFetch "release_fetch",
    PutOverride "put_override",
    Overrides "overrides",
    Members "members",
    Reserve "reserve",
    GiveBack "give_back",
    ReportBackoff "report_backoff",
    RenewSlots "renew_slots",
    ReleaseSlot "release_slot",
    ChargeQuota "charge_quota",
}

impl Script {
    /// Returns the commands that the scripts send.
    pub(super) fn commands() -> BTreeSet<&'static str> {
        let texts = Script::ALL.iter().map(|(_, text)| text);
        let calls = texts.flat_map(|text| text.split("redis.call('").skip(1));
        calls.filter_map(|call| call.split('\'').next()).collect()
    }

    /// Returns the number of arguments of a command, the least that it takes; its name comes first, if it has one.
    pub(super) fn arguments(command: &str) -> usize {
        match command {
            "TIME" => 0,
            "GET" | "DEL" | "HGETALL" | "PTTL" | "ZCARD" => 1,
            "SET" | "HGET" | "HMGET" | "HDEL" | "PEXPIRE" | "ZREM" | "ZSCORE" => 2,
            "XADD" => 4,
            _ => 3,
        }
    }

    /// Returns its index in [`Script::ALL`].
    pub(super) fn place(self) -> usize {
        self as usize
    }

    /// Returns its text.
    pub(super) fn text(self) -> &'static str {
        Script::ALL.get(self.place()).map_or("", |(_, text)| *text)
    }
}

/// A reply, read from its front.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    /// Opens the reply of a script.
    ///
    /// # Errors
    /// When it is no array, or the script refuses because the generation is another one.
    pub(super) fn of(value: Value) -> Result<Reply, CoordinatorError> {
        let Value::Array(values) = value else {
            return Err(foreign());
        };
        if is_lost(&values) { Err(CoordinatorError::Lost) } else { Ok(Reply(values.into_iter())) }
    }

    /// Reads the word that a script has done its work.
    pub(super) fn expect_ok(&mut self) -> Result<(), CoordinatorError> {
        match self.text()?.as_str() {
            "OK" => Ok(()),
            _ => Err(foreign()),
        }
    }

    /// Returns the next value as octets; `None` for a value that is missing in the engine.
    pub(super) fn octets(&mut self) -> Result<Option<Vec<u8>>, CoordinatorError> {
        match self.0.next() {
            Some(Value::BulkString(octets)) => Ok(Some(octets)),
            Some(Value::Nil | Value::Boolean(false)) | None => Ok(None),
            Some(Value::SimpleString(text)) => Ok(Some(text.into_bytes())),
            Some(_) => Err(foreign()),
        }
    }

    /// Returns the next value as text.
    pub(super) fn text(&mut self) -> Result<String, CoordinatorError> {
        let octets = self.octets()?.ok_or_else(foreign)?;
        String::from_utf8(octets).map_err(|_| foreign())
    }

    /// Returns the next value as a number.
    pub(super) fn number(&mut self) -> Result<u64, CoordinatorError> {
        match self.0.next() {
            Some(Value::Int(number)) => Ok(u64::try_from(number).unwrap_or_default()),
            Some(Value::BulkString(text)) => {
                let text = std::str::from_utf8(&text).ok();
                text.and_then(|text| text.parse().ok()).ok_or_else(foreign)
            }
            _ => Err(foreign()),
        }
    }

    /// Returns the next value as a list.
    pub(super) fn list(&mut self) -> Result<Reply, CoordinatorError> {
        match self.0.next() {
            Some(Value::Array(values)) => Ok(Reply(values.into_iter())),
            _ => Err(foreign()),
        }
    }

    /// Tells whether all values have been read.
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

/// Tells whether a script has refused because the generation is another one.
pub(super) fn is_lost(values: &[Value]) -> bool {
    matches!(values, [Value::BulkString(word)] if word == b"LOST")
}

/// Returns a value as text; `None` if it is none.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::BulkString(octets) => String::from_utf8(octets.clone()).ok(),
        Value::SimpleString(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::VerbatimString { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Returns the error of a reply that no script of ours gives.
pub(super) fn foreign() -> CoordinatorError {
    CoordinatorError::refused("its reply is not that of a script of this version")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_script_stands_at_its_place() {
        for (place, (script, text)) in Script::ALL.iter().enumerate() {
            assert_eq!(script.place(), place);
            assert_eq!(script.text(), *text);
        }
    }

    #[test]
    fn the_commands_of_the_scripts_are_found() {
        let commands = Script::commands();
        assert!(commands.contains("TIME") && commands.contains("ZREMRANGEBYSCORE"));
        let is_word = |word: &str| word.bytes().all(|octet| octet.is_ascii_uppercase());
        assert!(commands.iter().all(|word| is_word(word)), "{commands:?}");
        for (script, text) in Script::ALL {
            let every = text.matches("redis.").count();
            let called = text.matches("redis.call('").count();
            assert_eq!(every, called, "{script:?}: each call names its command");
        }
    }
}
