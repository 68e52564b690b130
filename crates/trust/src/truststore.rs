//! A Java truststore, written without Java.
//!
//! The JVM reads no PEM. Among its formats, JKS is the oldest and the plainest, and every version since 1.2 reads it: a
//! list of named certificates, and a digest over all of it keyed with a password. The digest is SHA-1 and the password
//! is well known; neither protects anything, since the certificates are public. The file's permissions prevent others
//! from adding one.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use crawlgate_system::clock::Moment;

/// The truststore's password: Java's own customary one.
pub const TRUSTSTORE_PASSWORD: &str = "changeit";

/// The truststore's type, as `javax.net.ssl.trustStoreType` names it.
pub const TRUSTSTORE_TYPE: &str = "JKS";

const MAGIC: u32 = 0xfeed_feed;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;

/// A constant that the format mixes into the digest.
const WHITENER: &[u8] = b"Mighty Aphrodite";

/// Returns the octets of a truststore with `entries`: an alias (lower-case ASCII, unique) and a certificate (DER) each.
pub(super) fn jks<'a>(entries: impl Iterator<Item = (String, &'a [u8])>, now: Moment) -> Vec<u8> {
    let mut count = 0_u32;
    let mut body = Vec::new();
    for (alias, certificate) in entries {
        // Longer than four octets can count, or than the JVM takes: there is no such certificate.
        let Ok(length) = i32::try_from(certificate.len()) else {
            continue;
        };
        body.extend(TRUSTED_CERTIFICATE.to_be_bytes());
        write_utf(&mut body, &alias);
        body.extend(now.as_millis().to_be_bytes());
        write_utf(&mut body, "X.509");
        body.extend(length.to_be_bytes());
        body.extend(certificate);
        count += 1;
    }

    let mut store = Vec::with_capacity(12 + body.len() + 20);
    store.extend(MAGIC.to_be_bytes());
    store.extend(VERSION.to_be_bytes());
    store.extend(count.to_be_bytes());
    store.append(&mut body);

    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for unit in TRUSTSTORE_PASSWORD.encode_utf16() {
        digest.update(&unit.to_be_bytes());
    }
    digest.update(WHITENER);
    digest.update(&store);
    store.extend(digest.finish().as_ref());
    store
}

/// Writes a string as `java.io.DataOutput.writeUTF` does; for ASCII that is its length in two octets and itself.
fn write_utf(out: &mut Vec<u8>, text: &str) {
    debug_assert!(text.is_ascii());
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    out.extend(length.to_be_bytes());
    out.extend(text.as_bytes().iter().take(length.into()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlgate_ca::text::colon_hex;

    #[test]
    fn the_layout_is_that_of_the_jdk() {
        let store = jks([("a".to_owned(), &b"cert"[..])].into_iter(), Moment::from_millis(1));
        let expected = "FE:ED:FE:ED:00:00:00:02:00:00:00:01:\
                        00:00:00:02:00:01:61:00:00:00:00:00:00:00:01:\
                        00:05:58:2E:35:30:39:00:00:00:04:63:65:72:74";
        assert_eq!(colon_hex(&store[..store.len() - 20]), expected);
        // sha1("changeit" in UTF-16BE + "Mighty Aphrodite" + the octets above), computed elsewhere.
        assert_eq!(colon_hex(&store[store.len() - 20..]), DIGEST);
    }

    const DIGEST: &str = "7C:AB:2E:8E:88:18:E3:86:3C:59:0A:58:99:14:FA:49:0E:FE:AE:CF";
}
