//! The seeds of fuzzing, and the inputs with which fuzzing once found a fault.

use std::fs;
use std::path::Path;

/// A check of any octets, by the name of its directory.
pub(crate) type Check = (&'static str, fn(&[u8]));

/// Passes the kept inputs through their checks, each of which panics on a violation.
#[allow(clippy::print_stdout, reason = "a test that fails names its last input")]
pub(crate) fn pass_through(checks: &[Check]) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (name, check) in checks {
        let files: Vec<_> = fs::read_dir(corpus.join(name)).unwrap().collect();
        assert!(!files.is_empty(), "{name}");
        for file in files {
            let file = file.unwrap().path();
            println!("{}", file.display());
            check(&fs::read(file).unwrap());
        }
    }
}
