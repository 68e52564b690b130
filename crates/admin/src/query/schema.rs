//! The schemas of conditions that take one of some words.

use utoipa::openapi::schema::{Object, ObjectBuilder, Type};

use super::{modes, verdicts};
use crawlgate_policy::Reason;

fn words(words: &[&str]) -> Object {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(words.to_vec()))
        .build()
}

pub(super) fn reason() -> Object {
    words(&Reason::ALL.map(Reason::as_str))
}

pub(super) fn verdict() -> Object {
    words(&verdicts())
}

pub(super) fn mode() -> Object {
    words(&modes())
}
