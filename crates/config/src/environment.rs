//! Values in environment variables, for containers: `CRAWLGATE_LISTEN__ADDRESS` is `[listen] address`.
//!
//! A variable is as good as a line of the file, and comes after it. Its value is TOML (`true`, `["a", "b"]`), or else the
//! text itself. Two underscores divide section and key, so that the variables which Kubernetes makes for a service
//! (`CRAWLGATE_SERVICE_HOST`) are none of them. An empty variable counts as not set, as `$CRAWLGATE_CONFIG` does; `""`
//! with its quotes is the empty text.

use std::ffi::OsString;

use toml::de::{DeTable, DeValue};

use super::read::Value;

const PREFIX: &str = "CRAWLGATE_";
const DIVIDER: &str = "__";

/// The variables that set keys, by name, and then the options that do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(Vec<Variable>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Variable {
    name: String,
    /// The line that the file would have.
    line: String,
}

impl Variables {
    /// Returns the variables of this process.
    #[must_use]
    pub fn from_env() -> Variables {
        Variables::of(std::env::vars_os())
    }

    /// Returns those of an environment that set keys.
    pub(super) fn of(environment: impl Iterator<Item = (OsString, OsString)>) -> Variables {
        let mut variables: Vec<Variable> = environment
            .filter_map(|(name, value)| variable(name.to_str()?, &value.to_string_lossy()))
            .collect();
        variables.sort_by(|a, b| a.name.cmp(&b.name));
        Variables(variables)
    }

    /// Sets a key by an option of the command line, which comes after a variable for the same key. `value` is TOML.
    #[must_use]
    pub fn with_option(mut self, option: &str, section: &str, key: &str, value: &str) -> Variables {
        let start = format!("{}.{} = ", quoted(section), quoted(key));
        self.0.retain(|variable| !variable.line.starts_with(&start));
        self.0.push(Variable { name: option.to_owned(), line: start + value });
        self
    }

    /// Returns the names, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|variable| &*variable.name)
    }

    /// Returns the lines that the file would have, in the order of the names.
    pub(super) fn lines(&self) -> String {
        let lines = self.0.iter().map(|variable| &*variable.line);
        lines.collect::<Vec<&str>>().join("\n")
    }
}

/// Returns a variable that sets a key; `None` for others.
fn variable(name: &str, value: &str) -> Option<Variable> {
    let key = name.strip_prefix(PREFIX)?;
    if !key.contains(DIVIDER) || value.is_empty() {
        return None;
    }
    let parts = key.split(DIVIDER).map(|part| part.to_ascii_lowercase());
    let key = parts.map(|part| quoted(&part)).collect::<Vec<_>>().join(".");
    let is_toml =
        !value.contains(['\n', '\r', '#']) && DeTable::parse(&format!("x = {value}")).is_ok();
    let value = if is_toml { value.to_owned() } else { quoted(value) };
    Some(Variable { name: name.to_owned(), line: format!("{key} = {value}") })
}

/// Returns a text as a basic string of TOML, in one line.
fn quoted(text: &str) -> String {
    // The escapes of JSON are among those of TOML, which escapes DEL as well.
    let text = serde_json::Value::from(text).to_string();
    text.replace('\u{7f}', "\\u007f")
}

/// Puts the values of `over` into `under`, in place of those that stand there.
pub(super) fn merge<'t>(under: &mut DeTable<'t>, over: DeTable<'t>) {
    for (key, value) in over {
        let name: &str = key.get_ref();
        let below = under.get_mut(name).map(Value::get_mut);
        match (below, value) {
            (Some(DeValue::Table(below)), value) if value.get_ref().is_table() => {
                if let DeValue::Table(value) = value.into_inner() {
                    merge(below, value);
                }
            }
            (_, value) => {
                // With the key of the variable: its place is that of a fault.
                under.remove(name);
                under.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_takes_the_place_of_a_variable() {
        let environment =
            [("CRAWLGATE_LISTEN__ADDRESS", "0.0.0.0:1"), ("CRAWLGATE_LISTEN__ADDRESSES", "1")];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let variables = Variables::of(environment.into_iter());
        let variables = variables.with_option("--listen", "listen", "address", "[\"[::1]:2\"]");
        let names: Vec<&str> = variables.names().collect();
        assert_eq!(names, ["CRAWLGATE_LISTEN__ADDRESSES", "--listen"]);
        let lines = "\"listen\".\"addresses\" = 1\n\"listen\".\"address\" = [\"[::1]:2\"]";
        assert_eq!(variables.lines(), lines);
    }

    #[test]
    fn a_variable_is_a_line_of_the_file() {
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("text", "CRAWLGATE_LISTEN__ADDRESS", "0.0.0.0:8118", Some(r#""listen"."address" = "0.0.0.0:8118""#)),
            ("a boolean", "CRAWLGATE_LISTEN__HTTP2", "false", Some(r#""listen"."http2" = false"#)),
            ("a number", "CRAWLGATE_LIMITS__CONNECTIONS", "100", Some(r#""limits"."connections" = 100"#)),
            ("a list", "CRAWLGATE_EGRESS__ALLOW", r#"["10.0.0.0/8"]"#, Some(r#""egress"."allow" = ["10.0.0.0/8"]"#)),
            ("text in quotes", "CRAWLGATE_ADMIN__ADDRESS", r#""""#, Some(r#""admin"."address" = """#)),
            ("a subsection", "CRAWLGATE_ROBOTS__CACHE__ORIGINS", "5", Some(r#""robots"."cache"."origins" = 5"#)),
            ("what TOML takes for a comment", "CRAWLGATE_A__B", "1 # 2", Some(r#""a"."b" = "1 # 2""#)),
            ("two lines", "CRAWLGATE_A__B", "1\nc = 2", Some(r#""a"."b" = "1\nc = 2""#)),
            ("control characters", "CRAWLGATE_A__B", "\u{1}\u{7f}\"\\", Some(r#""a"."b" = "\u0001\u007f\"\\""#)),
            ("empty", "CRAWLGATE_LISTEN__ADDRESS", "", None),
            ("the file's name", "CRAWLGATE_CONFIG", "a.toml", None),
            ("a service of Kubernetes", "CRAWLGATE_SERVICE_HOST", "10.0.0.1", None),
            ("another program's", "OTHER__KEY", "1", None),
        ];
        for (name, variable, value, want) in cases {
            let environment = [(OsString::from(variable), OsString::from(value))];
            let variables = Variables::of(environment.into_iter());
            assert_eq!(variables.lines(), want.unwrap_or_default(), "{name}");
            if want.is_some() {
                assert!(DeTable::parse(&variables.lines()).is_ok(), "{name}");
            }
        }
    }
}
