//! The cost of the protocol core, beside three other libraries: `cargo bench --bench rep`.
//!
//! - reading: parse a file and compile the rules of one crawler;
//! - asking: the verdict on a path, all paths of a set in turn;
//! - worst cases: files and paths made to cost as much as possible.
//!
//! One thread. Contenders take turns in short rounds, so that other load on the machine hits them alike; of all rounds
//! the fastest counts. Ratios are taken within a run.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::semicolon_if_nothing_returned,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a benchmark measures time, prints, and ends loudly if it cannot be set up"
)]

#[path = "lab/corpus.rs"]
mod corpus;

use std::hint::black_box;
use std::time::{Duration, Instant};

use corpus::{CRAWLER, SHAPES, Shape};
use crawlgate_robots::{ComparisonPath, ParseOptions, ProductToken, Robots, RuleKind, Rules};

/// Time for which a contender runs in one round.
const TURN: Duration = Duration::from_micros(500);
const ROUNDS: usize = 50;

fn main() {
    let only = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let parts: [(&str, fn()); 3] = [("reading", reading), ("asking", asking), ("worst", worst)];
    for (name, part) in parts {
        if only.as_ref().is_none_or(|only| name == only) {
            part();
        }
    }
}

/// Returns the nanoseconds of each contender for one call, at its fastest.
fn race(contenders: &mut [Box<dyn FnMut() + '_>]) -> Vec<f64> {
    let mut best = vec![f64::MAX; contenders.len()];
    for _ in 0..ROUNDS {
        for (contender, best) in contenders.iter_mut().zip(&mut best) {
            let start = Instant::now();
            let mut calls = 0;
            while start.elapsed() < TURN {
                for _ in 0..=calls / 4 {
                    contender();
                    calls += 1;
                }
            }
            *best = best.min(start.elapsed().as_nanos() as f64 / f64::from(calls));
        }
    }
    best
}

fn compiled(text: &[u8]) -> Rules {
    let robots = Robots::parse(text, ParseOptions::default());
    robots.rules(robots.selection(&[ProductToken::new(CRAWLER).unwrap()]))
}

fn reading() {
    println!("\n### Reading: parse and compile for one crawler\n");
    println!(
        "| file | octets | crawlgate µs | MB/s | robotxt µs | texting_robots µs | ÷ fastest other |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|");
    let chain = [ProductToken::new(CRAWLER).unwrap()];
    for size in [200, 5_000, 50_000, 500_000] {
        for shape in SHAPES {
            let text = corpus::file(shape, size);
            let text = text.as_bytes();
            let times = race(&mut [
                Box::new(|| {
                    let robots = Robots::parse(black_box(text), ParseOptions::default());
                    let rules = robots.rules(robots.selection(&chain));
                    drop(black_box((robots, rules)));
                }),
                Box::new(|| drop(black_box(robotxt::Robots::parse(black_box(text), CRAWLER)))),
                Box::new(|| drop(black_box(texting_robots::Robot::new(CRAWLER, black_box(text))))),
            ]);
            let [ours, robotxt, texting] = times[..] else { unreachable!() };
            println!(
                "| {shape:?} | {} | {:.2} | {:.0} | {:.2} | {:.2} | {:.1} |",
                text.len(),
                ours / 1e3,
                text.len() as f64 / ours * 1e3,
                robotxt / 1e3,
                texting / 1e3,
                robotxt.min(texting) / ours
            );
        }
    }
}

fn asking() {
    println!("\n### Asking: the verdict on a path, mean of 64\n");
    println!(
        "| rules | shape | crawlgate ns | robotxt ns | texting_robots ns | robotstxt ns | ÷ fastest other |"
    );
    println!("|---:|---|---:|---:|---:|---:|---:|");
    for count in [10, 100, 1_000, 10_000] {
        for shape in [Shape::Literal, Shape::Wildcard] {
            let text = corpus::rules(shape, count);
            let paths = corpus::paths(&text, 64);
            let urls: Vec<String> =
                paths.iter().map(|path| format!("https://www.example.com{path}")).collect();
            let rules = compiled(text.as_bytes());
            let robotxt = robotxt::Robots::parse(text.as_bytes(), CRAWLER);
            let texting = texting_robots::Robot::new(CRAWLER, text.as_bytes());
            let denied = |path: &str| {
                let rule = rules.verdict(&ComparisonPath::new(path.as_bytes()));
                rule.is_some_and(|rule| rule.kind == RuleKind::Disallow)
            };
            let agreed =
                paths.iter().filter(|path| denied(path) != robotxt.is_allowed(path)).count();
            assert!(agreed * 10 >= paths.len() * 9, "{agreed} of {} agree", paths.len());
            let mut contenders: Vec<Box<dyn FnMut() + '_>> = vec![
                Box::new(|| {
                    paths.iter().for_each(|path| {
                        black_box(denied(black_box(path)));
                    })
                }),
                Box::new(|| {
                    paths.iter().for_each(|path| {
                        black_box(robotxt.is_allowed(black_box(path)));
                    })
                }),
            ];
            if let Ok(texting) = &texting {
                contenders.push(Box::new(|| {
                    urls.iter().for_each(|url| {
                        black_box(texting.allowed(black_box(url)));
                    })
                }));
            }
            let times = race(&mut contenders);
            let each: Vec<f64> = times.iter().map(|time| time / 64.0).collect();
            let again = (count <= 1_000).then(|| {
                race(&mut [Box::new(|| {
                    let mut matcher = robotstxt::DefaultMatcher::default();
                    let allowed =
                        matcher.one_agent_allowed_by_robots(&text, CRAWLER, black_box(&urls[1]));
                    let _ = black_box(allowed);
                })])[0]
            });
            let shown =
                |time: Option<&f64>| time.map_or("–".to_owned(), |time| format!("{time:.0}"));
            println!(
                "| {count} | {shape:?} | {:.0} | {:.0} | {} | {} | {:.1} |",
                each[0],
                each[1],
                shown(each.get(2)),
                shown(again.as_ref()),
                each.iter().skip(1).copied().fold(f64::MAX, f64::min) / each[0]
            );
        }
    }
}

