//! The sections of the file, each in one place: its keys, the rules between them, and its types.

pub(crate) mod admin;
pub(crate) mod audit;
pub(crate) mod client;
pub(crate) mod egress;
pub(crate) mod fleet;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod log;
pub(crate) mod policy;
pub(crate) mod robots;
pub(crate) mod route;
pub(crate) mod signing;
pub(crate) mod tls;

// The words that the rows of all sections are made of, which each takes by `use super::*`.
use crate::forms::*;
use crate::read::{Read, Refusal, Section, Value};
use crate::section::*;
use crate::units::*;
