//! Witnesses of the decision log: honest ones, wrong ones, and one that knows more than the store.
//! Page: `docs/proof.md`.

mod older_copy;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::peer::python_with;
use crate::support::pki::untrusted_ca_pem;
use crate::support::witness::{Conduct, Witness};
use crate::support::{AdminGate, CrawlgateProcess, Origin, RULES, Setup, eventually, wait_until};

/// The name of the witness in the configuration.
pub(super) const NAME: &str = "notary";

pub(super) fn configure(setup: &mut Setup, witness: &Witness) {
    setup.set("admin", "address", "\"127.0.0.1:0\"");
    setup.set("audit", "checkpoint_every", "\"1s\"");
    setup.tables(&witness.section(NAME));
}

/// Starts a gate with a witness that knows its log.
fn witnessed(witness: &Witness) -> AdminGate {
    let gate = AdminGate::with(|setup| configure(setup, witness));
    witness.trust(&vkey(&gate));
    gate
}

pub(super) fn vkey(gate: &CrawlgateProcess) -> String {
    let key = gate.succeeds("audit", &["key"]);
    key.trim().to_owned()
}

/// Makes a record, and waits until the witness has cosigned a checkpoint over it. Returns its id and the size.
pub(super) fn cosigned_denial(gate: &AdminGate, origin: &Origin, path: &str) -> (String, u64) {
    let id = gate.deny(origin, path);
    let seq = eventually("the record in the store", || {
        let (_, told, _) = gate.beside("audit", &["verify", &id, "--json"]);
        let told: Value = serde_json::from_str(&told).ok()?;
        told["seq"].as_u64()
    });
    let size = eventually("a cosignature", || {
        let state = status(gate);
        let size = state["cosigned_size"].as_u64()?;
        (size >= seq && state["pending"] == false).then_some(size)
    });
    (id, size)
}

/// Returns what the gate reports about its witness.
fn status(gate: &AdminGate) -> Value {
    gate.api("/status")["witnesses"][0].clone()
}

fn metric(gate: &AdminGate, series: &str) -> u64 {
    let text = gate.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let value = line.unwrap_or_else(|| panic!("{series} is missing: {text}"));
    value.trim().parse().unwrap()
}

#[test]
fn a_witness_cosigns_each_checkpoint_and_proofs_say_so() {
    let witness = Witness::start("witness.test/w1");
    let gate = AdminGate::with(|setup| configure(setup, &witness));
    let origin = Origin::with_rules(RULES);
    gate.wait_said("it does not know this log (404)");
    let (code, text, error) = gate.beside("audit", &["checkpoint", "--cosigned"]);
    assert_eq!((code, text.as_str()), (Some(1), ""), "{error}");

    witness.trust(&vkey(&gate));
    let (id, first) = cosigned_denial(&gate, &origin, "/private/a");
    gate.wait_said("the witness cosigns checkpoints again");
    let (_, second) = cosigned_denial(&gate, &origin, "/private/b");
    assert!(first < second);
    assert!(witness.asked().contains(&(first, second, 200)), "{:?}", witness.asked());

    let (note, error) = gate.ends(0, "audit", &["checkpoint", "--cosigned"]);
    says!(error, "cosigned by notary at 20");
    says!(note, &format!("\n{second}\n"), "\n— witness.test/w1 ");

    let series = format!("crawlgate_witness_cosigned_size{{witness=\"{NAME}\"}}");
    assert_eq!(metric(&gate, &series), second);
    let series = format!("crawlgate_witness_pending{{witness=\"{NAME}\"}}");
    assert_eq!(metric(&gate, &series), 0);
    has!(status(&gate), {"name": NAME, "failure": null, "ahead": null});
    let page = gate.get("/").text();
    says!(page, "Witnesses of the decision log");
    let page = gate.get(&format!("/decisions/{id}")).text();
    says!(page, "The witness notary saw this log at");

    proves(&gate, &id, &witness);
    let told = gate.succeeds("audit", &["verify", "--all"]);
    says!(told, "notary has cosigned up to record ");
}

