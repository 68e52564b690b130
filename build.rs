//! Tells the program its target triple, which Cargo names to build scripts alone.
//!
//! The commit is not read here: Cargo compiles the whole package again after each run of this script (`build-info` reads
//! it).

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(target) = std::env::var("TARGET") {
        println!("cargo::rustc-env=CRAWLGATE_TARGET={target}");
    }
}
