//! A CBOR library of others reads every frozen entry, and its canonical form is ours.

use std::process::Command;

use crate::visit::python;

/// Reads the file's entries and objects, and prints their number. The values of a few keys are checked, too: the same
/// octets must mean the same.
const PROGRAM: &str = r#"
import sys, cbor2
count = 0
for line in open(sys.argv[1], encoding="utf-8"):
    kind, _, rest = line.rstrip("\n").partition(" ")
    if kind not in ("entry", "object"):
        continue
    octets = bytes.fromhex(rest)
    value = cbor2.loads(octets)
    assert isinstance(value, dict) and all(isinstance(key, int) for key in value), rest
    assert list(value) == sorted(value), rest
    assert cbor2.dumps(value, canonical=True) == octets, rest
    if kind == "entry":
        assert len(value[1]) == 16, rest
        assert 0 in value or (isinstance(value[5], str) and isinstance(value[13], str)), rest
        assert isinstance(value.get(12, b""), bytes) and isinstance(value.get(14, ""), str), rest
    count += 1
print(count)
"#;

#[test]
fn cbor2_reads_each_frozen_entry_and_writes_the_same_octets() {
    let python = or_skip!(python("cbor2"));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/record/src/tests/golden.txt");
    let output = Command::new(python).args(["-c", PROGRAM, golden]).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let count: usize = String::from_utf8_lossy(&output.stdout).trim().parse().unwrap();
    assert!(count >= 200, "{count}");
}
