//! A walk over a parsed TOML document that collects every fault instead of stopping at the first.
//!
//! A [`Section`] returns values by key and remembers the requested keys; any other key is unknown when the section is
//! [`finished`](Section::finish). A refused value leaves its default in place, so that the walk can go on and find the
//! next fault; a document with a fault never becomes a configuration.

use std::{fmt, ops::Range};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// Sections in which an unknown key may hold a secret. Its value is not repeated.
const WITH_SECRETS: [&str; 7] =
    ["[admin.user]", "[client]", "[upstream.proxy]", "admin", "fleet", "ship", "telemetry"];

/// A fault in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line of the file, from 1.
    pub line: usize,
    /// The variable of the environment that has the fault, instead of a line.
    pub variable: Option<String>,
    /// Section, key, value and the allowed values, in one line.
    pub message: String,
}

impl Fault {
    pub(crate) fn new(line: usize, message: String) -> Fault {
        Fault { line, variable: None, message }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variable {
            None => write!(f, "{}: {}", self.line, self.message),
            Some(variable) => write!(f, "{variable}: {}", self.message),
        }
    }
}

/// A value of the file, with its position there.
pub(crate) type Value<'t> = Spanned<DeValue<'t>>;

/// The reason why a value, or a part of it, is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    span: Range<usize>,
    why: String,
    /// True if the value may hold a password, and is not shown.
    is_secret: bool,
}

impl Refusal {
    pub(crate) fn new(value: &Value<'_>, why: impl Into<String>) -> Vec<Self> {
        vec![Self { span: value.span(), why: why.into(), is_secret: false }]
    }

    /// Refuses a value that may hold a password; the message does not repeat it.
    pub(crate) fn secret(value: &Value<'_>, why: impl Into<String>) -> Vec<Self> {
        let mut refusals = Self::new(value, why);
        for refusal in &mut refusals {
            refusal.is_secret = true;
        }
        refusals
    }

    /// Adds an alternative to the allowed values.
    pub(crate) fn or(&mut self, alternative: &str) {
        self.why.push_str(", or ");
        self.why.push_str(alternative);
    }
}

/// A value that was read, or all its faults.
pub(crate) type Read<T> = Result<T, Vec<Refusal>>;

/// A file under examination.
pub(crate) struct Reader<'t> {
    text: &'t str,
    faults: Vec<Fault>,
    unknown_keys: Vec<UnknownKey>,
    known: Vec<(&'static str, &'static str)>,
}

/// A key that no section requested. Judged at the end, when all sections' keys are known.
struct UnknownKey {
    section: &'static str,
    key: String,
    /// True if the value is a table: the key names a section.
    is_section: bool,
    line: usize,
    shown: String,
}

impl<'t> Reader<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, faults: Vec::new(), unknown_keys: Vec::new(), known: Vec::new() }
    }

    /// Returns the whole document, the section without a name.
    pub(crate) fn top<'r>(&'r mut self, document: &'t DeTable<'t>) -> Section<'r, 't> {
        Section {
            name: "",
            table: Some(document),
            at: 0,
            reader: self,
            known: Vec::new(),
            refused: Vec::new(),
        }
    }

    /// Records a syntax error that the TOML parser found.
    pub(crate) fn syntax(&mut self, error: &toml::de::Error) {
        let line = self.line(error.span().map_or(0, |span| span.start));
        let message = error.message().replace('\n', "; ");
        // The parser names no key, but it tells where the key stands.
        let key = error.span().and_then(|span| self.text.get(span));
        let message = match key {
            Some(key) if message == "duplicate key" => format!("duplicate key {key}"),
            _ => message,
        };
        self.faults.push(Fault::new(line, format!("not TOML: {message}")));
    }

    /// Returns all faults, in the order of the file.
    pub(crate) fn into_faults(mut self) -> Vec<Fault> {
        for unknown in std::mem::take(&mut self.unknown_keys) {
            let advice = advice(unknown.section, &unknown.key, &self.known);
            let kind = if unknown.is_section { "section" } else { "key" };
            let message = format!("{}: unknown {kind}; {advice}", unknown.shown);
            self.faults.push(Fault::new(unknown.line, message));
        }
        self.faults.sort_by_key(|fault| fault.line);
        self.faults
    }

    /// Returns the keys that the sections asked for so far, each with its section.
    #[cfg(test)]
    pub(crate) fn known(&self) -> &[(&'static str, &'static str)] {
        &self.known
    }

    fn fault(&mut self, at: usize, message: String) {
        let line = self.line(at);
        self.faults.push(Fault::new(line, message));
    }

    fn line(&self, offset: usize) -> usize {
        let before = self.text.as_bytes().get(..offset).unwrap_or_default();
        1 + before.iter().filter(|octet| **octet == b'\n').count()
    }

    /// Returns the file's text at `span`, short enough for a message.
    fn shown(&self, span: Range<usize>) -> String {
        const LONGEST: usize = 60;
        let written = self.text.get(span).unwrap_or_default();
        let first_line = written.lines().next().unwrap_or_default();
        let mut short: String = first_line.chars().take(LONGEST).collect();
        if short.len() < written.trim_end().len() {
            short.push('…');
        }
        short
    }
}

