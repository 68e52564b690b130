//! One place for a key: [`section!`] makes of one row its field, its default, its reader, its line of `config show` and what a
//! reload does with it. [`table!`] does the same for the keys of a table that may repeat.
//!
//! ```ignore
//! section! {
//!     /// `[pace]`
//!     #[derive(Clone, Debug, PartialEq)]
//!     pub struct PaceConfig "pace" {
//!         /// Requests that may follow each other at once; at least 1.
//!         burst: u32 = 1, integer(1..=1_000_000), AtReload;
//!         /// The CAs to trust, under the key `roots`.
//!         extra_roots as "roots": Vec<PathBuf> = Vec::new(), one_or_list(path), AtRestart;
//!     }
//! }
//! ```
//!
//! A row is the field with its doc, its type, its default, its [`Form`](super::forms::Form), and the time when a change takes
//! effect. The order of the rows is that of `config show`. rustfmt does not touch the rows: one line each. In place of
//! a form stands another [`Key`] where the value is no single one: a [`Part`], [`Tables`], [`NoKey`].
//! `section! { for TYPE "name" { … } }`, with rows without defaults, does the same for a struct of another crate.
//!
//! Rules between keys are functions beside the section, which `apply` calls.

use std::sync::Arc;

use super::forms::{Context, Form};
use super::read::Section;

/// One key of the configuration with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Section and key: `robots.profile`, `robots.cache.bytes`.
    pub key: &'static str,
    /// The value in TOML.
    pub value: String,
    /// The time when a changed value takes effect.
    pub takes_effect: TakesEffect,
}

impl Entry {
    pub(crate) fn new(key: &'static str, takes_effect: TakesEffect, value: String) -> Self {
        Self { key, value, takes_effect }
    }
}

/// The time when a changed value takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakesEffect {
    /// At a reload (SIGHUP).
    AtReload,
    /// At the next start: sockets, files and caches depend on it.
    AtRestart,
}

/// The keys of a section, as [`section!`] makes them of its rows.
pub(crate) trait Keys {
    /// The section's name, with dots.
    const NAME: &'static str;

    /// Reads the keys that the file names.
    fn read(&mut self, section: &mut Section<'_, '_>, cx: &Context);

    /// Adds the keys with their values.
    fn show(&self, to: &mut Vec<Entry>);

    /// Takes the values of `old` for keys that only a restart can change.
    fn keep(&mut self, old: &Self);
}

/// The name of a key, by itself or behind that of its section.
pub(crate) type Name = &'static str;

/// The treatment of a field: that of a [`Form`] for a key with one value, or another one.
pub(crate) trait Key<T> {
    fn read(&self, key: Name, to: &mut T, section: &mut Section<'_, '_>, cx: &Context);

    fn show(&self, key: Name, when: TakesEffect, value: &T, to: &mut Vec<Entry>);

    fn keep(&self, when: TakesEffect, to: &mut T, old: &T)
    where
        T: Clone,
    {
        if when == TakesEffect::AtRestart {
            to.clone_from(old);
        }
    }
}

impl<T> Key<T> for Form<T> {
    fn read(&self, key: Name, to: &mut T, section: &mut Section<'_, '_>, cx: &Context) {
        section.set(key, to, |value| self.parse(value, cx));
    }

    fn show(&self, key: Name, when: TakesEffect, value: &T, to: &mut Vec<Entry>) {
        to.push(Entry::new(key, when, self.write(value)));
    }
}

/// A struct with several keys.
pub(crate) enum Part {
    /// They stand in a section below: `[robots.cache]`.
    Nested,
    /// They stand in the same section.
    Flat,
    /// Their section is read apart, and shown here.
    Apart,
}

impl<K: Keys> Key<K> for Part {
    fn read(&self, _: Name, to: &mut K, section: &mut Section<'_, '_>, cx: &Context) {
        match self {
            Part::Nested => section.within(K::NAME, |below| to.read(below, cx)),
            Part::Flat => to.read(section, cx),
            Part::Apart => {}
        }
    }

    fn show(&self, _: Name, _: TakesEffect, value: &K, to: &mut Vec<Entry>) {
        value.show(to);
    }

    fn keep(&self, _: TakesEffect, to: &mut K, old: &K) {
        to.keep(old);
    }
}

impl<K: Keys + Clone> Keys for Arc<K> {
    const NAME: &'static str = K::NAME;

    fn read(&mut self, section: &mut Section<'_, '_>, cx: &Context) {
        Arc::make_mut(self).read(section, cx);
    }

    fn show(&self, to: &mut Vec<Entry>) {
        K::show(self, to);
    }

    fn keep(&mut self, old: &Self) {
        Arc::make_mut(self).keep(old);
    }
}

/// The treatment of a field without a key.
pub(crate) struct NoKey;

impl<T> Key<T> for NoKey {
    fn read(&self, _: Name, _: &mut T, _: &mut Section<'_, '_>, _: &Context) {}

    fn show(&self, _: Name, _: TakesEffect, _: &T, _: &mut Vec<Entry>) {}
}

/// Tables that repeat, such as `[[client]]`, or one in a line, such as `quota`.
pub(crate) struct Tables<T> {
    /// The section's name: `[client]`.
    pub(crate) name: &'static str,
    /// Reads one table, after those before it. `None` if a required key is missing or refused.
    pub(crate) read: fn(&mut Section<'_, '_>, &Context, &[T]) -> Option<T>,
    /// Writes one in a line.
    pub(crate) write: fn(&T) -> String,
}