/// A costly file, and a question about it.
struct Hostile {
    name: &'static str,
    text: String,
    path: String,
}

fn repeated(head: &str, size: usize, mut line: impl FnMut(usize) -> String) -> String {
    let mut text = head.to_owned();
    for at in 0.. {
        let line = line(at);
        if text.len() + line.len() > size {
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Returns a text of all the pairs of some letters.
fn pairs(length: usize) -> String {
    let letters: Vec<char> = ('a'..='z').chain('A'..='Z').chain('0'..='9').collect();
    let pairs = letters.iter().flat_map(|one| letters.iter().flat_map(move |other| [*one, *other]));
    pairs.cycle().take(length).collect()
}

/// Returns a number in letters.
fn binary(number: usize, length: usize) -> String {
    let scattered = number.wrapping_mul(0x9E37_79B1);
    (0..length).map(|bit| if scattered >> bit & 1 == 0 { 'a' } else { 'b' }).collect()
}

fn hostile() -> Vec<Hostile> {
    const SIZE: usize = 512_000;
    const ALL: &str = "User-agent: *\n";
    let letter = |at: usize| char::from(b'a' + (at % 26) as u8);
    let letters =
        |at: usize| -> String { [at / 676, at / 26, at].into_iter().map(letter).collect() };
    let case = |name, text, path| Hostile { name, text, path };
    vec![
        case(
            "many stars",
            format!("{ALL}Disallow: /*a*a*a*a*a*a*b\n"),
            format!("/{}", "a".repeat(2_000)),
        ),
        case(
            "500 KiB of many stars, no two alike",
            repeated(ALL, SIZE, |at| format!("Disallow: /*a*a*a*a*a*a*b{at}\n")),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "500 KiB of many stars, alike",
            repeated(ALL, SIZE, |_| "Disallow: /*a*a*a*a*a*a*b\n".to_owned()),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "500 KiB of a*, in lines of 16 KiB",
            repeated(ALL, SIZE, |at| format!("Disallow: /{}{}\n", "a*".repeat(8_000), letters(at))),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "500 KiB of a*, in lines of up to 2,000",
            repeated(ALL, SIZE, |at| {
                format!("Disallow: /{}{}\n", "a*".repeat(at % 1_000), letters(at))
            }),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "short patterns, no two alike, that all but match",
            repeated(ALL, SIZE, |at| format!("Allow:*aaa{}\n", letters(at))),
            format!("/{}", pairs(8_000)),
        ),
        case(
            "the same against all they begin with",
            repeated(ALL, SIZE, |at| format!("Allow:*aaa*{}\n", letters(at))),
            format!("/{}", "aaab".repeat(2_000)),
        ),
        case(
            "two pieces, the second of which is only before the first",
            repeated(ALL, SIZE, |at| format!("Allow:*zzz*{}\n", letters(at % 17_000))),
            format!("/{}zzz", pairs(8_000)),
        ),
        case(
            "pieces of two octets",
            repeated(ALL, SIZE, |at| {
                format!("Allow:*{}*{}\n", &letters(at)[1..], &letters(at / 26)[..2])
            }),
            format!("/{}", pairs(8_000)),
        ),
        case(
            "words of two letters that the path nearly holds",
            repeated(ALL, SIZE, |at| format!("Allow:*{}\n", binary(at, 20))),
            format!("/{}", (0..500).map(|at| binary(at * 7, 16)).collect::<String>()),
        ),
        case(
            "heads within heads",
            repeated(ALL, SIZE, |at| format!("Disallow: /{}\n", "a".repeat(at))),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "prefixes that differ at the end",
            repeated(ALL, SIZE, |at| format!("Allow:/{}{}\n", "a".repeat(at % 24), letters(at))),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "as many groups as fit",
            repeated("", SIZE, |_| "user-agent:a\nallow:\n".to_owned())
                + "user-agent:benchbot\nallow:/",
            "/".to_owned(),
        ),
        case(
            "as many names as fit",
            repeated("", SIZE, |at| format!("user-agent:{}{at}\nallow:\n", letters(at))),
            "/".to_owned(),
        ),
        case("as many line ends as fit", "\r\n".repeat(SIZE / 2), "/".to_owned()),
        case("unknown fields", repeated(ALL, SIZE, |_| "a:\n".to_owned()), "/".to_owned()),
        case(
            "two words a line",
            repeated(ALL, SIZE, |_| "disallow /a\n".to_owned()),
            "/a".to_owned(),
        ),
        case(
            "lines of 16 KiB",
            repeated(ALL, SIZE, |at| format!("Disallow: /{}{}\n", "a".repeat(16_000), letters(at))),
            format!("/{}", "a".repeat(8_000)),
        ),
        case(
            "escapes",
            repeated(ALL, SIZE, |at| format!("Disallow: /%2a%e3{}*x\n", letters(at))),
            format!("/{}", "*%E3a".repeat(1_600)),
        ),
    ]
}

fn worst() {
    println!("\n### Worst cases\n");
    println!("| file and path | octets | reading ms | asking ms |");
    println!("|---|---:|---:|---:|");
    for Hostile { name, text, path } in hostile() {
        let rules = compiled(text.as_bytes());
        let times = race(&mut [
            Box::new(|| drop(black_box(compiled(black_box(text.as_bytes()))))),
            Box::new(|| {
                let path = ComparisonPath::new(black_box(path.as_bytes()));
                black_box(rules.verdict(&path).map(|rule| rule.kind));
            }),
        ]);
        println!("| {name} | {} | {:.2} | {:.4} |", text.len(), times[0] / 1e6, times[1] / 1e6);
    }
    println!("\n| real shapes, 1.4 MB cut at the limit | mean µs a path | slowest µs |");
    println!("|---|---:|---:|");
    for shape in SHAPES {
        let text = corpus::file(shape, 1_400_000);
        let rules = compiled(text.as_bytes());
        let paths = corpus::paths(&text, 64);
        let mut slowest: f64 = 0.0;
        let mut sum = 0.0;
        for path in &paths {
            let time = (0..200)
                .map(|_| {
                    let start = Instant::now();
                    let path = ComparisonPath::new(black_box(path.as_bytes()));
                    black_box(rules.verdict(&path).map(|rule| rule.kind));
                    start.elapsed()
                })
                .min();
            let time = time.unwrap_or_default().as_nanos() as f64 / 1e3;
            slowest = slowest.max(time);
            sum += time;
        }
        println!("| {shape:?} | {:.2} | {slowest:.2} |", sum / 64.0);
    }
}
