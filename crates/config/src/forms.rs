//! Forms of values: for each, the way from the file to a type, refusing with a sentence that names the allowed values, and the
//! way back, which `config show` prints.

use std::{
    fmt::{self, Display},
    ops::RangeInclusive,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use toml::de::{DeInteger, DeValue};
use url::Url;

use super::{
    read::{Read, Refusal, Value},
    units::{ONE_MS, format_bytes, format_duration, hours, parse_bytes, parse_duration},
};

/// The fault of a value of another type than a text.
const TEXT: &str = "expected a text in quotes";

/// The facts that a value is read by, besides its text.
#[derive(Default)]
pub(crate) struct Context {
    /// The directory that relative paths start at.
    pub(crate) base: PathBuf,
    /// The names of the `[[listener]]`s; `None` where some are unknown because of a fault.
    pub(crate) listeners: Option<Vec<Arc<str>>>,
    /// The names of the `[[signing]]`; `None` where some are unknown because of a fault.
    pub(crate) identities: Option<Vec<Arc<str>>>,
}

/// Reads a value of the file.
pub(crate) type Reads<T> = dyn Fn(&Value<'_>, &Context) -> Read<T>;

/// The form of a value in the file.
pub(crate) struct Form<T> {
    pub(crate) read: Box<Reads<T>>,
    write: Box<dyn Fn(&T) -> String>,
}

impl<T> Form<T> {
    pub(crate) fn new(
        read: impl Fn(&Value<'_>, &Context) -> Read<T> + 'static,
        write: impl Fn(&T) -> String + 'static,
    ) -> Self {
        Self { read: Box::new(read), write: Box::new(write) }
    }

    /// Reads a value of the file.
    pub(crate) fn parse(&self, value: &Value<'_>, cx: &Context) -> Read<T> {
        (self.read)(value, cx)
    }

    /// Writes a value as the file has it.
    pub(crate) fn write(&self, value: &T) -> String {
        (self.write)(value)
    }
}

/// Returns a form that refuses what `read` does not take, for the reason `why`.
pub(crate) fn checked<T>(
    read: impl Fn(&Value<'_>) -> Option<T> + 'static,
    why: impl Into<String>,
    write: impl Fn(&T) -> String + 'static,
) -> Form<T> {
    let why = why.into();
    Form::new(move |value, _| read(value).ok_or_else(|| Refusal::new(value, &*why)), write)
}

/// True or false.
pub(crate) fn boolean() -> Form<bool> {
    let read = |value: &Value<'_>| value.get_ref().as_bool();
    checked(read, "expected true or false", bool::to_string)
}

/// Returns a text that `parse` reads; its error names the allowed values.
pub(crate) fn text<T: Display + 'static, E: Display>(
    parse: impl Fn(&str) -> Result<T, E> + 'static,
) -> Form<T> {
    text_within(move |text, _| parse(text))
}

/// Returns a text that `parse` reads in its context.
pub(crate) fn text_within<T: Display + 'static, E: Display>(
    parse: impl Fn(&str, &Context) -> Result<T, E> + 'static,
) -> Form<T> {
    Form::new(move |value, cx| read_text(value, |text| parse(text, cx)), quoted)
}

fn read_text<T, E: Display>(
    value: &Value<'_>,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Read<T> {
    let text = value.get_ref().as_str();
    let text = text.ok_or_else(|| Refusal::new(value, TEXT))?;
    parse(text).map_err(|error| Refusal::new(value, error.to_string()))
}

/// Returns the address of a service that `parse` reads. The value may hold a password, which is one of the faults, so the
/// message does not repeat such a value.
pub(crate) fn service<T: Display + 'static, E: Display>(
    parse: impl Fn(&str) -> Result<T, E> + 'static,
) -> Form<T> {
    let read = move |value: &Value<'_>, _: &Context| match value.get_ref().as_str() {
        Some(text) => parse(text).map_err(|error| {
            if text.contains('@') {
                Refusal::secret(value, error.to_string())
            } else {
                Refusal::new(value, error.to_string())
            }
        }),
        None => Err(Refusal::secret(value, TEXT)),
    };
    Form::new(read, quoted)
}

/// Returns a text that `parse` reads and no message repeats: an operator who writes a secret instead of its hash must not find
/// it in a log.
pub(crate) fn secret<T: Display + 'static>(
    parse: impl Fn(&str) -> Result<T, &'static str> + 'static,
) -> Form<T> {
    let read = move |value: &Value<'_>, _: &Context| {
        let text = value.get_ref().as_str().ok_or(TEXT);
        let read = text.and_then(&parse);
        read.map_err(|why| Refusal::secret(value, why))
    };
    Form::new(read, quoted)
}

