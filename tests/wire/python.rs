//! Programs of others in Python, which check what the proxy writes.

use std::process::Command;

/// Returns the interpreter that has these modules; `None` if none is installed, which `CRAWLGATE_REQUIRE_CLIENTS` forbids.
/// `package` is the name to install.
pub(crate) fn python_with(modules: &str, package: &str) -> Option<String> {
    let python = std::env::var("CRAWLGATE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let import = format!("import {modules}");
    let found = Command::new(&python).args(["-c", &import]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    let missing = format!("Python with {package} (CRAWLGATE_PYTHON) is missing");
    assert!(!required, "{missing}");
    eprintln!("skipped: {missing}");
    None
}
