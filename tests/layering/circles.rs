//! Circles of files: each leads to each other one by imports.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::imports;
use crate::{Module, crates};

/// Files that may lead to each other: a facade and its parts.
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
fn no_circle_has_many_files() {
    let mut wrong = Vec::new();
    for (name, source) in crates() {
        let all = imports(&name, &source);
        let circle = largest_circle(&all);
        // Read by `.ci/figures`.
        println!("largest circle of {name:?}: {} files", circle.len());
        if circle.len() > KNOT {
            let files = circle.into_iter().cloned().collect::<Vec<_>>();
            wrong.push(format!("{name:?}: {} files: {}", files.len(), files.join(" ")));
        }
    }
    assert_eq!(wrong, [""; 0], "circles of files");
}
