//! The number of witnesses that make a checkpoint a witnessed one. Page: `docs/proof.md`.

use serde_json::Value;

use super::witnesses::{NAME, configure, cosigned_denial, vkey};
use crate::support::witness::Witness;
use crate::support::{AdminGate, Origin, RULES, eventually};

#[test]
fn a_checkpoint_is_witnessed_once_the_quorum_has_cosigned() {
    let (first, second) = (Witness::start("witness.test/w1"), Witness::start("witness.test/w2"));
    let gate = AdminGate::with(|setup| {
        configure(setup, &first);
        setup.set("audit", "quorum", "2");
        setup.tables(&(first.section(NAME) + &second.section("second")));
    });
    first.trust(&vkey(&gate));
    let origin = Origin::with_rules(RULES);
    let (id, _) = cosigned_denial(&gate, &origin, "/private/a");
    let status = gate.api("/status");
    has!(status, {"quorum": 2, "witnessed_size": null});
    let (code, text, error) = gate.beside("audit", &["checkpoint", "--cosigned"]);
    assert_eq!((code, text.as_str()), (Some(1), ""), "{error}");
    says!(error, "no checkpoint is cosigned by 2 of the 2");
    let (_, told, _) = gate.beside("audit", &["verify", "--all"]);
    says!(told, "witnessed not yet by 2 of 2\n");
    let page = gate.get(&format!("/decisions/{id}")).text();
    says!(page, "This checkpoint is not witnessed: 1 of 2");
    says!(gate.get("/").text(), "The log is not witnessed yet: fewer than 2 of 2");

    second.trust(&vkey(&gate));
    gate.deny(&origin, "/private/b");
    let size =
        eventually("a witnessed checkpoint", || gate.api("/status")["witnessed_size"].as_u64());
    let (note, error) = gate.ends(0, "audit", &["checkpoint", "--cosigned"]);
    assert!(note.contains(&format!("\n{size}\n")) || size < first.latest().unwrap().0, "{note}");
    for name in ["notary", "second"] {
        says!(error, &format!("cosigned by {name} at 20"));
    }
    let (_, told, _) = gate.beside("audit", &["verify", "--all", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["witnessed"]["quorum"], 2, "{told}");
    assert!(told["witnessed"]["size"].as_u64() >= Some(size), "{told}");
    says!(gate.get("/").text(), "at least 2 of 2 have cosigned");
}
