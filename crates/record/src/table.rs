//! The table behind a decision and each object: its fields with their keys. The structure, its default, its encoder and its
//! strict reader follow from it.

use std::net::SocketAddr;

use super::bounds::Bounds;
use super::cbor::{self, Keys, Malformed, MapWriter, Reader};
use crawlgate_policy::agent::Source;
use crawlgate_policy::overrides::Action;
use crawlgate_policy::{Mode, Verdict};

/// An item of CBOR.
pub(super) trait Item<'a>: Sized {
    /// Appends the item to `out`.
    fn put(&self, out: &mut Vec<u8>);

    /// Reads an item.
    fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// Returns the number of octets cut off its text.
    fn cut(&self) -> u64 {
        0
    }

    /// Returns the place of that number; `None` if nothing can be cut off.
    fn cut_place(&mut self) -> Option<&mut u64> {
        None
    }
}

/// The value of a field.
pub(super) trait Value<'a>: Sized {
    /// Returns the value that is left out.
    fn nothing() -> Self;

    /// Writes the pair, unless the value is left out.
    fn write(&self, key: u8, map: &mut MapWriter<'_>);

    /// Reads a value that is not left out.
    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed>;

    /// As for an [`Item`].
    fn cut(&self) -> u64;

    /// As for an [`Item`].
    fn cut_place(&mut self) -> Option<&mut u64>;
}

/// A value with text that a client chooses.
pub(super) trait Bounded {
    /// Cuts its text to at most `most` octets.
    fn within(self, most: usize) -> Self;
}

/// A structure that the table defines.
pub(super) trait Keyed<'a>: Default {
    /// Writes all pairs, with texts within the bounds.
    fn write_pairs(&self, bounds: Bounds, map: &mut MapWriter<'_>);

    /// Reads all pairs, except for those of the keys that are `given` already; those of unknown keys with `other`. Returns
    /// the set of all keys.
    fn read_pairs(
        &mut self,
        given: u64,
        keys: &mut Keys,
        reader: &mut Reader<'a>,
        other: impl FnMut(&mut Self, u8, &mut Reader<'a>) -> Result<(), Malformed>,
    ) -> Result<u64, Malformed>;

    /// Returns the number of octets cut off the text under each key.
    fn cuts(&self) -> impl Iterator<Item = (u8, u64)>;

    /// Returns the place of the number of octets cut off the text under a key.
    fn cut_place(&mut self, key: u8) -> Option<&mut u64>;
}

/// Defines a structure by its fields in the order of their keys. A field that is `needed` is always there; any other is left
/// out if it has its default. The text of a field has at most as many octets as its brackets say; the method behind an arrow
/// writes further pairs.
macro_rules! keyed {
    ($(#[$doc:meta])* $name:ident, $missing:literal, |$bounds:ident| {
        $($(#[$of:meta])* $field:ident: $type:ty = $key:tt $(($needed:ident))? $([$most:expr])? $(=> $then:ident)?;)+
    }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name<'a> { $($(#[$of])* pub $field: $type,)+ }

        impl Default for $name<'_> {
            fn default() -> Self {
                Self { $($field: $crate::table::Value::nothing(),)+ }
            }
        }

        impl<'a> $crate::table::Keyed<'a> for $name<'a> {
            fn write_pairs(&self, $bounds: $crate::Bounds, map: &mut $crate::cbor::MapWriter<'_>) {
                let one = Self {
                    $($($field: $crate::table::Bounded::within(self.$field, $most),)?)+
                    ..*self
                };
                $(
                    $crate::table::keyed!(@write one.$field, $key, map, $($needed)?);
                    $(one.$then(map);)?
                )+
            }

            fn read_pairs(
                &mut self,
                mut given: u64,
                keys: &mut $crate::cbor::Keys,
                reader: &mut $crate::cbor::Reader<'a>,
                mut other: impl FnMut(
                    &mut Self,
                    u8,
                    &mut $crate::cbor::Reader<'a>,
                ) -> Result<(), $crate::Malformed>,
            ) -> Result<u64, $crate::Malformed> {
                const NEEDED: u64 = 0 $(| $crate::table::keyed!(@bit $key, $($needed)?))+;
                while let Some(next) = keys.next(reader)? {
                    let next = u8::try_from(next).unwrap_or(u8::MAX);
                    given |= $crate::table::bit(next);
                    match next {
                        $($key => self.$field = $crate::table::keyed!(@read reader, $($needed)?),)+
                        _ => other(self, next, reader)?,
                    }
                }
                match given & NEEDED == NEEDED {
                    true => Ok(given),
                    false => Err($crate::Malformed($missing)),
                }
            }

            fn cuts(&self) -> impl Iterator<Item = (u8, u64)> {
                [$(($key, $crate::table::Value::cut(&self.$field))),+].into_iter()
            }

            fn cut_place(&mut self, key: u8) -> Option<&mut u64> {
                match key {
                    $($key => $crate::table::Value::cut_place(&mut self.$field),)+
                    _ => None,
                }
            }
        }
    };
    (@write $one:ident.$field:ident, $key:tt, $map:ident, needed) => {
        $crate::table::Item::put(&$one.$field, $map.key($key))
    };
    (@write $one:ident.$field:ident, $key:tt, $map:ident,) => {
        $crate::table::Value::write(&$one.$field, $key, $map)
    };
    (@read $reader:ident, needed) => { $crate::table::Item::take($reader)? };
    (@read $reader:ident,) => { $crate::table::Value::read($reader)? };
    (@bit $key:tt, needed) => { $crate::table::bit($key) };
    (@bit $key:tt,) => { 0 };
}
pub(super) use keyed;

/// Returns the bit of a key in a set of keys.
pub(super) const fn bit(key: u8) -> u64 {
    1_u64.wrapping_shl(key as u32)
}

/// Appends a map to `out`.
pub(super) fn put_map<'a>(one: &impl Keyed<'a>, bounds: Bounds, out: &mut Vec<u8>) {
    let mut map = MapWriter::open(out);
    one.write_pairs(bounds, &mut map);
    map.close();
}

