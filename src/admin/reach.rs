//! How far a change has reached in a fleet, for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Silence after which a member counts as silent, in milliseconds.
const SILENT: u64 = 1_000;

/// The instances of the fleet at which a change is in force, and those that lack it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Reach {
    /// The instances at which it is in force.
    pub in_force: Vec<String>,
    /// The instances that do not have it yet. They forward nothing once they have not heard from the engine, or have not
    /// taken over what it told, for `patience_ms`.
    pub late: Vec<LateMember>,
    /// `[fleet] patience` in milliseconds.
    pub patience_ms: u64,
    /// The reason why the engine did not take the change. It is in force at this instance, which brings it to the others
    /// once the engine answers.
    pub failure: Option<String>,
}

/// An instance that lacks a change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LateMember {
    /// Its name.
    pub name: String,
    /// The time since its last heartbeat, in milliseconds.
    pub silent_ms: u64,
}

/// Writes `in force on a1, a2; a3 has not been heard of for 4 s and forwards nothing from 15 s on`.
impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in force on {}", self.in_force.join(", "))?;
        if let Some(failure) = &self.failure {
            return write!(
                f,
                " alone: {failure}; the other instances take it over once the engine answers"
            );
        }
        let patience = self.patience_ms / 1_000;
        for LateMember { name, silent_ms } in &self.late {
            match *silent_ms {
                SILENT.. => {
                    let silent = silent_ms / 1_000;
                    write!(
                        f,
                        "; {name} has not been heard of for {silent} s and forwards nothing from {patience} s on"
                    )?;
                }
                _ => write!(
                    f,
                    "; {name} does not have it yet and forwards nothing from {patience} s without it on"
                )?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_names_who_has_the_change_and_who_lacks_it() {
        let late = |name: &str, silent_ms| LateMember {
            name: name.to_owned(),
            silent_ms,
        };
        let reach = Reach {
            in_force: vec!["a1".to_owned(), "a2".to_owned()],
            patience_ms: 15_000,
            ..Reach::default()
        };
        assert_eq!(reach.to_string(), "in force on a1, a2");
        let some = Reach {
            late: vec![late("a3", 4_120), late("a4", 90)],
            ..reach.clone()
        };
        assert_eq!(
            some.to_string(),
            "in force on a1, a2; a3 has not been heard of for 4 s and forwards nothing from 15 s on; \
             a4 does not have it yet and forwards nothing from 15 s without it on"
        );
        let alone = Reach {
            in_force: vec!["a1".to_owned()],
            failure: Some("the engine does not answer: no answer within 250ms".to_owned()),
            ..Reach::default()
        };
        assert_eq!(
            alone.to_string(),
            "in force on a1 alone: the engine does not answer: no answer within 250ms; the other instances take it over \
             once the engine answers"
        );
    }
}
