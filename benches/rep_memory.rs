//! Memory of a robots.txt, parsed and compiled for one crawler, as counted by the allocator: `cargo bench --bench
//! rep_memory`. Ends with exit code 1 if it is more than one and a half times the file and a kilobyte, or more than the
//! code's own figure.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints, and ends loudly if it cannot be set up"
)]

#[path = "lab/corpus.rs"]
mod corpus;

use std::alloc::System;
use std::process::ExitCode;

use corpus::{CRAWLER, SHAPES};
use crawlgate_robots::{ParseOptions, ProductToken, Robots};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Octets that a file may take besides one and a half times its length.
const CONSTANT: f64 = 1024.0;

fn main() -> ExitCode {
    let chain = [ProductToken::new(CRAWLER).unwrap()];
    let mut code = ExitCode::SUCCESS;
    println!("| file | octets | held | ÷ octets | says itself | pieces |");
    println!("|---|---:|---:|---:|---:|---:|");
    for size in [200, 5_000, 50_000, 500_000] {
        for shape in SHAPES {
            let text = corpus::file(shape, size);
            let region = Region::new(ALLOCATOR);
            let robots = Robots::parse(text.as_bytes(), ParseOptions::default());
            let rules = robots.rules(robots.selection(&chain));
            let change = region.change();
            let held = change.bytes_allocated - change.bytes_deallocated;
            let pieces = change.allocations - change.deallocations;
            let told = robots.bytes() + rules.bytes();
            let ratio = held as f64 / text.len() as f64;
            println!("| {shape:?} | {} | {held} | {ratio:.2} | {told} | {pieces} |", text.len());
            if held as f64 > 1.5 * text.len() as f64 + CONSTANT || held > told + 64 {
                println!("too much");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
