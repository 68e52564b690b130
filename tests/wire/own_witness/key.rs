//! The public key of a witness, printed while the witness runs.

use aws_lc_rs::signature::Ed25519KeyPair;

use super::{Log, Own};
use crate::support::Setup;

#[test]
fn the_key_is_printed_beside_the_running_witness_and_under_no_other_name() {
    let pair = Ed25519KeyPair::generate().unwrap();
    let own = Own::start(&[Log { pair }.vkey()]);
    let print = |name: &[&str]| {
        let setup = Setup::new();
        let mut command = setup.command("witness");
        let key = own.files.path().join("w.key");
        command.args(["key", "--key"]).arg(key).args(name);
        command.output().unwrap()
    };
    for name in [&[][..], &["--name", "witness.test/own"]] {
        let printed = print(name);
        assert_eq!(printed.status.code(), Some(0), "{printed:?}");
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert_eq!(printed.trim(), own.vkey);
    }
    let refused = print(&["--name", "witness.test/other"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stdout.is_empty(), "{refused:?}");
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains("has the name witness.test/own"), "{error}");
}