impl<T> Key<Vec<T>> for Tables<T> {
    fn read(&self, key: Name, to: &mut Vec<T>, section: &mut Section<'_, '_>, cx: &Context) {
        section.tables(key, self.name, |table| {
            let read = (self.read)(table, cx, to);
            to.extend(read);
        });
    }

    fn show(&self, key: Name, when: TakesEffect, tables: &Vec<T>, to: &mut Vec<Entry>) {
        let tables: Vec<String> = tables.iter().map(self.write).collect();
        to.push(Entry::new(key, when, format!("[{}]", tables.join(", "))));
    }
}

/// The treatment of a key of a table that may repeat.
pub(crate) trait Cell<T> {
    /// Returns the value, if the table names it and it is right.
    fn read(&self, key: Name, table: &mut Section<'_, '_>, cx: &Context) -> Option<T>;

    fn write(&self, value: &T) -> String;
}

impl<T> Cell<T> for Form<T> {
    fn read(&self, key: Name, table: &mut Section<'_, '_>, cx: &Context) -> Option<T> {
        let mut found = None;
        table.set(key, &mut found, |value| self.parse(value, cx).map(Some));
        found
    }

    fn write(&self, value: &T) -> String {
        Form::write(self, value)
    }
}

impl<T> Cell<T> for Tables<T> {
    fn read(&self, _: Name, table: &mut Section<'_, '_>, cx: &Context) -> Option<T> {
        let mut found = None;
        table.within(self.name, |below| {
            found = below.is_named().then(|| (self.read)(below, cx, &[]));
        });
        found.flatten()
    }

    fn write(&self, value: &T) -> String {
        (self.write)(value)
    }
}

/// Tells whether no table before has this value of a key.
pub(crate) fn is_new<T, K: PartialEq>(before: &[T], of: fn(&T) -> &K, value: &Option<K>) -> bool {
    before.iter().all(|one| Some(of(one)) != value.as_ref())
}

/// Declares a section: see the [module](self).
macro_rules! section {
    ($(#[$attribute:meta])* pub struct $name:ident $title:literal { $(
        $(#[$doc:meta])* $field:ident $(as $key:literal)? : $type:ty = $default:expr, $form:expr, $when:ident;
    )* }) => {
        $(#[$attribute])*
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $name {
            /// Returns the defaults.
            pub(crate) fn builtin() -> Self {
                Self { $($field: $default,)* }
            }
        }

        section! { for $name $title { $($field $(as $key)? : $type, $form, $when;)* } }
    };
    (for $name:ident $title:literal { $(
        $field:ident $(as $key:literal)? : $type:ty, $form:expr, $when:ident;
    )* }) => {
        impl $crate::section::Keys for $name {
            const NAME: &'static str = $title;

            fn read(&mut self, section: &mut $crate::read::Section<'_, '_>, cx: &$crate::forms::Context) {
                use $crate::section::{Key, name};
                $(Key::<$type>::read(&$form, name!($field $($key)?), &mut self.$field, section, cx);)*
            }

            fn show(&self, to: &mut Vec<$crate::section::Entry>) {
                use $crate::section::{Key, TakesEffect, name};
                $(
                    let key = concat!($title, ".", name!($field $($key)?));
                    Key::<$type>::show(&$form, key, TakesEffect::$when, &self.$field, to);
                )*
            }

            fn keep(&mut self, old: &Self) {
                use $crate::section::{Key, TakesEffect};
                $(Key::<$type>::keep(&$form, TakesEffect::$when, &mut self.$field, &old.$field);)*
            }
        }
    };
}
pub(crate) use section;

/// Declares the keys of a table that may repeat, each with its type, its form, and its value in a table that is read, `None`
/// where it is left out. Square brackets before the rows take the type apart for the values.
///
/// ```ignore
/// table! {
///     struct Written of quota: Quota {
///         requests: u64, integer(1..=1 << 53), quota.requests;
///         per: Duration, duration(secs(1)..=days(366)), Some(quota.per);
///     }
/// }
/// ```
macro_rules! table {
    (struct $name:ident of $it:ident: $of:ty $([ $($part:pat = $found:expr,)* ])? { $(
        $field:ident: $type:ty, $form:expr, $shown:expr;
    )* }) => {
        /// The keys as a table has them; `None` where it does not name them or they are wrong.
        struct $name {
            $($field: Option<$type>,)*
        }

        impl $name {
            fn read(table: &mut $crate::read::Section<'_, '_>, cx: &$crate::forms::Context) -> Self {
                use $crate::section::Cell;
                Self { $($field: Cell::<$type>::read(&$form, stringify!($field), table, cx),)* }
            }

            fn write($it: &$of) -> String {
                use $crate::section::Cell;
                $($(let $part = $found;)*)?
                let mut keys = Vec::new();
                $(
                    let shown: Option<$type> = $shown;
                    if let Some(shown) = shown {
                        let value = Cell::<$type>::write(&$form, &shown);
                        keys.push(format!("{} = {value}", stringify!($field)));
                    }
                )*
                format!("{{ {} }}", keys.join(", "))
            }
        }
    };
}
pub(crate) use table;

/// The name of a key: that of its field, or another.
macro_rules! name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}
pub(crate) use name;