/// A secret with the mark that stands for it in what is shown, so that a change shows.
pub(crate) struct Hidden<T> {
    pub(crate) secret: T,
    mark: String,
}

impl<T: Clone> Hidden<T> {
    pub(crate) fn new(secret: &T, mark: String) -> Self {
        let secret = secret.clone();
        Self { secret, mark }
    }
}

impl<T> From<T> for Hidden<T> {
    fn from(secret: T) -> Self {
        let mark = String::new();
        Self { secret, mark }
    }
}

impl<T> Display for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "*** ({})", self.mark)
    }
}

/// A type of a few values that the file names by words.
pub(crate) trait Words: Copy + PartialEq + 'static {
    /// Each value with its word.
    const WORDS: &'static [(&'static str, Self)];

    /// Returns the value that this word names.
    fn of_word(word: &str) -> Option<Self> {
        let found = Self::WORDS.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value)
    }
}

/// Gives the values of an enumeration their words in the file: of one that is declared here, or of another `for` its type.
macro_rules! words {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$doc:meta])* $value:ident = $word:expr,)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($(#[$doc])* $value,)*
        }

        words! { for $name { $($value = $word,)* } }
    };
    (for $name:ident { $($value:ident = $word:expr,)* }) => {
        impl $crate::forms::Words for $name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$value)),*];
        }
    };
}
pub(crate) use words;

/// One of a few words.
pub(crate) fn word<T: Words>() -> Form<T> {
    choice(T::WORDS)
}

/// Returns one of a few names.
pub(crate) fn choice<T: Copy + PartialEq>(names: &'static [(&'static str, T)]) -> Form<T> {
    let read = |value: &Value<'_>| {
        let name = value.get_ref().as_str()?;
        let chosen = names.iter().find(|(known, _)| *known == name);
        chosen.map(|(_, chosen)| *chosen)
    };
    let known: Vec<String> = names.iter().map(|(name, _)| format!("{name:?}")).collect();
    checked(read, format!("not one of {}", known.join(", ")), |value| {
        let found = names.iter().find(|(_, known)| known == value);
        quoted(found.map_or("", |(name, _)| name))
    })
}

/// Returns a whole number within bounds. `T` holds every number within them.
pub(crate) fn integer<T: TryFrom<u64> + ToString + 'static>(
    allowed: RangeInclusive<u64>,
) -> Form<T> {
    let (least, most) = (allowed.start(), allowed.end());
    let why = format!("expected a whole number from {least} to {most}");
    let read = move |value: &Value<'_>| {
        let number = whole(value).filter(|number| allowed.contains(number))?;
        T::try_from(number).ok()
    };
    checked(read, why, T::to_string)
}

/// Returns a number within bounds; whole numbers count.
pub(crate) fn number(allowed: RangeInclusive<f64>) -> Form<f64> {
    let (least, most) = (allowed.start(), allowed.end());
    let why = format!("expected a number from {least} to {most}");
    let read = move |value: &Value<'_>| {
        let number: f64 = match value.get_ref() {
            DeValue::Float(float) => float.as_str().parse().ok(),
            // Exact: `as` would be as good for every number that the bounds let through.
            DeValue::Integer(integer) => decimal(integer).and_then(|text| text.parse().ok()),
            _ => None,
        }?;
        // NaN is in no range.
        allowed.contains(&number).then_some(number)
    };
    // With its point, even if it is whole.
    let write = |number: &f64| toml::Value::Float(*number).to_string();
    checked(read, why, write)
}

/// Returns a duration within bounds.
pub(crate) fn duration(allowed: RangeInclusive<Duration>) -> Form<Duration> {
    let (least, most) = (allowed.start(), allowed.end());
    let (least, most) = (format_duration(*least), format_duration(*most));
    let why =
        format!("expected a duration such as \"30s\" or \"1h30m\", from \"{least}\" to \"{most}\"");
    let read = move |value: &Value<'_>| {
        let duration = parse_duration(value.get_ref().as_str()?)?;
        allowed.contains(&duration).then_some(duration)
    };
    checked(read, why, |duration| quoted(&format_duration(*duration)))
}

/// Returns a number of octets within bounds: an integer, or a text with a unit. `T` holds every number within the bounds.
pub(crate) fn bytes<T: TryFrom<u64> + TryInto<u64> + Copy + 'static>(
    allowed: RangeInclusive<u64>,
) -> Form<T> {
    let (least, most) = (format_bytes(*allowed.start()), format_bytes(*allowed.end()));
    let why = format!(
        "expected a number of octets or a size such as \"64KiB\", from \"{least}\" to \"{most}\""
    );
    let read = move |value: &Value<'_>| {
        let bytes = match value.get_ref() {
            DeValue::String(text) => parse_bytes(text),
            _ => whole(value),
        };
        T::try_from(bytes.filter(|bytes| allowed.contains(bytes))?).ok()
    };
    checked(read, why, |bytes: &T| {
        let text = format_bytes((*bytes).try_into().unwrap_or(u64::MAX));
        match text.ends_with('B') {
            true => quoted(&text),
            // No unit divides it.
            false => text,
        }
    })
}

