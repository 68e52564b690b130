//! The overrides and the members, asked for apart from a heartbeat.

use std::time::Duration;

use super::Engine;
use super::reply::{Reply, foreign};
use super::script::Script;
use crate::fleet::coordinator::{CoordinatorError, MemberRow, SealedOverrides};

impl Engine {
    /// Puts sealed content into a set of overrides; returns the number of the last change.
    pub(super) async fn put_override(
        &self,
        set: &str,
        id: &str,
        sealed: &[u8],
    ) -> Result<u64, CoordinatorError> {
        let keys = [&*self.keys.counters, set];
        let arguments = [id.into(), sealed.into()];
        let mut reply = self.call(Script::PutOverride, &keys, &arguments).await?;
        reply.number()
    }

    /// See [`Coordinator::overrides`](crate::fleet::Coordinator::overrides).
    pub(super) async fn all_overrides(&self) -> Result<SealedOverrides, CoordinatorError> {
        let keys = &self.keys;
        let keys = [&*keys.counters, &keys.overrides, &keys.overrides_removed];
        let mut reply = self.call(Script::Overrides, &keys, &[]).await?;
        Ok(SealedOverrides {
            change: reply.number()?,
            added: pairs(reply.list()?)?,
            removed: pairs(reply.list()?)?,
        })
    }

    /// See [`Coordinator::members`](crate::fleet::Coordinator::members).
    pub(super) async fn all_members(&self) -> Result<Vec<MemberRow>, CoordinatorError> {
        let keys = [&*self.keys.members, &self.keys.reports];
        let mut reply = self.call(Script::Members, &keys, &[]).await?;
        rows(reply.list()?)
    }
}

/// Reads names, reports and times of silence.
pub(super) fn rows(mut list: Reply) -> Result<Vec<MemberRow>, CoordinatorError> {
    let mut rows = Vec::new();
    while !list.is_empty() {
        rows.push(MemberRow {
            name: list.text()?,
            report: list.text()?,
            silent: Duration::from_millis(list.number()?),
        });
    }
    Ok(rows)
}

/// Reads the fields of a hash. A name that is no text is not ours.
fn pairs(mut list: Reply) -> Result<Vec<(String, Vec<u8>)>, CoordinatorError> {
    let mut pairs = Vec::new();
    while !list.is_empty() {
        let name = list.octets()?.ok_or_else(foreign)?;
        let content = list.octets()?.ok_or_else(foreign)?;
        pairs.push((String::from_utf8_lossy(&name).into_owned(), content));
    }
    Ok(pairs)
}