/// One table of the document while its keys are read.
pub(crate) struct Section<'r, 't> {
    name: &'static str,
    table: Option<&'t DeTable<'t>>,
    /// The position of its header, in an array of tables.
    at: usize,
    reader: &'r mut Reader<'t>,
    known: Vec<&'static str>,
    refused: Vec<&'static str>,
}

impl<'t> Section<'_, 't> {
    /// Reads the value of `key` into `target`, if the file names the key and `read` takes the value.
    pub(crate) fn set<T>(
        &mut self,
        key: &'static str,
        target: &mut T,
        read: impl FnOnce(&Value<'t>) -> Read<T>,
    ) {
        self.learn(key);
        let Some(value) = self.value(key) else {
            return;
        };
        match read(value) {
            Ok(value) => *target = value,
            Err(refusals) => {
                self.refused.push(key);
                self.report(key, refusals);
            }
        }
    }

    /// Reports the refusals of the value of `key`.
    fn report(&mut self, key: &str, refusals: Vec<Refusal>) {
        for Refusal { span, why, is_secret } in refusals {
            let shown = if !is_secret { self.reader.shown(span.clone()) } else { "…".to_owned() };
            let message = format!("{} = {shown}: {why}", self.label(key));
            self.reader.fault(span.start, message);
        }
    }

    /// Gives `read` the section below this one with this name, with its dots; an empty one if the file has none. A
    /// value of another type is a fault.
    pub(crate) fn within(&mut self, name: &'static str, read: impl FnOnce(&mut Section<'_, 't>)) {
        let key = name.rsplit('.').next().unwrap_or(name);
        self.learn(key);
        let value = self.value(key);
        let table = value.and_then(|value| value.get_ref().as_table());
        if let (Some(value), None) = (value, table) {
            let message = format!("{}: a section is written [{name}]", self.label(key));
            self.reader.fault(value.span().start, message);
        }
        let mut below = self.below(name, table, 0);
        read(&mut below);
        below.finish();
    }

    /// Gives `read` the tables of an array of tables, each as the section `[name]`. A value of another type is a fault.
    pub(crate) fn tables(
        &mut self,
        key: &'static str,
        name: &'static str,
        mut read: impl FnMut(&mut Section<'_, 't>),
    ) {
        self.learn(key);
        let Some(value) = self.value(key) else {
            return;
        };
        let Some(tables) = as_tables(value) else {
            let message = format!("{}: each one is written [{name}]", self.label(key));
            return self.reader.fault(value.span().start, message);
        };
        for (table, at) in tables {
            let mut entry = self.below(name, Some(table), at);
            read(&mut entry);
            entry.finish();
        }
    }

    /// Returns how many tables an array of tables has.
    pub(crate) fn count(&self, key: &str) -> usize {
        let tables = self.value(key).and_then(as_tables);
        tables.map_or(0, |tables| tables.len())
    }

    fn below<'s>(
        &'s mut self,
        name: &'static str,
        table: Option<&'t DeTable<'t>>,
        at: usize,
    ) -> Section<'s, 't> {
        Section { name, table, at, reader: self.reader, known: Vec::new(), refused: Vec::new() }
    }

    fn learn(&mut self, key: &'static str) {
        self.known.push(key);
        self.reader.known.push((self.name, key));
    }

    /// Returns the text of `key`, before or after it is read.
    pub(crate) fn text(&self, key: &str) -> Option<&'t str> {
        self.value(key)?.get_ref().as_str()
    }

    /// Reports each of `keys` that the section does not name, at the first key that it does name, or at its header.
    pub(crate) fn demand(&mut self, keys: &[&str]) {
        let named = self.table.into_iter().flat_map(|table| table.iter());
        let first = named.map(|(name, _)| name.span().start).min();
        let at = first.unwrap_or(self.at);
        for key in keys {
            if !self.names(key) {
                let message = format!("{} is missing", self.label(key));
                self.reader.fault(at, message);
            }
        }
    }

    /// Gives `read` every key of the section with its value, for a section with keys of the user's choice.
    pub(crate) fn each(
        &mut self,
        mut read: impl FnMut(&str, &Value<'t>) -> Result<(), &'static str>,
    ) {
        // None of them is unknown.
        for (key, value) in self.table.take().into_iter().flat_map(|table| table.iter()) {
            if let Err(why) = read(key.get_ref(), value) {
                // As written: the fault of a key that must be quoted shows at its quotes.
                let label = self.label(&self.reader.shown(key.span()));
                let shown = self.reader.shown(value.span());
                let message = format!("{label} = {shown}: {why}");
                self.reader.fault(value.span().start, message);
            }
        }
    }

    /// Checks a rule between keys. The fault is reported at the first of `keys` that the file names; values that were
    /// refused by themselves are not judged again.
    pub(crate) fn require(&mut self, holds: bool, keys: &[&'static str], why: impl fmt::Display) {
        if holds || keys.iter().any(|key| self.refused.contains(key)) {
            return;
        }
        let Some((key, value)) = keys.iter().find_map(|key| Some((*key, self.value(key)?))) else {
            // Defaults agree with each other: a broken rule involves a key of the file.
            debug_assert!(false, "the defaults break a rule on {keys:?}");
            return;
        };
        self.report(key, Refusal::new(value, why.to_string()));
    }

    /// Checks that no earlier table has the secret of this one.
    pub(crate) fn require_other_secret(&mut self, holds: bool, key: &str, why: &str) {
        if let (false, Some(value)) = (holds, self.value(key)) {
            self.report(key, Refusal::secret(value, why));
        }
    }

    /// Tells whether the file has the section.
    pub(crate) fn is_named(&self) -> bool {
        self.table.is_some()
    }

    /// Tells whether the file names `key`.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.value(key).is_some()
    }

    /// Ends the section: keys that were not requested are unknown.
    pub(crate) fn finish(self) {
        let entries = self.table.into_iter().flat_map(|table| table.iter());
        for (key, value) in entries {
            let name: &str = key.get_ref();
            if self.known.contains(&name) {
                continue;
            }
            let shown = match value.get_ref() {
                DeValue::Table(_) | DeValue::Array(_) => self.label(name),
                // A misspelt `password`, or a token instead of its file.
                _ if WITH_SECRETS.contains(&self.name) => format!("{} = …", self.label(name)),
                _ => format!("{} = {}", self.label(name), self.reader.shown(value.span())),
            };
            self.reader.unknown_keys.push(UnknownKey {
                section: self.name,
                key: name.to_owned(),
                is_section: self.name.is_empty() && matches!(value.get_ref(), DeValue::Table(_)),
                line: self.reader.line(key.span().start),
                shown,
            });
        }
    }

    fn value(&self, key: &str) -> Option<&'t Value<'t>> {
        self.table.and_then(|table| table.get(key))
    }

    fn label(&self, key: &str) -> String {
        match self.name {
            "" => key.to_owned(),
            name => format!("[{name}] {key}"),
        }
    }
}

