//! Passes the seeds of fuzzing, and the inputs with which fuzzing once found a fault, through the checks.

use std::fs;
use std::path::Path;

use super::checks;

type Check = (&'static str, fn(&[u8]));

#[test]
fn the_kept_corpus_passes_the_checks() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let checks: [Check; 3] = [
        ("parse", checks::parse),
        ("matching", checks::matching),
        ("differential", checks::differential),
    ];
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
