//! The pure rooms that read foreign octets, under the names that the checks use: fuzzing them builds neither TLS nor a
//! database.

// A module around them, so that they find their files in the directories of their names.
#[path = "../src/base"]
mod src {
    /// Points in time without the clock.
    #[allow(dead_code, reason = "replies make them, and nothing here reads them")]
    pub mod clock {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Moment(u64);

        impl Moment {
            pub const fn from_millis(millis: u64) -> Self {
                Self(millis)
            }

            pub const fn as_millis(self) -> u64 {
                self.0
            }

            pub fn since(self, earlier: Self) -> std::time::Duration {
                std::time::Duration::from_millis(self.0.saturating_sub(earlier.0))
            }
        }
    }

    pub mod ftp;
    pub mod rep;
    /// The digits of records.
    #[allow(dead_code, reason = "usage alone uses them")]
    pub mod text {
        pub mod guarded;
        pub mod hex;
        pub mod json;
        pub mod timestamp;

        pub use self::timestamp::time_text;
    }

    pub mod tlog;
    pub mod usage;

    /// The answers of witnesses.
    #[allow(dead_code, reason = "offers use the rest")]
    #[path = "../witness"]
    pub mod witness {
        pub mod protocol;
    }

    /// The entries without their lines.
    #[allow(dead_code, unused_imports, reason = "the lines use the rest")]
    pub mod entry {
        pub mod cbor;
        pub mod decision;
        pub mod event;
        pub mod object;
        pub mod outline;
        pub mod read;
        pub mod value;
        pub mod write;

        pub use self::cbor::Malformed;
        pub use self::decision::{Decision, Mode, Verdict, key, most};
        pub use self::event::Event;
        pub use self::object::{Asserted, Basis};
        pub use self::outline::{Counted, Outline};
        pub use self::read::{Entry, time_of};
        pub(crate) use self::value::variant;
        pub use self::value::{Octets, Text, Texts};
        pub use self::write::Bounds;

        pub const MAX: usize = 65_535;

        pub type Digest = [u8; 32];
    }

    pub mod store {
        #[allow(dead_code, reason = "segments use the rest")]
        pub mod block;
    }
}

pub use src::{clock, entry, ftp, rep, store, text, tlog, usage, witness};
