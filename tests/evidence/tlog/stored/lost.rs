//! Stores that have lost records, or are damaged: what the commands over the log say of them.

use std::fs;

use crawlgate_tlog::{Resource, Tile};

use super::TestStore;

/// Collects what `audit export` has written.
const COLLECT: [&str; 6] = ["collect", "--from", "exported", "--to", "copies", "--trust-new"];

#[test]
fn lost_records_are_named_and_not_called_dropped() {
    let mut db = TestStore::new();
    db.grow(5_000);
    let (first, last) = db.damage(0);
    assert_eq!(first, 1);
    let said = db.said(&["audit", "verify", "--all"], 1);
    let unreadable = format!("records 1 to {last} are missing or cannot be read");
    says!(said, &unreadable);
    lacks!(said, "records before");
    db.said(&["store", "rebuild"], 0);
    let lost =
        format!("records 1 to {last} are lost: no record says that retention has dropped them");
    let said = db.said(&["audit", "tiles", "log/of"], 1);
    says!(said, &lost);
    lacks!(said, "has dropped their");
    let said = db.said(&["audit", "export", "--to", "exported"], 1);
    says!(said, &lost);

    let kept = 5_000 - last;
    let said = db.said(&COLLECT, 0);
    says!(said, &format!(": {kept} records filed; {kept} now"));
    let said = db.said(&COLLECT, 0);
    says!(said, &format!("nothing new; {kept} records"));
    let said = db.said(&["collect", "--list", "--to", "copies"], 0);
    says!(said, &format!(" {kept} "));
}

#[test]
fn the_tree_goes_on_behind_records_that_cannot_be_read() {
    let mut db = TestStore::new();
    for size in [4_500, 9_000, 13_000] {
        db.grow(size);
    }
    let (first, last) = db.damage(1);
    let said = db.said(&["audit", "tiles", "log/of"], 1);
    let lost = format!("records {first} to {last} are lost");
    says!(said, &lost);
    let there = |file: String| db.folder().join(file).exists();
    assert!(there("checkpoint".to_owned()) && there("tile/0/000".to_owned()));
    let tile = Tile::all(13_000).find(|tile| tile.level() == 0 && tile.index() == first / 256);
    assert!(!there(Resource::Hashes(tile.unwrap()).to_string()));

    let said = db.said(&["audit", "export", "--to", "exported"], 1);
    says!(said, &format!("records {first} to {last} are damaged"));
    let kept = 13_000 - (last - first + 1);
    let said = db.said(&COLLECT, 1);
    says!(said, &format!(": {kept} records filed; {kept} now"));
    let said = db.said(&["collect", "--list", "--to", "copies"], 0);
    says!(said, &format!(" {kept} "));
}

#[test]
fn damage_to_a_collected_copy_has_a_way_out_that_works() {
    let mut db = TestStore::new();
    db.grow(5_000);
    db.said(&["audit", "export", "--to", "exported"], 0);
    db.said(&COLLECT, 0);
    fs::write(db.path("copies/foo.db"), "").unwrap();
    let log = db.key().name().to_string();
    // The own log of a gate takes the place of its copy.
    fs::create_dir(db.path("away")).unwrap();
    for file in fs::read_dir(db.path("")).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        if name.starts_with("crawlgate.") {
            fs::rename(db.path(&name), db.path("away").join(&name)).unwrap();
        }
    }
    let of = |name: &str| ["--collection", "copies", "--log", name].map(str::to_owned);
    let said = |words: &[&str], name: &str, code| {
        let of = of(name);
        let words: Vec<&str> = words.iter().copied().chain(of.iter().map(String::as_str)).collect();
        db.said(&words, code)
    };
    let foreign = "foo.db: this is no collected copy of a log: the file is empty; move it out of the collection";
    for said in [
        said(&["log", "--all"], "foo", 2),
        said(&["audit", "verify", "--all"], "foo", 2),
        db.said(&["collect", "--list", "--to", "copies"], 1),
    ] {
        assert!(said.contains(foreign) && !said.contains("serve"), "{said}");
    }
    fs::remove_file(db.path("copies/foo.db")).unwrap();

    let files = fs::read_dir(db.path("copies")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let copy = files.find(|path| path.extension().is_some_and(|end| end == "db")).unwrap();
    let whole = fs::read(&copy).unwrap();
    let mut damaged = whole.clone();
    for page in damaged.chunks_mut(4_096).skip(1) {
        page[..16].fill(0xff);
    }
    fs::write(&copy, damaged).unwrap();
    for said in [
        said(&["log", "--all"], &log, 2),
        said(&["audit", "verify", "--all"], &log, 2),
        said(&["report", "--since", "9000d", "-o", "-"], &log, 2),
        said(&["sql", "SELECT count(*) FROM denials"], &log, 2),
        db.said(&COLLECT, 1),
    ] {
        let way_out = "move this collected copy away, with the files of its name beside it, and `crawlgate collect` files the log anew";
        says!(said, way_out);
        lacks!(said, "store rebuild", "store check");
    }
}

#[test]
fn a_report_that_tells_of_faults_says_so_on_standard_error() {
    let mut db = TestStore::new();
    db.grow(5_000);
    let report = ["report", "--since", "9000d", "-o", "report.html", "--force"];
    // The decisions rest on nothing, so each is a fault; the report names a hundred.
    let said = db.said(&report, 1);
    let line = "crawlgate: the report tells of 100 faults; its section 9, and `logs` in the JSON, name them\n";
    assert_eq!(said, line);
}

#[test]
fn a_check_of_the_store_advises_what_fits() {
    let mut db = TestStore::new();
    db.grow(5_000);
    db.said(&["store", "check"], 0);
    let state = fs::read(db.path("crawlgate.log.state")).unwrap();
    fs::write(db.path("crawlgate.log.state"), "damaged").unwrap();
    let said = db.said(&["store", "check"], 1);
    says!(said, "the state file of the store is damaged", "move it away");
    lacks!(said, "rebuild");

    fs::write(db.path("crawlgate.log.state"), state).unwrap();
    let store = rusqlite::Connection::open(db.path("crawlgate.db")).unwrap();
    store.execute("DELETE FROM checkpoint", []).unwrap();
    drop(store);
    let said = db.said(&["store", "check"], 1);
    says!(said, "the checkpoint of 5000 records is missing");
    says!(said, "`crawlgate serve` signs another one");
    lacks!(said, "rebuild");

    db.damage(0);
    let said = db.said(&["store", "check"], 1);
    says!(said, "`crawlgate store rebuild` saves what can be read");
}
