//! The quotas of clients, by a script.

use std::time::Duration;

use super::Engine;
use super::argument::{Argument, micros, millis};
use super::reply::foreign;
use super::script::Script;
use crate::fleet::coordinator::CoordinatorError;
use crate::fleet::quota::{ChargeQuota, Charged};

impl Engine {
    /// See [`Coordinator::charge_quota`](crate::fleet::Coordinator::charge_quota).
    pub(super) async fn charge(
        &self,
        charge: ChargeQuota<'_>,
    ) -> Result<Charged, CoordinatorError> {
        let account = format!("{}:{{{}}}:quota", self.keys.prefix, charge.account);
        // Spans of different lengths have accounts of their own.
        let account = format!("{account}:{}", charge.per.as_millis());
        let or_any = |number: Option<u64>| number.map_or(Argument::from(""), Argument::from);
        let arguments = [
            charge.instance.into(),
            millis(charge.per),
            or_any(charge.span),
            charge.requests.into(),
            charge.bytes.into(),
            charge.returned.into(),
            charge.wanted.into(),
            or_any(charge.most_requests),
            or_any(charge.most_bytes),
            charge.members.max(1).into(),
            micros(charge.after),
        ];
        let mut reply = self
            .call(Script::ChargeQuota, &[&account], &arguments)
            .await?;
        if reply.text()? != "OK" {
            return Err(foreign());
        }
        Ok(Charged {
            span: reply.number()?,
            left: Duration::from_millis(reply.number()?),
            granted: reply.number()?,
            requests: reply.number()?,
            bytes: reply.number()?,
            all_bytes: reply.number()?,
            wait: Duration::from_micros(reply.number()?),
        })
    }
}
