//! A store or key that is removed, while the gate runs and while it does not. Page: `docs/store.md`.

use std::fs;

use crawlgate_store::state_file;
use rustix::process::Signal;

use crate::support::{CrawlgateProcess, Origin, RULES, eventually};

fn strict() -> CrawlgateProcess {
    CrawlgateProcess::with(|setup| {
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
    let add = ["add", &named, "deny", "--until", "1d", "--by", "Ada", "--reason", "a letter"];
    for (subcommand, words) in [("log", &[][..]), ("override", &add)] {
        let (code, _, said) = gate.beside(subcommand, words);
        assert_eq!(code, Some(2), "{subcommand}: {said}");
        assert!(said.contains("the store is gone"), "{subcommand}: {said}");
        assert!(!store.exists(), "{subcommand}");
    }

    // The exit code also reports decisions that could not be recorded.
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(2), "{}", gate.said());
    gate.wait_said("records left unwritten: ");

    let (_, said) = gate.ends(2, "serve", &[]);
    let key = gate.setup.dir().join("crawlgate.log.key");
    says!(said, "the store is gone", "crawlgate.log.key");
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
    let key = |gate: &CrawlgateProcess| gate.beside("audit", &["key"]).1.trim().to_owned();
    let verify = |gate: &CrawlgateProcess, keys: &[&str]| {
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
    says!(
        said,
        &format!(
            "are signed by no trusted key but by {}; if that is an earlier key",
            earlier.split('+').next().unwrap()
        )
    );
    let (code, said, _) = verify(&gate, &[&earlier, &present]);
    assert_eq!(code, Some(0), "{said}");
}

/// Kills a gate and removes the log of its store, as a careless restore does.
fn kill_and_remove_the_log(gate: &mut CrawlgateProcess) {
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
        gate.answers(&origin.url(&format!("/private/{n}")), 403);
    }
    kill_and_remove_the_log(&mut gate);
    let missing = "records 1 to 22 are missing (22)";
    let (_, said) = gate.ends(2, "serve", &[]);
    says!(said, missing);
    let (said, _) = gate.ends(1, "store", &["check"]);
    says!(said, missing);
    let verified = |gate: &CrawlgateProcess| gate.beside("audit", &["verify", "--all"]);
    let (code, said, failed) = verified(&gate);
    assert_eq!(code, Some(1), "{said}{failed}");
    says!(said, "records 1 to 22 are missing");

    // The advised way out works, and the loss stays visible.
    let fork = ["fork", "--reason", "a careless restore", "--yes"];
    let said = gate.succeeds("audit", &fork);
    says!(said, "records 1 to 22 (22)");
    gate.start_again();
    assert_eq!(gate.get(&origin.url("/private/x")).status, 403);
    let (code, said, failed) = verified(&gate);
    assert_eq!(code, Some(0), "{said}{failed}");
    says!(said, "record 1: here begins a log in the place of crawlgate/");
    says!(said, ": a careless restore");
}

#[test]
fn a_log_that_is_deleted_after_a_kill_is_noticed_and_the_loss_is_named() {
    let mut gate = CrawlgateProcess::with(|setup| {
        setup.set("log", "file", "\"\"");
        setup.set("audit", "durability", "\"strict\"");
    });
    let origin = Origin::with_rules(RULES);
    let deny = |gate: &CrawlgateProcess, count: usize| {
        for n in 0..count {
            gate.answers(&origin.url(&format!("/private/{n}")), 403);
        }
    };
    deny(&gate, 5);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
    gate.start_again();
    let store = gate.setup.dir().join("crawlgate.db");
    // Start, settings and end of the first process, start and settings of this one.
    let begun = 5 + 5;
    eventually("the start to be signed", || {
        let (state, _) = state_file::read(&store).unwrap()?;
        (state.signed.0 == begun).then_some(())
    });
    // The database takes over the signed records; later ones are only in the write-ahead log.
    let carry_over = "PRAGMA wal_checkpoint(TRUNCATE)";
    rusqlite::Connection::open(&store)
        .and_then(|store| store.query_row(carry_over, [], |_| Ok(())))
        .unwrap();
    deny(&gate, 7);
    kill_and_remove_the_log(&mut gate);
    gate.start_again();
    gate.wait_said("records 11 to 17 are missing (7)");
    deny(&gate, 1);
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
    let (said, _) = gate.ends(1, "audit", &["verify", "--all"]);
    says!(said, "record 11 says that 7 of 17 records are missing");
    gate.succeeds("store", &["check"]);
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
    let refused = gate.get(&private).is(503);
    assert_eq!(refused.problem()["reason"], "log_failed", "{refused:?}");
}

/// Denies some pages, and returns the identifiers of the denials.
#[track_caller]
fn denials(gate: &CrawlgateProcess, origin: &Origin, count: usize) -> Vec<String> {
    let deny = |n| {
        let answer = gate.get(&origin.url(&format!("/private/{n}"))).is(403);
        answer.problem()["id"].as_str().unwrap().to_owned()
    };
    (0..count).map(deny).collect()
}

/// Ends a gate as an operator does.
#[track_caller]
fn end(gate: &mut CrawlgateProcess) {
    gate.signal(Signal::TERM);
    assert_eq!(gate.wait().code(), Some(0), "{}", gate.said());
}

#[test]
fn a_store_that_was_rolled_back_goes_on_as_a_new_log_and_earlier_evidence_still_holds() {
    let mut gate = strict();
    let origin = Origin::with_rules(RULES);
    let place = gate.setup.dir().to_owned();
    let (store, copy) = (place.join("crawlgate.db"), place.join("copy.db"));
    let audit = |gate: &CrawlgateProcess, words: &[&str], code: i32| {
        let (ended, said, failed) = gate.beside("audit", words);
        assert_eq!(ended, Some(code), "{words:?}: {said}{failed}");
        said + &failed
    };
    let early = denials(&gate, &origin, 5);
    end(&mut gate);
    // The last process to leave carries the log over: the file is whole.
    fs::copy(&store, &copy).unwrap();
    gate.start_again();
    let late = denials(&gate, &origin, 7);
    end(&mut gate);
    audit(&gate, &["prove", &early[0], "-o", "early.json"], 0);
    audit(&gate, &["prove", &late[6], "-o", "late.json"], 0);
    let old = audit(&gate, &["key"], 0).trim().to_owned();
    fs::write(place.join("kept"), audit(&gate, &["checkpoint"], 0)).unwrap();
    let nothing = audit(&gate, &["fork", "--reason", "none", "--yes"], 2);
    says!(nothing, "no record that its state file names is missing");

    fs::copy(&copy, &store).unwrap();
    let refused = |gate: &CrawlgateProcess| {
        let (_, said) = gate.ends(2, "serve", &[]);
        // Start, settings, denials and end of each process.
        for part in ["records 9 to 18 are missing (10)", "`crawlgate audit fork`"] {
            says!(said, part);
        }
    };
    refused(&gate);
    let files = || {
        let names = fs::read_dir(&place).unwrap().map(|one| one.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        // The engine's own come and go.
        names.retain(|name| !name.starts_with("crawlgate.db-"));
        names.sort();
        names
    };
    let (before, reason) = (files(), "the backup of Sunday");
    let told = audit(&gate, &["fork", "--reason", reason], 1);
    for part in ["records 9 to 18 (10)", "of 18 records, root ", "at hand   8 records"] {
        says!(told, part);
    }
    assert_eq!(files(), before, "nothing is changed yet");
    refused(&gate);
    let told = audit(&gate, &["fork", "--reason", reason, "--yes"], 0);
    says!(told, "begins with record 9");
    let new = audit(&gate, &["key"], 0).trim().to_owned();
    let name = |key: &str| key.split('+').next().unwrap().to_owned();
    assert_ne!(name(&new), name(&old));
    let kept = files();
    for file in &before {
        assert!(kept.contains(file), "{file} is gone: {kept:?}");
    }
    for file in ["crawlgate.log.key.before-fork-", "crawlgate.log.state.before-fork-"] {
        assert!(kept.iter().any(|kept| kept.starts_with(file)), "{kept:?}");
    }

    gate.start_again();
    let open = audit(&gate, &["fork", "--reason", "none", "--yes"], 2);
    says!(open, "another process has the store open");
    let after = denials(&gate, &origin, 3);
    end(&mut gate);
    let whole = audit(&gate, &["verify", "--all"], 0);
    let note = format!(
        "record 9: here begins a log in the place of {}, of 18 records: {reason}",
        name(&old)
    );
    says!(whole, &note);
    let (_, events, _) = gate.beside("log", &["--events", "--json", "--all"]);
    assert_eq!(events.matches("\"event\":\"forked\"").count(), 1, "{events}");

    // The old key proves the files from before the fork, and the new key does not.
    for file in ["early.json", "late.json"] {
        audit(&gate, &["verify-evidence", file, "--key", &old], 0);
        audit(&gate, &["verify-evidence", file, "--key", &new], 1);
    }
    // The new log proves what it has taken over, and what came after.
    for id in [&early[4], &after[2]] {
        audit(&gate, &["verify", id], 0);
        audit(&gate, &["prove", id, "-o", "again.json"], 0);
        audit(&gate, &["verify-evidence", "again.json", "--key", &new], 0);
    }
    // A person who has kept a later checkpoint of the lost log finds that records of it are missing.
    audit(&gate, &["verify", "--all", "--checkpoint", "kept"], 1);
}
