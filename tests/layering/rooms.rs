//! The order of the rooms: each imports only rooms below it, and no two files more import each other. Cargo holds the order of
//! the crates.

use crate::crates;
use crate::imports::imports;

/// The rooms of each crate that has several, from the leaves up; a crate has the name of its folder.
#[rustfmt::skip] // one row, one case
const ROOMS: &[(&str, &[&str])] = &[
    ("system", &["clock", "descriptors", "metrics", "retry", "atomic_file"]),
    ("turns", &["gcra", "rate_limit", "history", "fleet", "client", "pace"]),
    ("gate", &["view", "cache", "explain", "tdmrep", "operator", "hold", "judge"]),
];

/// Files that import each other. None may be added.
const PAIRS: &[&str] = &["turns::pace::limiter <-> turns::pace::turn"];

/// The room of a module of the crate with this name.
fn room<'m>(name: &str, module: &'m str) -> &'m str {
    let inside = module.strip_prefix(name).unwrap();
    inside.trim_start_matches("::").split("::").next().unwrap()
}

#[test]
fn each_room_imports_only_rooms_below_it() {
    let crates = crates();
    let mut against = Vec::new();
    for (name, rooms) in ROOMS {
        let place = |room: &str| {
            let place = rooms.iter().position(|one| *one == room);
            place.unwrap_or_else(|| panic!("{room} has no place in the order of rooms"))
        };
        let mut all = imports(name, &crates[*name]);
        all.remove(*name);
        for (from, named) in all {
            for to in named.iter().filter(|to| *to != name) {
                let is_above = place(room(name, to)) > place(room(name, &from));
                if is_above {
                    against.push(format!("{from} -> {to}"));
                }
            }
        }
    }
    assert_eq!(against, [""; 0], "arrows against the order of rooms");
}

#[test]
fn no_two_files_more_import_each_other() {
    let is_parent =
        |one: &str, other: &str| other.strip_prefix(one).is_some_and(|rest| rest.starts_with("::"));
    let mut circles = Vec::new();
    for (name, source) in crates() {
        let all = imports(&name, &source);
        for (from, named) in &all {
            for to in named {
                let is_circle = from < to && all.get(to).is_some_and(|back| back.contains(from));
                // A module and its own part may name each other: the part is private to it.
                let is_part = is_parent(from, to) || is_parent(to, from);
                if is_circle && !is_part {
                    circles.push(format!("{from} <-> {to}"));
                }
            }
        }
    }
    circles.sort_unstable();
    assert_eq!(circles, PAIRS, "circles between two files");
}
