//! The query of a URL: each parameter is taken once, and an unknown one is refused.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::{Conditions, InvalidParam};
use crawlgate_store::GroupBy;

/// The meaning of a value without content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blank {
    /// Not given: forms send every field.
    Unsaid,
    /// An empty value.
    Value,
}

/// The parameters of a URL that were not taken yet.
#[derive(Clone, Debug)]
pub struct Params {
    pairs: Vec<(String, String)>,
}

impl Params {
    /// Reads the parameters of a query, as it stands in the URL.
    pub fn of(query: Option<&str>, blank: Blank) -> Params {
        let pairs = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes());
        Params {
            pairs: pairs
                .filter(|(_, value)| blank == Blank::Value || !value.trim().is_empty())
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        }
    }

    /// Takes a value.
    ///
    /// # Errors
    /// When the parameter is given twice.
    pub fn text(&mut self, name: &str) -> Result<Option<String>, InvalidParam> {
        let mut place = self.pairs.iter().position(|(known, _)| known == name);
        let found = place.take().map(|place| self.pairs.remove(place).1);
        if self.pairs.iter().any(|(known, _)| known == name) {
            return Err(InvalidParam::new(name, "is said more than once"));
        }
        Ok(found)
    }

    /// Takes all values of a parameter that may be given more than once, in their order.
    pub fn texts(&mut self, name: &str) -> Vec<String> {
        let taken = self.pairs.extract_if(.., |(known, _)| known == name);
        taken.map(|(_, value)| value).collect()
    }

    /// Takes one of a few words.
    ///
    /// # Errors
    /// When the value is not one of them.
    pub fn word(&mut self, name: &str, words: &[&str]) -> Result<Option<String>, InvalidParam> {
        let text = self.text(name)?;
        super::one_of(name, &text, words)
    }

    /// Takes `true` or `false`.
    ///
    /// # Errors
    /// When the value is neither.
    pub fn truth(&mut self, name: &str) -> Result<Option<bool>, InvalidParam> {
        let word = self.word(name, &["true", "false"])?;
        Ok(word.map(|word| word == "true"))
    }

    /// Takes the number of items: from 1 to `max`, and `default` if the request names none.
    ///
    /// # Errors
    /// When the value is no such number.
    pub fn limit(&mut self, default: usize, max: usize) -> Result<usize, InvalidParam> {
        let Some(text) = self.text("limit")? else {
            return Ok(default);
        };
        let is_plain = text.bytes().all(|octet| octet.is_ascii_digit());
        let limit = text.parse().ok().filter(|limit| (1..=max).contains(limit));
        limit.filter(|_| is_plain).ok_or_else(|| {
            InvalidParam::new("limit", format_args!("{text}: it is from 1 to {max}"))
        })
    }

    /// Takes the logs to read.
    ///
    /// # Errors
    /// When they are given twice.
    pub fn logs(&mut self) -> Result<LogParam, InvalidParam> {
        let log = self.text("log")?;
        Ok(LogParam { log })
    }

    /// Takes the conditions on decisions.
    ///
    /// # Errors
    /// When one is given twice or has an unknown word. [`Conditions::query`] finds other errors.
    pub fn conditions(&mut self) -> Result<Conditions, InvalidParam> {
        Ok(Conditions {
            since: self.text("since")?,
            until: self.text("until")?,
            origin: self.text("origin")?,
            path: self.text("path")?,
            client: self.text("client")?,
            agent: self.text("agent")?,
            reason: self.text("reason")?,
            rule: self.text("rule")?,
            verdict: self.text("verdict")?,
            mode: self.text("mode")?,
            failed: self.truth("failed")?,
            acknowledged: self.truth("acknowledged")?,
        })
    }

    /// Takes the key by which decisions are counted.
    ///
    /// # Errors
    /// When the value is no such key.
    pub fn tally_key(&mut self) -> Result<GroupBy, InvalidParam> {
        Ok(match self.word("by", &["reason", "origin", "rule"])?.as_deref() {
            Some("origin") => GroupBy::Origin,
            Some("rule") => GroupBy::Rule,
            _ => GroupBy::Reason,
        })
    }

    /// Takes the position where a page begins, made by [`cursor`] for the same kind of list.
    ///
    /// # Errors
    /// When the cursor belongs to another list, or is not valid.
    pub fn cursor(&mut self, kind: &str) -> Result<Option<String>, InvalidParam> {
        let Some(text) = self.text("cursor")? else {
            return Ok(None);
        };
        let place = URL_SAFE_NO_PAD.decode(&text).ok();
        let place = place.and_then(|octets| String::from_utf8(octets).ok());
        let place =
            place.and_then(|place| Some(place.strip_prefix(kind)?.strip_prefix(' ')?.to_owned()));
        let wrong = || {
            let said = "is not from this list: take it from `next` of the page before, with all else as it was";
            InvalidParam::new("cursor", said)
        };
        place.map(Some).ok_or_else(wrong)
    }

    /// Checks that no parameter is left: a mistyped condition would be ignored.
    ///
    /// # Errors
    /// The first name that is left.
    pub fn finish(self, known: &[&str]) -> Result<(), InvalidParam> {
        match self.pairs.first() {
            None => Ok(()),
            Some((name, _)) => Err(InvalidParam::new(
                name,
                format_args!("is no parameter here; known are {}", known.join(", ")),
            )),
        }
    }
}