/// Proves a record by its file, the key of the log and that of the witness, with both verifiers.
fn proves(gate: &CrawlgateProcess, id: &str, witness: &Witness) {
    let file = gate.succeeds("audit", &["prove", id]);
    let path = gate.setup.dir().join("evidence.json");
    fs::write(&path, &file).unwrap();
    let (path, log) = (path.to_str().unwrap(), vkey(gate));
    let stranger = Witness::start("witness.test/w1");
    for (one, is_proven) in [(witness, true), (&stranger, false)] {
        let key = one.vkey();
        let words = ["verify-evidence", path, "--key", &log, "--witness", &key];
        let (code, told, error) = gate.beside("audit", &words);
        assert_eq!(code, Some(i32::from(!is_proven)), "{told}{error}");
        assert_eq!(told.contains("seen by   witness.test/w1, at 20"), is_proven);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/verify-evidence.py");
        let python = Command::new("python3")
            .args([script.to_str().unwrap(), path, &log, "--witness", &key])
            .output();
        if let Ok(output) = python {
            let told = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.success(), is_proven, "{output:?}");
            assert_eq!(told.contains("The witness witness.test/w1 saw"), is_proven);
        }
    }
}

#[test]
fn a_witness_with_a_ca_of_its_own_is_trusted_by_that_alone() {
    let witness = Witness::start_tls("witness.test/w1");
    let start = |roots: &str, ca: &str| {
        let gate = AdminGate::with(|setup| {
            setup.set("admin", "address", "\"127.0.0.1:0\"");
            setup.set("audit", "checkpoint_every", "\"1s\"");
            setup.set("tls", "extra_roots", roots);
            fs::write(setup.dir().join("other.pem"), untrusted_ca_pem()).unwrap();
            setup.tables(&format!("{}{ca}", witness.section(NAME)));
        });
        witness.trust(&vkey(&gate));
        gate
    };
    let origin = Origin::with_rules(RULES);
    let own = "ca = \"origin-ca.pem\"\n";
    let gate = start("[]", own);
    cosigned_denial(&gate, &origin, "/private/a");
    gate.succeeds("config", &["check"]);

    // Without it; and with another one, though the roots for origins would do.
    for (roots, ca) in [("[]", ""), ("[\"origin-ca.pem\"]", "ca = \"other.pem\"\n")] {
        let gate = start(roots, ca);
        gate.wait_said("certificate");
        let state = status(&gate);
        assert!(state["failure"].is_string(), "{state}");
        assert!(state["cosigned_size"].is_null(), "{state}");
    }
}

#[test]
fn a_witness_that_has_forgotten_the_log_is_asked_again_from_the_size_it_states() {
    let witness = Witness::start("witness.test/w1");
    let gate = witnessed(&witness);
    let origin = Origin::with_rules(RULES);
    let (_, first) = cosigned_denial(&gate, &origin, "/private/a");
    let latest = witness.latest();
    let (_, second) = cosigned_denial(&gate, &origin, "/private/b");
    for (known, old) in [(None, 0), (latest, first)] {
        witness.remember(known);
        let before = witness.asked().len();
        gate.deny(&origin, "/private/c");
        eventually("a cosignature from there", || {
            let asked = witness.asked();
            let again = asked.get(before..)?;
            let is_stated = again.iter().any(|one| one.2 == 409 && one.0 >= second);
            let is_cosigned = again.iter().any(|one| one.2 == 200 && one.0 == old);
            (is_stated && is_cosigned).then_some(())
        });
        // Until the cosignature is kept, the next record could share its checkpoint.
        wait_until("the cosignature in the store", || status(&gate)["pending"] == false);
    }
}

#[test]
fn a_witness_that_does_not_cosign_delays_nothing_and_is_told() {
    use Conduct::{Answers, Early, Floods, Hangs, Lies};
    let size = "Content-Type: text/x.tlog.size\r\n";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("its signature lies", Lies, "its signature does not hold", "false"),
        ("its clock is wrong", Early(7_200), "its clock or ours is wrong", "false"),
        ("nonsense", Answers(200, "", "nonsense\n"), "its answer is not a list of signatures", "false"),
        ("an answer without end", Floods, "its answer has more than 65536 octets", "unreachable"),
        ("another key of the log", Answers(403, "", ""), "it knows this log by another key (403)", "refused"),
        ("no proof", Answers(422, "", "bad proof\n"), "it finds no proof that the log continues the one it has seen (422): bad proof", "refused"),
        ("a fault", Answers(503, "", "later\n"), "it answers 503 Service Unavailable: later", "refused"),
        ("a redirect", Answers(302, "Location: http://127.0.0.1:1/\r\n", ""), "it answers 302 Found", "refused"),
        ("a size that is none", Answers(409, size, "many\n"), "it answers 409 Conflict: many", "refused"),
        ("no answer", Hangs, "it does not answer within 10 seconds", "unreachable"),
    ];
    let check = |(name, conduct, why, outcome): (&str, Conduct, &str, &str)| {
        let witness = Witness::start("witness.test/w1");
        let gate = witnessed(&witness);
        let origin = Origin::with_rules(RULES);
        let (_, first) = cosigned_denial(&gate, &origin, "/private/a");
        witness.behave(conduct);
        let id = gate.deny(&origin, "/private/b");
        gate.wait_said(why);
        let state = status(&gate);
        has!(state, {"pending": true, "cosigned_size": first}, "{name}");
        let said = state["failure"].as_str().unwrap();
        assert!(said.contains(why), "{name}: {said}");
        let series =
            format!("crawlgate_witness_requests_total{{witness=\"{NAME}\",outcome=\"{outcome}\"}}");
        assert!(metric(&gate, &series) > 0, "{name}");
        // The log is signed and proven as without a witness.
        let file = gate.succeeds("audit", &["prove", &id]);
        assert!(!file.contains("witness.test"), "{name}: {file}");
        witness.behave(Conduct::Honest);
        eventually("the cosignature of the newest checkpoint", || {
            let state = status(&gate);
            let is_newer = state["cosigned_size"].as_u64()? > first;
            (is_newer && state["pending"] == false && state["failure"].is_null()).then_some(())
        });
    };
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(|| check(case));
        }
    });
}

