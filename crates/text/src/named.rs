//! Enumerations that records spell: each variant has a number in entries and a name in lines.

/// Defines an enumeration with a stable number in entries and a stable name in lines for each variant. The variant with the
/// number 0 is the default, which entries leave out.
#[macro_export]
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident = $number:literal $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$of])* $variant = $number),+ }

        impl $name {
            /// All variants, in the order of their numbers.
            pub const ALL: &[$name] = &[$($name::$variant),+];

            /// Returns the number in entries.
            #[must_use]
            pub fn number(self) -> u64 {
                self as u64
            }

            /// Returns the variant of a number.
            #[must_use]
            pub fn from_number(number: u64) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// Returns the name in lines.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }

            /// Returns the variant of a name.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

/// Defines an enumeration with a stable name for each variant, which records, settings or answers write.
#[macro_export]
macro_rules! spelled {
    ($(#[$attribute:meta])* pub enum $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$attribute])*
        pub enum $name { $($(#[$of])* $variant),+ }

        impl $name {
            /// All variants, in their order.
            pub const ALL: [$name; [$($text),+].len()] = [$($name::$variant),+];

            /// Returns the name.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }
    };
}
