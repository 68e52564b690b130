//! The objects that entries name by their SHA-256: large, and bounded by crawlgate's own work.
//!
//! The third kind, the settings behind a verdict, is a JSON text and needs no separate form.

use super::Digest;
use super::bounds::Bounds;
use super::cbor::{Malformed, Reader};
use super::table::{Item, keyed, put_map, take_map};
pub use crawlgate_policy::overrides::Action;

keyed! {
    /// The state of an origin's robots.txt that decisions rest on. Times are milliseconds since the epoch.
    #[derive(Eq)]
    Basis, "a basis without origin or state", |_bounds| {
        /// The canonical origin; the fetch was of its `/robots.txt`.
        origin: &'a str = 0 (needed);
        /// The URL of the file after redirects, without userinfo; `None` if there was no file.
        final_url: Option<&'a [u8]> = 1;
        /// The state, such as `successful`.
        state: &'a str = 2 (needed);
        /// The status code of the fetch.
        status: Option<u16> = 3;
        /// Time of the fetch.
        fetched_at: Option<u64> = 4;
        /// SHA-256 of the content.
        sha256: Option<&'a Digest> = 5;
        /// Octets of the content.
        bytes: Option<u64> = 6;
        /// True if the file was longer than the size limit.
        truncated: bool = 7;
        /// End of the time for which the state counts without another fetch.
        fresh_until: Option<u64> = 8;
        /// The failed fetches since.
        outage: Option<Outage<'a>> = 9;
        /// The identity of the fetch: a product token, or `*`.
        identity: Option<&'a str> = 10;
        /// The User-Agent of the fetch.
        user_agent: Option<&'a str> = 11;
    }
}

keyed! {
    /// A series of failed fetches. Times are milliseconds since the epoch.
    #[derive(Eq)]
    Outage, "an outage without one of its values", |_bounds| {
        /// Time of the first failure.
        since: u64 = 0 (needed);
        /// The code of the last failure's cause.
        cause: &'a str = 1 (needed);
        /// True if the server answered at all.
        answers: bool = 2;
        /// Number of failed fetches.
        attempts: u32 = 3;
        /// Earliest time of the next fetch.
        next_attempt: u64 = 4 (needed);
        /// Time of the last failure caused by the origin.
        last_failure: Option<u64> = 5;
    }
}

keyed! {
    /// An override. Times are milliseconds since the epoch.
    #[derive(Eq)]
    Asserted, "an override without one of its texts", |_bounds| {
        /// Its number in the store, its identifier in the fleet, or its place in the configuration (`config-1`).
        id: &'a str = 0 (needed);
        /// The canonical origin.
        origin: &'a str = 1 (needed);
        /// The paths, as a pattern of robots.txt.
        pattern: &'a str = 2 (needed);
        /// The assertion.
        action: Action = 3;
        /// The person who added it.
        by: &'a str = 4 (needed);
        /// The person's reason.
        reason: &'a str = 5 (needed);
        /// Its end.
        until: Option<u64> = 6;
        /// Time of its creation; zero for one of the configuration, which does not say.
        created: u64 = 7;
        /// The instance of a fleet that added it.
        instance: Option<&'a str> = 8;
    }
}

impl<'a> Item<'a> for Outage<'a> {
    fn put(&self, out: &mut Vec<u8>) {
        put_map(self, Bounds::CLIENTS, out);
    }

    fn take(reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        take_map(reader)
    }
}

/// The body of an object.
macro_rules! bodies {
    ($($name:ident: $what:literal),+) => {$(
        impl<'a> $name<'a> {
            /// Appends the body to `out`.
            pub fn encode(&self, out: &mut Vec<u8>) {
                put_map(self, Bounds::CLIENTS, out);
            }

            /// Reads a body.
            ///
            /// # Errors
            #[doc = concat!("When the octets are not the canonical form of ", $what, ".")]
            pub fn read(octets: &'a [u8]) -> Result<Self, Malformed> {
                let mut reader = Reader::new(octets);
                let read = take_map(&mut reader)?;
                reader.end()?;
                Ok(read)
            }
        }
    )+};
}

bodies!(Basis: "a basis", Asserted: "an override");
