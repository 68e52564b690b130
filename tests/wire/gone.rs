//! A store or key that is removed, while the gate runs and while it does not.

use std::fs;

use rustix::process::Signal;

use crate::support::{Gate, Origin, RULES, eventually};

fn strict() -> Gate {
    Gate::with(|setup| {
        setup.set("log", "file", "\"\"");
        setup.set("audit", "durability", "\"strict\"");
        setup.set("audit", "checkpoint_every", "\"1s\"");
    })
}

#[test]
fn a_store_that_is_deleted_is_noticed_and_never_begun_anew_in_silence() {
    let mut gate = strict();
    let origin = Origin::with_rules(RULES);
    let private = origin.url("/private");
    assert_eq!(gate.get(&private).status, 403);
    let store = gate.setup.dir().join("crawlgate.db");
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(store.with_extension(format!("db{suffix}"))).unwrap();
    }
    // Without any request.
    gate.wait_said("was moved, replaced or deleted while it was open");
    let refused = eventually("a refusal", || {
        let answer = gate.get(&private);
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(refused.problem()["reason"], "log_failed", "{refused:?}");

    // No other command begins a new store either.
    let named = origin.url("");
    let add = [
        "add", &named, "deny", "--until", "1d", "--by", "Ada", "--reason", "a letter",
    ];
    for (subcommand, words) in [("log", &[][..]), ("override", &add)] {
        let (code, _, said) = gate.beside(subcommand, words);
        assert_eq!(code, Some(2), "{subcommand}: {said}");
        assert!(said.contains("the store is gone"), "{subcommand}: {said}");
        assert!(!store.exists(), "{subcommand}");
    }

    // The exit code also reports decisions that could not be recorded.
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(2), "{}", gate.said());
    gate.wait_said("decisions left unrecorded: ");

    let (code, _, said) = gate.beside("serve", &[]);
    assert_eq!(code, Some(2), "{said}");
    let key = gate.setup.dir().join("crawlgate.log.key");
    assert!(said.contains("the store is gone"), "{said}");
    assert!(said.contains("crawlgate.log.key"), "{said}");
    // The advised way out works.
    fs::remove_file(key).unwrap();
    gate.start_again();
    assert_eq!(gate.get(&private).status, 403);
}

#[test]
fn a_lost_key_is_reported_and_its_checkpoints_can_still_be_verified() {
    let mut gate = strict();
    let origin = Origin::with_rules(RULES);
    let private = origin.url("/private");
    assert_eq!(gate.get(&private).status, 403);
    let key = |gate: &Gate| gate.beside("audit", &["key"]).1.trim().to_owned();
    let verify = |gate: &Gate, keys: &[&str]| {
        let keys = keys.iter().flat_map(|key| ["--key", key]);
        let words: Vec<&str> = ["verify", "--all"].into_iter().chain(keys).collect();
        gate.beside("audit", &words)
    };
    let earlier = key(&gate);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
    let file = gate.setup.dir().join("crawlgate.log.key");
    fs::remove_file(&file).unwrap();
    gate.start_again();
    gate.wait_said("the key that has signed the log of the store is gone");
    assert!(gate.said().contains(&earlier), "{}", gate.said());
    assert_eq!(gate.get(&private).status, 403);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());

    let present = key(&gate);
    assert_ne!(present, earlier);
    let (code, said, _) = verify(&gate, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!(
            "are signed by no trusted key but by {}; if that is an earlier key",
            earlier.split('+').next().unwrap()
        )),
        "{said}"
    );
    let (code, said, _) = verify(&gate, &[&earlier, &present]);
    assert_eq!(code, Some(0), "{said}");
}

/// Kills a gate and removes the log of its store, as a careless restore does.
fn kill_and_remove_the_log(gate: &mut Gate) {
    gate.signal(Signal::KILL);
    gate.wait();
    let store = gate.setup.dir().join("crawlgate.db");
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(store.with_extension(format!("db{suffix}"))).unwrap();
    }
}

#[test]
fn a_young_store_that_lost_its_log_is_never_begun_anew_in_silence() {
    let mut gate = strict();
    let origin = Origin::with_rules(RULES);
    for n in 0..20 {
        let answer = gate.get(&origin.url(&format!("/private/{n}")));
        assert_eq!(answer.status, 403);
    }
    kill_and_remove_the_log(&mut gate);
    let missing = "records 1 to 20 are missing (20)";
    let (code, _, said) = gate.beside("serve", &[]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains(missing), "{said}");
    let (code, said, _) = gate.beside("store", &["check"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains(missing), "{said}");
    let verified = |gate: &Gate| gate.beside("audit", &["verify", "--all"]);
    let (code, said, failed) = verified(&gate);
    assert_eq!(code, Some(1), "{said}{failed}");
    assert!(said.contains("records 1 to 20 are missing"), "{said}");

    // The advised way out works, and the loss stays visible.
    let (code, said, failed) = gate.beside("store", &["rebuild"]);
    assert_eq!(code, Some(0), "{said}{failed}");
    assert!(said.contains(missing), "{said}");
    gate.start_again();
    assert_eq!(gate.get(&origin.url("/private/x")).status, 403);
    let (code, said, failed) = verified(&gate);
    assert_eq!(code, Some(1), "{said}{failed}");
    assert!(
        said.contains("20 of 20 records are missing: the store had lost them"),
        "{said}"
    );
}

#[test]
fn a_log_that_is_deleted_after_a_kill_is_noticed_and_the_loss_is_named() {
    let mut gate = Gate::with(|setup| {
        setup.set("log", "file", "\"\"");
        setup.set("audit", "durability", "\"strict\"");
    });
    let origin = Origin::with_rules(RULES);
    let deny = |gate: &Gate, count: usize| {
        for n in 0..count {
            let answer = gate.get(&origin.url(&format!("/private/{n}")));
            assert_eq!(answer.status, 403);
        }
    };
    deny(&gate, 5);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
    gate.start_again();
    deny(&gate, 7);
    kill_and_remove_the_log(&mut gate);
    gate.start_again();
    gate.wait_said("records 6 to 12 are missing (7)");
    deny(&gate, 1);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
    let (code, said, failed) = gate.beside("audit", &["verify", "--all"]);
    assert_eq!(code, Some(1), "{said}{failed}");
    assert!(
        said.contains("record 6 says that 7 of 12 records are missing"),
        "{said}"
    );
    let (code, said, failed) = gate.beside("store", &["check"]);
    assert_eq!(code, Some(0), "{said}{failed}");
}

#[test]
fn a_store_that_is_emptied_in_place_is_noticed_and_no_answer_rests_on_it() {
    let gate = strict();
    let origin = Origin::with_rules(RULES);
    let private = origin.url("/private");
    assert_eq!(gate.get(&private).status, 403);
    let store = gate.setup.dir().join("crawlgate.db");
    // As a shell does: `> crawlgate.db`.
    fs::File::create(&store).unwrap();
    // Without any request.
    gate.wait_said("was cut off or overwritten while it was open");
    let refused = gate.get(&private);
    assert_eq!(refused.status, 503, "{refused:?}");
    assert_eq!(refused.problem()["reason"], "log_failed", "{refused:?}");
}
