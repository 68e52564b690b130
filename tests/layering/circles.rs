//! Circles of files: each leads to each other one by imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::imports;
use crate::{Module, crates};

/// The files of the largest circle of each crate that has one of more than [`KNOT`] files. A number may fall, and none may
/// rise.
const CIRCLES: &[(&str, usize)] = &[("", 21), ("record", 9)];

/// Files that may import each other around a circle: a facade and its parts.
const KNOT: usize = 7;

/// Returns the files of the largest circle: those of which each leads to each other one by imports.
fn largest_circle(all: &BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&Module> {
    let reached = |from: &'_ Module| {
        let (mut found, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(one) = open.pop() {
            for (to, _) in all[one].iter().filter_map(|to| all.get_key_value(to)) {
                if found.insert(to) {
                    open.push(to);
                }
            }
        }
        found
    };
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        all.keys().map(|from| (from, reached(from))).collect();
    let circle = |from: &&Module| -> BTreeSet<&Module> {
        let leads_back = |to: &&&Module| reached[**to].contains(*from);
        reached[*from].iter().filter(leads_back).copied().collect()
    };
    let circles = reached.keys().map(circle);
    circles.max_by_key(BTreeSet::len).unwrap_or_default()
}

#[test]
fn no_circle_of_files_grows() {
    let mut wrong = Vec::new();
    for (name, source) in crates() {
        let all = imports(&name, &source);
        let circle = largest_circle(&all);
        let known = CIRCLES.iter().find(|(one, _)| *one == name);
        let most = known.map_or(KNOT, |(_, most)| *most);
        // Read by `.ci/figures`.
        println!("largest circle of {name:?}: {} files", circle.len());
        if circle.len() > most || (known.is_some() && circle.len() < most) {
            let files = circle.into_iter().cloned().collect::<Vec<_>>();
            wrong.push(format!(
                "{name:?}: {} files, {most} named: {}",
                files.len(),
                files.join(" ")
            ));
        }
    }
    assert_eq!(wrong, [""; 0], "circles of files");
}