/// A path; a relative one starts at the directory of the file that names it.
pub(crate) fn path() -> Form<PathBuf> {
    let read = |value: &Value<'_>, cx: &Context| {
        read_text(value, |text| {
            if text.is_empty() {
                Err("expected a path")
            } else if text.contains('\0') {
                Err("a path holds no NUL")
            } else if text == "~" || text.starts_with("~/") {
                // A shell would have expanded it; crawlgate would make a directory of that name.
                Err("~ is not expanded here: write the whole path")
            } else {
                Ok(cx.base.join(text))
            }
        })
    };
    Form::new(read, |path| quoted(&path.display()))
}

/// Returns an array of values, each of `form`. All refused ones are reported.
pub(crate) fn list<T: 'static>(form: Form<T>) -> Form<Vec<T>> {
    let Form { read, write } = form;
    let read = move |value: &Value<'_>, cx: &Context| {
        let Some(array) = value.get_ref().as_array() else {
            return Err(Refusal::new(value, "expected a list: [ … ]"));
        };
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for value in array.iter() {
            match read(value, cx) {
                Ok(value) => taken.push(value),
                Err(refusals) => refused.extend(refusals),
            }
        }
        if refused.is_empty() { Ok(taken) } else { Err(refused) }
    };
    Form::new(read, move |items| {
        let items: Vec<String> = items.iter().map(&write).collect();
        format!("[{}]", items.join(", "))
    })
}

/// Returns a list, or one value that stands for a list of one.
pub(crate) fn one_or_list<T: 'static>(form: fn() -> Form<T>) -> Form<Vec<T>> {
    let (one, Form { read, write }) = (form(), list(form()));
    let read = move |value: &Value<'_>, cx: &Context| match value.get_ref() {
        DeValue::Array(_) => read(value, cx),
        _ => one.parse(value, cx).map(|value| vec![value]),
    };
    Form::new(read, write)
}

/// Returns `word` for `None`, and anything else in `form`.
pub(crate) fn unless<T: 'static>(word: &'static str, form: Form<T>) -> Form<Option<T>> {
    let Form { read, write } = form;
    let read = move |value: &Value<'_>, cx: &Context| {
        if value.get_ref().as_str() == Some(word) {
            return Ok(None);
        }
        read(value, cx).map(Some).map_err(|mut refusals| {
            for refusal in &mut refusals {
                refusal.or(&format!("{word:?}"));
            }
            refusals
        })
    };
    Form::new(read, move |value| match value {
        Some(value) => write(value),
        None => quoted(word),
    })
}

/// Returns a limit that may be `"unlimited"`.
pub(crate) fn unlimited<T: 'static>(form: Form<T>) -> Form<Option<T>> {
    unless("unlimited", form)
}

/// Returns a span that may be `"forever"`.
pub(crate) fn forever(form: Form<Duration>) -> Form<Option<Duration>> {
    unless("forever", form)
}

/// A wait on the network: not zero, not so long that it never ends.
pub(crate) fn timeout() -> Form<Duration> {
    duration(ONE_MS..=hours(24))
}

/// Returns a form that takes `false`, too, for none: people write it who read the key as a switch.
pub(crate) fn or_false<T: 'static>(form: Form<Option<T>>) -> Form<Option<T>> {
    let Form { read, write } = form;
    let read = move |value: &Value<'_>, cx: &Context| match value.get_ref().as_bool() {
        Some(false) => Ok(None),
        _ => read(value, cx),
    };
    Form::new(read, write)
}

/// Writes a text in TOML's quotes.
pub(crate) fn quoted(text: &(impl Display + ?Sized)) -> String {
    toml::Value::String(text.to_string()).to_string()
}

/// Returns a URL for HTTP without credentials, query and fragment; `None` for any other text.
pub(crate) fn plain_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let is_plain = matches!(url.scheme(), "http" | "https")
        && url.has_host()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    is_plain.then_some(url)
}

pub(crate) fn whole(value: &Value<'_>) -> Option<u64> {
    let integer = value.get_ref().as_integer()?;
    u64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn decimal(integer: &DeInteger<'_>) -> Option<String> {
    let whole = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
    Some(whole.to_string())
}
