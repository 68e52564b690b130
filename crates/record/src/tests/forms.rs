//! Forms that are not canonical: a strict reader refuses each.

use super::super::cbor::Reader;
use super::super::*;
use super::read;

#[test]
fn other_forms_of_an_item_are_refused() {
    let cases: &[(&str, &[u8])] = &[
        ("nothing", &[]),
        ("a number that fits into its head", &[0x18, 0x17]),
        ("a number in two octets that fits into one", &[0x19, 0x00, 0xff]),
        ("a number in four that fits into two", &[0x1a, 0, 0, 0xff, 0xff]),
        ("a number in eight that fits into four", &[0x1b, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        ("a number that is cut off", &[0x1a, 0, 1]),
        ("reserved lengths", &[0x1c]),
        ("octets of no definite length", &[0x5f, 0x41, 0x00, 0xff]),
        ("octets that are cut off", &[0x42, 0x00]),
        ("a longest length", &[0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        ("an array of no definite length", &[0x9f, 0xff]),
        (
            "an array of more items than octets",
            &[0x9b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ),
        ("a map of no definite length", &[0xbf, 0xff]),
        ("a tag", &[0xc0, 0x00]),
        ("a float", &[0xf9, 0x00, 0x00]),
        ("null", &[0xf6]),
        ("a truth in two octets", &[0xf8, 0x15]),
    ];
    for (name, octets) in cases {
        assert!(Reader::new(octets).item().is_err(), "{name}");
    }
}

/// A decision that says no more than it must.
pub(super) fn least() -> Vec<u8> {
    let mut out = vec![0xa4, 0x01, 0x50];
    out.extend_from_slice(&[7; 16]);
    out.extend_from_slice(b"\x05\x68no_rules\x07\x82\x44\x7f\0\0\x01\0\x0d\x63GET");
    out
}

#[test]
fn each_decision_has_one_form() {
    let least = least();
    assert_eq!(read(&least).reason, "no_rules");
    let with = |count: u8, at: usize, pair: &[u8]| {
        let mut octets = least.clone();
        octets[0] += count;
        octets.splice(at..at, pair.iter().copied());
        octets
    };
    let end = least.len();
    let (after_id, after_reason, after_client) = (19, 29, 37);
    let digest = [&[0x58, 32][..], &[9; 32]].concat();
    let pair = |key: &[u8], value: &[u8]| [key, value].concat();
    let origin = b"\x0e\x6bhttp://a.io";
    // The reader accepts these, so each refusal below has its own reason.
    let accepted: &[(&str, Vec<u8>)] = &[
        ("a time of the decision", with(1, after_id, &[2, 1])),
        ("a verdict", with(1, after_id, &[4, 1])),
        ("settings", with(1, after_reason, &pair(&[6], &digest))),
        ("a name", with(1, after_client, b"\x08\x61a")),
        ("tokens", with(1, after_client, b"\x09\x81\x61a")),
        ("a URL", with(1, end, b"\x10\x41/")),
        ("a path", with(2, end, &pair(origin, b"\x0f\x41/"))),
        ("an empty path", with(2, end, &pair(origin, b"\x0f\x40"))),
        ("a URL elsewhere", with(2, end, &pair(origin, b"\x10\x4chttp://a.iox"))),
        ("a cut method", with(1, end, b"\x18\x1e\xa1\x0d\x01")),
    ];
    for (name, octets) in accepted {
        assert!(Entry::read(octets).is_ok(), "{name}: {:?}", Entry::read(octets));
    }
    let mut no_method = least[..after_client].to_vec();
    no_method[0] -= 1;
    let refused: &[(&str, Vec<u8>)] = &[
        ("nothing", Vec::new()),
        ("an octet more", [&least[..], &[0]].concat()),
        ("a pair less than it says", with(1, end, &[])),
        ("a kind that is the default", [&[0xa5, 0, 0][..], &least[1..]].concat()),
        ("an unknown kind", [&[0xa5, 0, 0x18, 0x63][..], &least[1..]].concat()),
        ("no identifier", vec![0xa0]),
        ("a short identifier", b"\xa1\x01\x4f0123456789abcde".to_vec()),
        ("no method", no_method),
        ("a time that is the default", with(1, after_id, &[2, 0])),
        ("a mode that is the default", with(1, after_id, &[3, 0])),
        ("an unknown mode", with(1, after_id, &[3, 2])),
        ("a verdict that is the default", with(1, after_id, &[4, 0])),
        ("an unknown verdict", with(1, after_id, &[4, 3])),
        ("keys that do not ascend", with(2, after_id, &[4, 1, 3, 1])),
        ("a key twice", with(2, after_id, &[4, 1, 4, 1])),
        ("a short digest", with(1, after_reason, &pair(&[6], b"\x43abc"))),
        ("no tokens", with(1, after_client, &[9, 0x80])),
        ("a cut token of nothing", with(1, after_client, b"\x09\x81\x82\x61a\x00")),
        ("a mismatch that is the default", with(1, after_client, &[11, 0xf4])),
        ("octets for text", with(1, after_client, b"\x08\x41a")),
        ("text that is not UTF-8", with(1, after_client, b"\x08\x61\xff")),
        ("a path without an origin", with(1, end, b"\x0f\x41/")),
        ("a path that is none", with(2, end, &pair(origin, b"\x0f\x41x"))),
        ("a URL that follows its origin", with(2, end, &pair(origin, b"\x10\x4chttp://a.io/"))),
        ("a path and a URL", with(3, end, &pair(origin, b"\x0f\x41/\x10\x41/"))),
        ("a URL of nothing", with(1, end, b"\x10\x40")),
        ("an unknown way", with(1, end, b"\x11\x04")),
        ("a rule of two parts", with(1, end, b"\x13\x82\x61*\x40")),
        ("a line beyond 32 bits", with(1, end, b"\x13\x83\x61*\x40\x1b\0\0\0\x01\0\0\0\0")),
        ("no hold", with(1, end, &[22, 0])),
        ("a status beyond 16 bits", with(1, end, b"\x18\x19\x1a\0\x01\0\0")),
        ("a key in its long form", with(1, end, b"\x18\x16\x01")),
        ("cuts of nothing", with(1, end, b"\x18\x1e\xa0")),
        ("a cut of no octets", with(1, end, b"\x18\x1e\xa1\x0d\x00")),
        ("a cut of an absent name", with(1, end, b"\x18\x1e\xa1\x08\x01")),
        ("a cut of an absent URL", with(1, end, b"\x18\x1e\xa1\x10\x01")),
        ("a cut of an absent reading", with(1, end, b"\x18\x1e\xa1\x18\x22\x01")),
        ("a cut of absent tokens", with(1, end, b"\x18\x1e\xa1\x09\x01")),
        ("the digest of a whole URL", with(1, end, &pair(b"\x18\x23", &digest))),
        ("a reserved key", with(1, end, b"\x18\x1f\x80")),
        ("an unknown key", with(1, end, b"\x18\x25\x00")),
        ("a key of another kind", with(1, end, b"\x18\x28\x01")),
    ];
    for (name, octets) in refused {
        assert!(Entry::read(octets).is_err(), "{name}: {:?}", Entry::read(octets));
    }
    let long = [&[0x59, 0xff, 0xff][..], &[b'/'; 65_535]].concat();
    assert!(
        Entry::read(&with(1, end, &pair(&[16], &long))).is_err(),
        "an entry beyond 65,535 octets"
    );
}
