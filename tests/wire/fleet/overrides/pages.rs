//! Denials under load: the last page that comes after each.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::super::Ends;
use super::super::pace::bound;
use super::{SOON, deny, fleet, fleet_from};
use crate::support::{Engine, Origin, RULES, Transfer};

/// Reads at which of a1, a2 and a3 a denial is in force.
fn in_force(said: &str) -> [bool; 3] {
    let last = said.lines().last().unwrap_or_default();
    let at = last.split(';').next().unwrap_or_default();
    ["a1", "a2", "a3"].map(|name| at.contains(name))
}

#[test]
fn no_page_comes_a_second_after_each_of_a_hundred_denials() {
    let engine = or_skip!(Engine::start());
    let patience = Duration::from_secs(2);
    let (link, other) = (engine.link(), engine.link());
    let origin = Origin::with_rules(RULES);
    let mut gates = fleet(&link, 2, "\"2s\"");
    gates.extend(fleet_from(&other, 3, 1, "\"2s\""));
    let (number, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (added, walled) = thread::scope(|scope| {
        let ends = Ends(&is_over);
        for (place, gate) in gates.iter().enumerate() {
            let (origin, number, is_over) = (&origin, &number, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Acquire) {
                    let number = number.load(Ordering::Acquire);
                    // The page that is denied next, and those that were denied last.
                    for number in number.saturating_sub(2)..=number {
                        let answer = gate.get(&origin.url(&format!("/{number}/?{place}")));
                        assert!([200, 403, 503].contains(&answer.status), "{}", answer.text());
                    }
                }
            });
        }
        let mut added = Vec::new();
        let mut walled = None;
        for round in 0..100 {
            if round == 50 {
                other.set(Transfer::Hole);
                walled = Some(Instant::now());
            }
            let at = &gates[round % 2];
            let (_, said) = deny(at, &origin.url(""), &format!("/{round}/"));
            added.push((Instant::now(), in_force(&said)));
            number.store(round + 1, Ordering::Release);
        }
        drop(ends);
        (added, walled.unwrap())
    });
    let everywhere = added[..50].iter().filter(|(_, at)| *at == [true; 3]);
    let everywhere = everywhere.count();
    assert!(everywhere >= bound(50, 25), "{everywhere} of 50 everywhere at once");
    let mut slowest = [Duration::ZERO; 3];
    for seen in origin.seen() {
        let path = seen.head.word(1);
        let Some((round, place)) = path.trim_start_matches('/').split_once("/?") else {
            continue;
        };
        let (round, place): (usize, usize) = (round.parse().unwrap(), place.parse().unwrap());
        let Some((added, in_force)) = added.get(round) else {
            continue;
        };
        let Some(late) = seen.at.checked_duration_since(*added) else {
            continue;
        };
        if place == 2 && round >= 48 {
            // Behind the wall, it forwards nothing after its patience.
            let after = seen.at.saturating_duration_since(walled);
            let most = patience + bound(SOON / 2, SOON * 3);
            assert!(after < most, "{path}: {after:?} after the wall");
        } else if in_force[place] {
            slowest[place] = slowest[place].max(late);
        } else {
            // The operator was told of an instance that is late, and forwards nothing after its patience.
            let most = patience + bound(SOON / 2, SOON * 3);
            assert!(late < most, "{path}: {late:?} after the denial");
        }
    }
    println!("the last page came {slowest:?} after `override add` had returned");
    let most = bound(SOON, SOON * 3);
    assert!(slowest.iter().all(|late| *late < most), "{slowest:?}");
}