/// Returns the tables of an array of tables, each with the position of its header.
fn as_tables<'t>(value: &'t Value<'t>) -> Option<Vec<(&'t DeTable<'t>, usize)>> {
    let tables = value.get_ref().as_array()?.iter();
    let table = |item: &'t Value<'t>| Some((item.get_ref().as_table()?, item.span().start));
    tables.map(table).collect()
}

/// Returns the advice about an unknown key: the known one that was probably meant, the section it belongs to, or all.
fn advice(section: &str, key: &str, known: &[(&'static str, &'static str)]) -> String {
    let here = || known.iter().filter(|(of, _)| *of == section);
    let elsewhere = || {
        let elsewhere = known.iter();
        elsewhere.filter(|(of, name)| *name == key && *of != section)
    };
    let elsewhere = elsewhere().find(|(of, _)| of.is_empty()).or_else(|| elsewhere().next());
    if let Some((of, _)) = elsewhere {
        return if of.is_empty() {
            format!("[{key}] is a section of its own")
        } else {
            format!("it belongs to [{of}]")
        };
    }
    let nearest = here()
        .map(|(_, name)| (strsim::levenshtein(key, name), *name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 5)
        .min();
    if let Some((_, name)) = nearest {
        return format!("did you mean {name}?");
    }
    let mut names: Vec<&str> = here().map(|(_, name)| *name).collect();
    names.sort_unstable();
    format!("known here: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_key_leads_to_the_nearest_one() {
        let known = [
            ("robots", "profile"),
            ("robots", "max_age"),
            ("robots", "agents"),
            ("limits", "max_body_octets"),
            ("limits", "max_held"),
        ];
        let all = "known here: agents, max_age, profile";
        #[rustfmt::skip] // one row, one case
        let cases = [
            ("one missing", "robots", "profil", "did you mean profile?"),
            ("one too many", "robots", "proffile", "did you mean profile?"),
            ("one replaced", "robots", "prafile", "did you mean profile?"),
            ("two swapped", "robots", "porfile", "did you mean profile?"),
            ("three apart", "robots", "porfila", all),
            ("two apart in a short one", "robots", "agenza", "did you mean agents?"),
            ("four apart in a long one", "limits", "may_budy_oktetz", "did you mean max_body_octets?"),
            ("an empty key", "robots", "", all),
            ("characters, not octets", "robots", "prøfilé", "did you mean profile?"),
            ("a key of another section", "robots", "max_held", "it belongs to [limits]"),
        ];
        for (name, section, key, want) in cases {
            assert_eq!(advice(section, key, &known), want, "{name}");
        }
    }
}
