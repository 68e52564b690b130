//! The turns at the origins, by scripts, and the signs that the origins give.

use std::time::Duration;

use super::argument::{Argument, micros};
use super::reply::Reply;
use super::script::Script;
use super::{Engine, Keys};
use crate::fleet::coordinator::{CoordinatorError, EngineTime};
use crate::fleet::reservation::{
    GiveBack, GroupInterval, OriginBackoff, ReportBackoff, SLOT_LIFE, Sign,
};

impl Keys {
    /// Returns the names of the keys for turns and slots of an origin.
    pub(super) fn turns(&self, origin: &str) -> [String; 2] {
        let of = |name: &str| [&*self.prefix, ":{", origin, "}:", name].concat();
        [of("turns"), of("slots")]
    }
}

impl Engine {
    pub(super) async fn give_turn_back(&self, turn: GiveBack<'_>) -> Result<(), CoordinatorError> {
        let [turns, _] = self.keys.turns(turn.origin);
        let EngineTime(at) = turn.at;
        let (group, interval) = group(turn.group);
        let arguments = [at.into(), group, interval];
        self.call(Script::GiveBack, &[&turns], &arguments)
            .await
            .map(drop)
    }

    pub(super) async fn enter_sign(
        &self,
        report: ReportBackoff<'_>,
    ) -> Result<OriginBackoff, CoordinatorError> {
        let [turns, _] = self.keys.turns(report.origin);
        let (word, retry_after) = match report.sign {
            Sign::Fine => ("fine", Duration::ZERO),
            Sign::Refused { retry_after } => ("refused", retry_after),
            Sign::Troubled => ("troubled", Duration::ZERO),
        };
        let arguments = [
            word.into(),
            micros(report.age),
            micros(report.first),
            micros(report.widest),
            micros(retry_after),
            micros(report.longest),
            micros(report.memory),
        ];
        let mut reply = self
            .call(Script::ReportBackoff, &[&turns], &arguments)
            .await?;
        reply.expect_ok()?;
        Ok(OriginBackoff {
            gap: span(&mut reply)?,
            rest: span(&mut reply)?,
        })
    }

    pub(super) async fn renew(
        &self,
        origin: &str,
        slots: &[String],
    ) -> Result<(), CoordinatorError> {
        let [_, key] = self.keys.turns(origin);
        let names = slots.iter().map(|name| Argument::from(name.as_str()));
        let arguments: Vec<_> = [micros(SLOT_LIFE)].into_iter().chain(names).collect();
        let connection = self.connected()?;
        let keys = [&*key];
        let reply = self.call_regardless(&connection, Script::RenewSlots, &keys, &arguments);
        reply.await.map(drop)
    }

    pub(super) async fn release(&self, origin: &str, slot: &str) -> Result<(), CoordinatorError> {
        let [_, key] = self.keys.turns(origin);
        let connection = self.connected()?;
        let arguments = [slot.into()];
        let keys = [&*key];
        let reply = self.call_regardless(&connection, Script::ReleaseSlot, &keys, &arguments);
        reply.await.map(drop)
    }
}

fn group(group: Option<GroupInterval<'_>>) -> (Argument<'_>, Argument<'static>) {
    match group {
        Some(group) => (group.name.into(), micros(group.interval)),
        None => ("".into(), 0.into()),
    }
}

fn span(reply: &mut Reply) -> Result<Duration, CoordinatorError> {
    reply.number().map(Duration::from_micros)
}
