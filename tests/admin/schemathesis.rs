//! Schemathesis, which generates requests from the description and checks the answers against it.
//!
//! `CRAWLGATE_PYTHON` names the Python that has it (see `.ci/clients`). Without it the test is named on stderr and passes;
//! with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{AdminGate, Origin, RULES};

/// The number of requests generated for each operation.
const EXAMPLES: &str = "25";

fn program() -> Option<PathBuf> {
    let python = std::env::var_os("CRAWLGATE_PYTHON").map(PathBuf::from);
    let beside = python.and_then(|python| Some(python.parent()?.join("schemathesis")));
    beside.filter(|program| program.exists())
}

#[test]
fn schemathesis_finds_no_fault() {
    let Some(program) = program() else {
        let why = "schemathesis is not installed: see .ci/clients";
        assert!(std::env::var_os("CRAWLGATE_REQUIRE_CLIENTS").is_none(), "{why}");
        eprintln!("skipped: {why}");
        return;
    };
    let origin = Origin::with_rules(RULES);
    let mut gate = AdminGate::open();
    gate.deny(&origin, "/private/a");
    // From here on the generated URLs must reach nothing.
    gate.process
        .reload(|setup| setup.set("egress", "deny", "[\"0.0.0.0/0\", \"::/0\", \"*.example\"]"));
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .current_dir(folder.path())
        .args(["run", &format!("http://{}/api/v1/openapi.json", gate.address)])
        .args(["--max-examples", EXAMPLES, "--seed", "1", "--request-timeout", "30"])
        // A busy machine generates requests slowly, and the answers are the same.
        .args(["--suppress-health-check", "too_slow"])
        // The live feed does not end, as it should.
        .args(["--exclude-path", "/decisions/live"])
        // A schema cannot describe valid URLs, times and patterns: a request may match it and still be invalid.
        .args(["--exclude-checks", "positive_data_acceptance"])
        .args(["--no-color", "--generation-database", "none"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}\n{}", gate.said());
    // It is not while a slow disk takes the last records.
    gate.until(200, "/ready");
}
