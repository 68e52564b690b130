//! Reports that name one loss or lack, and the way out of it.

use super::place::{Serve, Whole, no_panic};

#[test]
fn a_lost_robots_txt_is_reported_for_every_record_that_needs_it() {
    let whole = Whole::new();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("decisions alone", "DELETE FROM origin; DELETE FROM fetch; DELETE FROM snapshot", "object: 1 name a robots.txt that is not there\n"),
        ("a fetch, too", "UPDATE origin SET sha256 = NULL; DELETE FROM snapshot", "fetch: 1 have got a robots.txt that is not there\n"),
    ];
    for (name, change, want) in cases {
        let place = whole.copy();
        let shell = rusqlite::Connection::open(&place.path).unwrap();
        shell.pragma_update(None, "foreign_keys", false).unwrap();
        shell.execute_batch(change).unwrap();
        drop(shell);
        let (code, said) = place.store("check");
        assert_eq!(code, 1, "{name}: {said}");
        assert!(said.contains(want), "{name}: {said}");
    }
}

#[test]
fn a_damaged_override_names_its_way_out_and_that_leads_there() {
    let whole = Whole::new();
    let place = whole.copy();
    let run = |words: &[&str]| {
        let (word, words) = words.split_first().unwrap();
        let output = place.setup.command(word).args(words).output().unwrap();
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        let said = text(&output.stdout) + &text(&output.stderr);
        no_panic(&said);
        (output.status.code(), said)
    };
    let add = "override add https://site.example /private deny --until 30d --by Ada --reason asked";
    let add: Vec<&str> = add.split(' ').collect();
    let (code, said) = run(&add);
    assert_eq!(code, Some(0), "{said}");
    let shell = rusqlite::Connection::open(&place.path).unwrap();
    shell.execute("UPDATE override SET until = until - 4096", []).unwrap();
    drop(shell);
    let Serve::Refused(said) = place.serve() else { panic!("a denial may be lost") };
    let way_out = "crawlgate override remove 1 --by NAME";
    says!(said, way_out);
    let (code, said) = place.store("check");
    assert_eq!(code, 1, "{said}");
    says!(said, way_out);
    let (code, said) = run(&["override", "remove", "1", "--by", "Ada"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = place.store("check");
    assert_eq!(code, 0, "{said}");
    assert_eq!(place.serve(), Serve::Listened);
}

#[test]
fn a_lack_of_descriptors_is_reported_as_such() {
    let whole = Whole::new();
    let place = whole.copy();
    let check = |limit: usize| {
        let limited = format!("ulimit -n {limit} && exec \"$0\" \"$@\"");
        let mut command = place.setup.command_in(&["sh", "-c", &limited], "store");
        let output = command.arg("check").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    // The first limit is enough for the database but not for its log; the second for the log but not for its index.
    for limit in [4, 5] {
        let (code, said) = check(limit);
        assert_eq!(code, Some(2), "{limit}: {said}");
        says!(said, "no descriptor left", "ulimit -n"; "{limit}");
    }
    let (code, said) = check(64);
    assert_eq!(code, Some(0), "{said}");
}