/// Reads a map without further keys.
pub(super) fn take_map<'a, T: Keyed<'a>>(reader: &mut Reader<'a>) -> Result<T, Malformed> {
    let mut keys = Keys::of(reader)?;
    let mut one = T::default();
    let unknown = |_: &mut T, _, _: &mut Reader<'a>| Err(Malformed("an unknown key"));
    one.read_pairs(0, &mut keys, reader, unknown)?;
    Ok(one)
}

impl<'a, T: Item<'a>> Value<'a> for Option<T> {
    fn nothing() -> Self {
        None
    }

    fn write(&self, key: u8, map: &mut MapWriter<'_>) {
        if let Some(item) = self {
            item.put(map.key(key));
        }
    }

    fn read(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        T::take(reader).map(Some)
    }

    fn cut(&self) -> u64 {
        self.as_ref().map_or(0, T::cut)
    }

    fn cut_place(&mut self) -> Option<&mut u64> {
        self.as_mut().and_then(T::cut_place)
    }
}

impl<T: Bounded> Bounded for Option<T> {
    fn within(self, most: usize) -> Self {
        self.map(|value| value.within(most))
    }
}

/// Makes values of items, by the one that is left out.
macro_rules! values {
    ($($type:ty: $nothing:expr;)+) => {$(
        impl<'a> $crate::table::Value<'a> for $type {
            fn nothing() -> Self {
                $nothing
            }

            fn write(&self, key: u8, map: &mut $crate::cbor::MapWriter<'_>) {
                if *self != <Self as $crate::table::Value<'a>>::nothing() {
                    $crate::table::Item::put(self, map.key(key));
                }
            }

            fn read(reader: &mut $crate::cbor::Reader<'a>) -> Result<Self, $crate::Malformed> {
                $crate::table::given($crate::table::Item::take(reader)?, &<Self as $crate::table::Value<'a>>::nothing())
            }

            fn cut(&self) -> u64 {
                $crate::table::Item::cut(self)
            }

            fn cut_place(&mut self) -> Option<&mut u64> {
                $crate::table::Item::cut_place(self)
            }
        }
    )+};
}
pub(super) use values;

/// Refuses a default: it is left out.
pub(super) fn given<T: PartialEq>(value: T, default: &T) -> Result<T, Malformed> {
    if value == *default { Err(Malformed("a default that is written")) } else { Ok(value) }
}

values! {
    bool: false;
    i64: 0;
    u64: 0;
    u32: 0;
    u16: 0;
    [u8; 16]: [0; 16];
    &'a str: "";
    SocketAddr: ([0, 0, 0, 0], 0).into();
}

/// Items by their writer and their reader.
macro_rules! items {
    ($($type:ty: $put:expr, $take:expr;)+) => {$(
        impl<'a> Item<'a> for $type {
            fn put(&self, out: &mut Vec<u8>) {
                let put: fn(&mut Vec<u8>, Self) = $put;
                put(out, *self);
            }

            fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
                let take: fn(&mut Reader<'a>) -> Result<Self, Malformed> = $take;
                take(reader)
            }
        }
    )+};
}

items! {
    bool: cbor::boolean, Reader::boolean;
    i64: cbor::int, Reader::int;
    u64: cbor::uint, Reader::uint;
    u32: |out, number| cbor::uint(out, number.into()), Reader::small;
    u16: |out, number| cbor::uint(out, number.into()), Reader::small;
    [u8; 16]: |out, octets| cbor::bytes(out, &octets), |reader| reader.fixed().copied();
    &'a [u8; 32]: |out, digest| cbor::bytes(out, digest), Reader::fixed;
    &'a [u8]: |out, octets| cbor::bytes(out, octets), Reader::bytes;
    &'a str: |out, text| cbor::text(out, text), Reader::text;
    SocketAddr: cbor::address, Reader::address;
}

/// Enumerations by their numbers.
macro_rules! numbered {
    ($($name:ident),+) => {$(
        impl<'a> $crate::table::Item<'a> for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $crate::cbor::uint(out, self.number());
            }

            fn take(reader: &mut $crate::cbor::Reader<'a>) -> Result<Self, $crate::Malformed> {
                let number = reader.uint()?;
                Self::from_number(number).ok_or($crate::Malformed("an unknown number"))
            }
        }

        $crate::table::values! {
            $name: Self::default();
        }
    )+};
}
pub(super) use numbered;

numbered!(Mode, Verdict, Source, Action);
