//! The scripts that run in the engine. Each is atomic there, names its keys, and refuses under another generation than
//! the one its caller knows.

use std::collections::BTreeSet;

/// A script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Script {
    Heartbeat,
    Leave,
    Announce,
    AcquireFetch,
    PublishState,
    ReleaseFetch,
    PutOverride,
    Overrides,
    Members,
    Reserve,
    GiveBack,
    ReportBackoff,
    RenewSlots,
    ReleaseSlot,
    ChargeQuota,
}

impl Script {
    /// All scripts, in the order of the variants, with their texts.
    pub(super) const ALL: [(Script, &str); 15] = [
        (Script::Heartbeat, include_str!("scripts/heartbeat.lua")),
        (Script::Leave, include_str!("scripts/leave.lua")),
        (Script::Announce, include_str!("scripts/announce.lua")),
        (
            Script::AcquireFetch,
            include_str!("scripts/acquire_fetch.lua"),
        ),
        (
            Script::PublishState,
            include_str!("scripts/publish_state.lua"),
        ),
        (
            Script::ReleaseFetch,
            include_str!("scripts/release_fetch.lua"),
        ),
        (
            Script::PutOverride,
            include_str!("scripts/put_override.lua"),
        ),
        (Script::Overrides, include_str!("scripts/overrides.lua")),
        (Script::Members, include_str!("scripts/members.lua")),
        (Script::Reserve, include_str!("scripts/reserve.lua")),
        (Script::GiveBack, include_str!("scripts/give_back.lua")),
        (
            Script::ReportBackoff,
            include_str!("scripts/report_backoff.lua"),
        ),
        (Script::RenewSlots, include_str!("scripts/renew_slots.lua")),
        (
            Script::ReleaseSlot,
            include_str!("scripts/release_slot.lua"),
        ),
        (
            Script::ChargeQuota,
            include_str!("scripts/charge_quota.lua"),
        ),
    ];

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

    /// Returns the names of all, by their places.
    pub(super) fn names() -> [&'static str; Script::ALL.len()] {
        Script::ALL.map(|(script, _)| script.name())
    }

    /// Returns its name in metrics: that of its file.
    const fn name(self) -> &'static str {
        match self {
            Script::Heartbeat => "heartbeat",
            Script::Leave => "leave",
            Script::Announce => "announce",
            Script::AcquireFetch => "acquire_fetch",
            Script::PublishState => "publish_state",
            Script::ReleaseFetch => "release_fetch",
            Script::PutOverride => "put_override",
            Script::Overrides => "overrides",
            Script::Members => "members",
            Script::Reserve => "reserve",
            Script::GiveBack => "give_back",
            Script::ReportBackoff => "report_backoff",
            Script::RenewSlots => "renew_slots",
            Script::ReleaseSlot => "release_slot",
            Script::ChargeQuota => "charge_quota",
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
        for (place, (script, text)) in Script::ALL.into_iter().enumerate() {
            assert_eq!(script.place(), place);
            assert_eq!(script.text(), text);
        }
    }

    #[test]
    fn the_commands_of_the_scripts_are_found() {
        let commands = Script::commands();
        assert!(commands.contains("TIME") && commands.contains("ZREMRANGEBYSCORE"));
        let is_word = |word: &str| word.bytes().all(|octet| octet.is_ascii_uppercase());
        assert!(commands.iter().all(|word| is_word(word)), "{commands:?}");
        let every = Script::ALL.map(|(_, text)| text.matches("redis.").count());
        let called = Script::ALL.map(|(_, text)| text.matches("redis.call('").count());
        assert_eq!(every, called, "each call names its command");
    }
}
