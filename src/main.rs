//! The program. All it does stands in [`crawlgate::cli`].

use std::process::ExitCode;

use crawlgate::version::Build;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Here alone, because a commit compiles this file again and no other.
    let (commit, date) = crawlgate_build_info::commit_and_date!();
    Build { commit, date }.set();
    crawlgate::cli::main()
}