#[test]
fn a_witness_that_is_away_gets_the_newest_checkpoint_later() {
    let (gone, other) = (Witness::start("witness.test/w1"), Witness::start("witness.test/w2"));
    gone.stop();
    let mut gate = AdminGate::with(|setup| {
        configure(setup, &gone);
        setup.set("audit", "quorum", "2");
        setup.tables(&(gone.section(NAME) + &other.section("other")));
    });
    other.trust(&vkey(&gate));
    let origin = Origin::with_rules(RULES);
    gate.deny(&origin, "/private/a");
    gate.wait_said("Connection refused");
    eventually("the cosignature of the other", || {
        let state = gate.api("/status")["witnesses"][1].clone();
        (state["pending"] == false && state["cosigned_size"].is_u64()).then_some(())
    });
    assert_eq!(gate.api("/status")["witnesses"][0]["pending"], true);
    gate.ends(1, "audit", &["checkpoint", "--cosigned"]);
    // A process offers its last checkpoint, and the next one begins with the newest.
    gate.process.signal(Signal::TERM);
    assert!(gate.process.wait().success(), "{}", gate.said());
    let asked = other.asked();
    let last = *asked.last().unwrap();
    assert_eq!(last.2, 200, "{asked:?}");
    let newest = other.latest().unwrap().0;
    let back = Witness::start("witness.test/w3");
    back.trust(&vkey(&gate));
    gate.process.setup.set("audit", "quorum", "1");
    gate.process.setup.tables(&back.section("back"));
    gate.process.start_again();
    let gate = AdminGate::of(gate.process);
    wait_until("the cosignature of the new witness", || {
        status(&gate)["cosigned_size"].as_u64().is_some_and(|size| size >= newest)
    });
}

/// Another program's witness, and the pipe that ends it.
struct Scales {
    child: Child,
    port: String,
    vkey: String,
}

impl Scales {
    /// Starts it; `None` if the program is not installed.
    fn start() -> Option<Scales> {
        let python = python_with("tlog_scales.signing, tlog_scales.tlog", "tlog-scales")?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/witness.py");
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let output = child.stdout.take().unwrap();
        BufReader::new(output).read_line(&mut line).unwrap();
        let (port, vkey) = line.trim().split_once(' ').unwrap();
        Some(Scales { port: port.to_owned(), vkey: vkey.to_owned(), child })
    }
}

impl Drop for Scales {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn a_witness_of_another_program_cosigns() {
    let mut witness = or_skip!(Scales::start());
    let (port, key) = (witness.port.clone(), witness.vkey.clone());
    let gate = AdminGate::with(|setup| {
        setup.set("audit", "checkpoint_every", "\"1s\"");
        setup.tables(&format!(
            "[[audit.witness]]\nname = \"{NAME}\"\nurl = \"http://127.0.0.1:{port}\"\nvkey = \"{key}\"\n"
        ));
    });
    let mut input = witness.child.stdin.take().unwrap();
    writeln!(input, "{}", vkey(&gate)).unwrap();
    let origin = Origin::with_rules(RULES);
    let mut sizes = Vec::new();
    for path in ["/private/a", "/private/b", "/private/c"] {
        let (id, size) = cosigned_denial(&gate, &origin, path);
        sizes.push(size);
        let file = gate.succeeds("audit", &["prove", &id]);
        says!(file, "— witness.test/scales ");
    }
    let told = gate.succeeds("audit", &["verify", "--all", "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["witnesses"][0]["cosigned"], sizes[2], "{told}");
}
