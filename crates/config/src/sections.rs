//! The sections of the file, each in one place: its keys, the rules between them, and its types.

pub(crate) mod admin;
pub(crate) mod agent;
pub(crate) mod audit;
pub(crate) mod client;
pub(crate) mod egress;
pub(crate) mod fleet;
pub(crate) mod limits;
pub(crate) mod listen;
pub(crate) mod listener;
pub(crate) mod log;
pub(crate) mod pace;
pub(crate) mod policy;
pub(crate) mod robots;
pub(crate) mod route;
pub(crate) mod ship;
pub(crate) mod signing;
pub(crate) mod subtree;
pub(crate) mod telemetry;
pub(crate) mod tls;

// The words that the rows of all sections are made of, which each takes by `use super::*`.
use crate::forms::*;
use crate::read::{Read, Refusal, Section, Value};
use crate::section::*;
use crate::units::*;
