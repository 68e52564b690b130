//! The scripts that run in the engine. Each is atomic there, names its keys, and refuses under another generation than
//! the one its caller knows.

use std::collections::BTreeSet;

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