/// The logs to read.
#[derive(Debug)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct LogParam {
    /// The names of logs with commas between them, `*` for this process's own and all collected ones (`[audit] collection`);
    /// by default this process's own. The end of a name behind a slash is enough, or a part that no other name has.
    pub log: Option<String>,
}

/// The names of the conditions.
pub const CONDITIONS: [&str; 12] = [
    "since",
    "until",
    "origin",
    "path",
    "client",
    "agent",
    "reason",
    "rule",
    "verdict",
    "mode",
    "failed",
    "acknowledged",
];

/// Returns the cursor of the next page of a list. Its content is private.
pub fn cursor(kind: &str, place: &str) -> String {
    URL_SAFE_NO_PAD.encode(format!("{kind} {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_taken_once_and_none_is_ignored() {
        let mut params = Params::of(Some("reason=paced&limit=7&acknowledged=false"), Blank::Value);
        let conditions = params.conditions().expect("valid");
        assert_eq!(conditions.reason.as_deref(), Some("paced"));
        assert_eq!(conditions.acknowledged, Some(false));
        assert_eq!(params.limit(50, 100), Ok(7));
        assert_eq!(params.finish(&CONDITIONS), Ok(()));
        let mut params = Params::of(Some("agent=b&limit=7&agent=a"), Blank::Value);
        assert_eq!(params.texts("agent"), ["b", "a"]);
        assert_eq!(params.texts("agent"), [""; 0]);
        assert_eq!(params.limit(50, 100), Ok(7));

        type Take = fn(&mut Params) -> Option<InvalidParam>;
        #[rustfmt::skip] // one row, one case
        let mistakes: &[(&str, &str, Take, &str)] = &[
            ("twice", "origin=a&origin=b", |p| p.conditions().err(), "origin is said more than once"),
            ("neither true nor false", "acknowledged=1", |p| p.conditions().err(), "acknowledged 1: it is one of true, false"),
            ("none", "limit=0", |p| p.limit(50, 100).err(), "limit 0: it is from 1 to 100"),
            ("too many", "limit=101", |p| p.limit(50, 100).err(), "limit 101: it is from 1 to 100"),
            ("no number", "limit=x", |p| p.limit(50, 100).err(), "limit x: it is from 1 to 100"),
            ("a sign", "limit=%2B5", |p| p.limit(50, 100).err(), "limit +5: it is from 1 to 100"),
            ("a key that is none", "by=host", |p| p.tally_key().err(), "by host: it is one of reason, origin, rule"),
            ("a cursor that is none", "cursor=x", |p| p.cursor("a").err(), "cursor is not from this list"),
            ("an unknown parameter", "orgin=a", |p| p.clone().finish(&["origin"]).err(), "orgin is no parameter here; known are origin"),
        ];
        for (name, query, take, says) in mistakes {
            let mut params = Params::of(Some(query), Blank::Value);
            let wrong = take(&mut params).expect(name).to_string();
            assert!(wrong.starts_with(says), "{name}: {wrong}");
        }
    }

    #[test]
    fn an_empty_form_field_sets_no_parameter() {
        let query = Some("origin=&limit=&reason=%20&agent=a");
        let mut params = Params::of(query, Blank::Unsaid);
        let conditions = params.conditions().expect("valid");
        assert_eq!((conditions.origin, conditions.reason), (None, None));
        assert_eq!(conditions.agent.as_deref(), Some("a"));
        let mut params = Params::of(query, Blank::Value);
        assert_eq!(params.conditions().expect("valid").origin.as_deref(), Some(""));
    }

    #[test]
    fn a_cursor_is_valid_in_its_own_list_only() {
        let query = format!("cursor={}", cursor("decisions-newest", "17"));
        let of = |kind| Params::of(Some(&query), Blank::Value).cursor(kind);
        assert_eq!(of("decisions-newest"), Ok(Some("17".to_owned())));
        assert!(of("decisions-oldest").is_err());
        assert!(of("origins").is_err());
        assert_eq!(Params::of(None, Blank::Value).cursor("origins"), Ok(None));
    }
}
