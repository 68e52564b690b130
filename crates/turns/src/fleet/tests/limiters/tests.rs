use proptest::prelude::*;

use super::*;
use crate::fleet::reservation::GroupInterval;

const SECOND: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
enum Ask {
    /// A page of a group, by its number.
    Page(usize),
    Robots,
}

fn asks() -> impl Strategy<Value = Vec<(u64, Ask, u64)>> {
    let ask = prop_oneof![
        3 => (0..GROUPS.len()).prop_map(Ask::Page),
        1 => Just(Ask::Robots),
    ];
    let wait = prop_oneof![Just(0), 0..3 * SECOND];
    let horizon = prop_oneof![Just(0), Just(60 * SECOND), 0..9 * SECOND];
    proptest::collection::vec((wait, ask, horizon), 1..80)
}

const GROUPS: [(&str, u64); 3] = [("a", SECOND / 2), ("b", 2 * SECOND), ("c", 5 * SECOND)];

proptest! {
    #[test]
    fn the_pages_of_a_group_keep_its_interval_to_each_other_and_to_every_robots_txt(asks in asks()) {
        let mut limiters = Limiters::default();
        let began = 1_000 * SECOND;
        let mut now = began;
        let mut robots = vec![began];
        let mut pages = GROUPS.map(|_| Vec::new());
        for (wait, ask, horizon) in asks {
            now += wait;
            let micros = Duration::from_micros;
            let reserve = Reserve {
                origin: "https://a.example",
                kind: match ask {
                    Ask::Page(_) => TurnKind::Page,
                    Ask::Robots => TurnKind::Robots,
                },
                wanted: 1,
                horizon: micros(horizon),
                interval: Duration::ZERO,
                burst: 1,
                group: match ask {
                    Ask::Page(group) => {
                        let (name, interval) = GROUPS[group];
                        Some(GroupInterval { name, interval: micros(interval) })
                    }
                    Ask::Robots => None,
                },
                rest: Duration::ZERO,
                gap: Duration::ZERO,
                slots: None,
                memory: micros(30 * SECOND),
            };
            let reserved = limiters.reserve(reserve, EngineTime(now), (EngineTime(began), EngineTime(0)));
            for ReservedTurn { at: EngineTime(at), .. } in reserved.turns {
                match ask {
                    Ask::Page(group) => pages[group].push(at),
                    Ask::Robots => robots.push(at),
                }
            }
        }
        for (pages, (name, interval)) in pages.iter_mut().zip(GROUPS) {
            pages.sort_unstable();
            for pair in pages.windows(2) {
                prop_assert!(pair[1] - pair[0] >= interval, "{}: {:?}", name, pair);
            }
            for page in pages {
                for one in &robots {
                    prop_assert!(page.abs_diff(*one) >= interval, "{}: {} and {}", name, page, one);
                }
            }
        }
    }
}
