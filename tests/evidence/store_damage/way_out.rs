//! The messages about any damage, anywhere in the file, lead to a gate that serves.

use std::fs;
use std::path::Path;

use super::DECISIONS;
use super::place::{Place, Serve, Whole, cut, overwrite};

/// The result of the way out.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// A rebuild saves every decision.
    SavesAll,
    /// A rebuild saves some decisions.
    SavesSome,
    /// A rebuild saves something, though no decision.
    SavesNone,
    /// Nothing can be saved: the old files must be moved away.
    Anew,
    /// The gate serves as before: nothing that counts was damaged.
    Unharmed,
}

/// Follows the messages until a gate serves; returns the way that led there.
fn follow(place: &Place, name: &str) -> Way {
    let (code, checked) = place.store("check");
    let serve = place.serve();
    match &serve {
        Serve::Listened if code == 0 => return Way::Unharmed,
        Serve::Listened => assert_eq!(code, 1, "{name}: {checked}"),
        Serve::Refused(said) => {
            assert_ne!(code, 0, "{name}: {checked}\n{said}");
            let way_out = said.contains("store rebuild") || said.contains("move ");
            assert!(way_out, "{name}: {said}");
        }
    }
    let before = fs::read(&place.path).unwrap_or_default();
    let (code, rebuilt) = place.store("rebuild");
    let way = if code == 0 {
        assert!(rebuilt.contains("audit verify --all"), "{name}: {rebuilt}");
        place.is_in_order(name);
        match place.decisions() {
            DECISIONS => Way::SavesAll,
            0 => Way::SavesNone,
            _ => Way::SavesSome,
        }
    } else {
        assert!(!rebuilt.contains("store rebuild"), "circular: {rebuilt}");
        assert_eq!(fs::read(&place.path).unwrap_or_default(), before, "{name}");
        place.move_away(&rebuilt);
        Way::Anew
    };
    let mut serve = place.serve();
    if let (Way::Anew, Serve::Refused(said)) = (way, &serve) {
        // The gate may name a second file, such as the key, once the first one is gone.
        place.move_away(said);
        serve = place.serve();
    }
    assert_eq!(serve, Serve::Listened, "{name}: {way:?}, {rebuilt}");
    way
}

type Damage = fn(&Whole, &Path);

#[test]
fn there_is_a_way_out_of_any_damage() {
    let whole = Whole::new();
    assert!(whole.pages() > 12, "{} pages", whole.pages());
    #[rustfmt::skip] // one row, one case
    let cases: [(&str, Damage, Way); 17] = [
        ("none", |_, _| (), Way::Unharmed),
        ("cut off by its last page", |whole, path| cut(path, (whole.pages() - 1) * whole.page), Way::SavesSome),
        ("cut off in the middle of a page", |whole, path| cut(path, whole.pages() * whole.page - whole.page / 2), Way::SavesSome),
        // The entries take few pages, the last ones.
        ("cut off by a quarter", |whole, path| cut(path, whole.pages() * 3 / 4 * whole.page), Way::SavesNone),
        ("cut off behind its first page", |whole, path| cut(path, whole.page), Way::Anew),
        ("cut off within its first page", |whole, path| cut(path, whole.page / 2), Way::Anew),
        ("cut off within its header", |_, path| cut(path, 50), Way::Anew),
        ("emptied", |_, path| cut(path, 0), Way::Anew),
        ("an empty file and a log of garbage", |_, path| { cut(path, 0); fs::write(path.with_extension("db-wal"), [0x5a; 9_000]).unwrap(); }, Way::Anew),
        ("a log of garbage", |_, path| fs::write(path.with_extension("db-wal"), [0x5a; 9_000]).unwrap(), Way::Unharmed),
        ("a header of garbage", |_, path| overwrite(path, 0, &[0x5a; 100]), Way::SavesAll),
        ("a first page of zeros", |whole, path| overwrite(path, 0, &vec![0; whole.page]), Way::SavesAll),
        ("garbage from the first octet to the last", |whole, path| overwrite(path, 0, &vec![0x5a; whole.store.len()]), Way::Anew),
        ("zeros from the first octet to the last", |whole, path| overwrite(path, 0, &vec![0; whole.store.len()]), Way::Anew),
        ("garbage in pages 3 to 12", |whole, path| overwrite(path, 2 * whole.page, &vec![0x5a; 10 * whole.page]), Way::SavesAll),
        ("a directory in its place", |_, path| { fs::remove_file(path).unwrap(); fs::create_dir(path).unwrap(); }, Way::Anew),
        ("gone", |_, path| fs::rename(path, path.with_extension("lost")).unwrap(), Way::Anew),
    ];
    for (name, damage, want) in cases {
        let place = whole.copy();
        damage(&whole, &place.path);
        assert_eq!(follow(&place, name), want, "{name}");
    }
}

#[test]
fn there_is_a_way_out_of_damage_to_any_page() {
    let whole = Whole::new();
    let mut lost_nothing = 0;
    for page in 0..whole.pages() {
        let place = whole.copy();
        overwrite(&place.path, page * whole.page, &vec![0; whole.page]);
        let name = format!("page {}", page + 1);
        let way = follow(&place, &name);
        assert_ne!(way, Way::Anew, "{name}");
        lost_nothing += usize::from(way == Way::SavesAll);
    }
    assert!(lost_nothing > 10, "{lost_nothing}: all but the decisions'");
}

#[test]
fn there_is_a_way_out_of_damage_to_any_field_of_the_header() {
    let whole = Whole::new();
    for (at, octets) in (0..100).step_by(4).flat_map(|at| [(at, [0; 4]), (at, [0x5a; 4])]) {
        let place = whole.copy();
        overwrite(&place.path, at, &octets);
        let name = format!("header, from {at}: {octets:?}");
        let way = follow(&place, &name);
        assert!(matches!(way, Way::Unharmed | Way::SavesAll), "{name}: {way:?}");
    }
}
