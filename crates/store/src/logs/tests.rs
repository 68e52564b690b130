mod reach;

use super::*;
use crate::tests::has;
use crate::tests::{ROW, Row};
use crate::{Batch, DecisionQuery, GroupBy, Store};
use crawlgate_system::clock::Moment;

/// 2026-11-20T12:00:00Z
const NOON: u64 = 1_795_176_000_000;

fn time(second: u64) -> Moment {
    Moment::from_millis(NOON + second * 1_000)
}

fn name(name: &str) -> KeyName {
    name.parse().unwrap()
}

/// Returns a store with a denial for each second.
async fn store(seconds: &[u64]) -> Arc<Store> {
    let store = Store::temporary();
    let mut batch = Batch::default();
    for second in seconds {
        let time = time(*second);
        Row { time, ..ROW }.file(&mut batch);
    }
    store.write(batch).await.unwrap();
    Arc::new(store)
}

async fn log(of: &str, seconds: &[u64]) -> Log {
    Log::running(name(of), store(seconds).await)
}

fn logs(all: Vec<Log>) -> Logs {
    Logs { all, copies: OpenCopies::default(), folder: None }
}

fn missing(of: &str, folder: &Path) -> Log {
    Log { name: name(of), source: Source::Copy(folder.join("gone.db")) }
}

fn query(newest_first: bool) -> DecisionQuery {
    DecisionQuery { newest_first, ..DecisionQuery::default() }
}

fn list(logs: &Logs, newest_first: bool) -> MergedList<'_> {
    MergedList::new(logs, EntryKind::Decisions, query(newest_first))
}

/// Returns the name of the log and the second of each entry.
fn shown(page: &[Listed]) -> Vec<(&str, u64)> {
    let shown = page.iter().map(|one| {
        let second = (one.entry.time.as_millis() - NOON) / 1_000;
        (one.log.as_str(), second)
    });
    shown.collect()
}

#[tokio::test]
async fn entries_of_all_logs_come_by_time_and_those_of_one_time_by_name() {
    let logs =
        logs(vec![log("a", &[1, 4, 5, 9]).await, log("b", &[2, 4, 9]).await, log("c", &[]).await]);
    let forward = [("a", 1), ("b", 2), ("a", 4), ("b", 4), ("a", 5), ("a", 9), ("b", 9)];
    let page = list(&logs, false).page(100).await.unwrap();
    assert_eq!(shown(&page), forward);
    let mut page = list(&logs, true).page(100).await.unwrap();
    page.reverse();
    assert_eq!(shown(&page), forward, "backwards it is the same");
}

#[tokio::test]
async fn pages_of_any_size_give_the_whole_list_once() {
    let many: Vec<u64> = (0..60).map(|n| n * 3).collect();
    let logs = logs(vec![
        log("a", &many).await,
        log("b", &[5, 6, 7, 100, 101]).await,
        log("c", &(0..40).collect::<Vec<_>>()).await,
    ]);
    for newest_first in [false, true] {
        let whole = list(&logs, newest_first).page(1_000).await.unwrap();
        assert_eq!(whole.len(), 105);
        for size in [1, 2, 7, 50, 104, 105, 106] {
            let (mut pages, mut places) = (Vec::new(), None::<Places>);
            loop {
                let mut list = list(&logs, newest_first);
                if let Some(places) = &places {
                    list = list.after(places);
                }
                pages.extend(list.page(size).await.unwrap());
                // The places go through a URL.
                places = list.next_places().map(|places| places.to_string().parse().unwrap());
                if places.is_none() {
                    break;
                }
            }
            assert_eq!(shown(&pages), shown(&whole), "{size}, {newest_first}");
            let mut stays = list(&logs, newest_first);
            let mut pages = Vec::new();
            while let page @ [_, ..] = &*stays.page(size).await.unwrap() {
                pages.extend(page.to_vec());
            }
            assert_eq!(shown(&pages), shown(&whole), "{size}, {newest_first}");
        }
    }
}

#[tokio::test]
async fn an_entry_that_comes_meanwhile_is_on_no_later_page() {
    let (a, b) = (store(&[1, 2]).await, store(&[3]).await);
    let logs = logs(vec![
        Log::running(name("a"), Arc::clone(&a)),
        Log::running(name("b"), Arc::clone(&b)),
    ]);
    let mut first = list(&logs, true);
    assert_eq!(shown(&first.page(1).await.unwrap()), [("b", 3)]);
    let places = first.next_places().unwrap();
    for store in [&a, &b] {
        let late = Row { time: time(4), ..ROW };
        store.write(late.batch()).await.unwrap();
    }
    let rest = list(&logs, true).after(&places).page(9).await.unwrap();
    assert_eq!(shown(&rest), [("a", 2), ("a", 1)]);
    // A list up to the ends of before has none of them, either.
    let (ends, faults) = logs.ends().await;
    assert_eq!(faults, []);
    let late = Row { time: time(5), ..ROW };
    a.write(late.batch()).await.unwrap();
    for newest_first in [false, true] {
        let page = list(&logs, newest_first).up_to(&ends).page(9).await;
        assert_eq!(page.unwrap().len(), 5);
    }
    let new = list(&logs, false).after(&ends).page(9).await.unwrap();
    assert_eq!(shown(&new), [("a", 5)]);
}

#[tokio::test]
async fn the_ends_are_those_of_the_logs_and_need_no_search() {
    let logs = logs(vec![log("a", &[1, 2]).await, log("b", &[]).await]);
    let a = logs.open(logs.iter().next().unwrap()).await.unwrap();
    a.write(crate::tests::lost()).await.unwrap();
    let (ends, faults) = logs.ends().await;
    assert_eq!(faults, []);
    let numbers: Vec<u64> = logs.iter().map(|log| ends.number(log.name())).collect();
    assert_eq!(numbers, [3, 0], "whatever the kind of the last entry");
    let events = MergedList::new(&logs, EntryKind::Events, DecisionQuery::default());
    let events = events.up_to(&ends).page(9).await.unwrap();
    assert_eq!(shown(&events), [("a", 0)], "the loss at noon");
}

#[tokio::test]
async fn what_a_list_has_taken_is_read_in_the_other_order() {
    let logs = logs(vec![log("a", &[1, 3, 5]).await, log("b", &[2, 4, 6]).await]);
    let (ends, _) = logs.ends().await;
    for count in 0..=6 {
        let mut back = list(&logs, true).up_to(&ends);
        let mut taken = back.page(count).await.unwrap();
        taken.reverse();
        let again = list(&logs, false).after(&back.turned()).up_to(&ends);
        let again = { again }.page(100).await.unwrap();
        assert_eq!(shown(&again), shown(&taken), "{count}");
    }
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_named_and_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let both = logs(vec![log("a", &[1, 2, 3]).await, missing("b", folder.path())]);
    let mut first = list(&both, false);
    assert_eq!(shown(&first.page(2).await.unwrap()), [("a", 1), ("a", 2)]);
    let [fault] = &*first.faults() else { panic!("one fault") };
    assert_eq!(fault.log.as_str(), "b");
    assert!(fault.error.message.contains("gone.db"), "{fault}");
    let places = first.next_places().unwrap().to_string().parse().unwrap();
    let mut last = list(&both, false).after(&places);
    assert_eq!(shown(&last.page(2).await.unwrap()), [("a", 3)]);
    let shown = last.faults()[0].to_string();
    assert!(shown.contains("left out since an earlier page"), "{shown}");
    assert_eq!(last.next_places(), None, "it does not go on for ever");

    let mut counted = list(&both, false);
    let groups = counted.count_by(GroupBy::Reason, 9).await.unwrap();
    assert_eq!((groups[0].count, counted.faults().len()), (3, 1));
    let lookup = both.find("01KB7W3Y5E000000000VY7H1Q2").await;
    assert_eq!(lookup.faults.len(), 1);

    let alone = logs(vec![missing("b", folder.path())]);
    let error = list(&alone, false).page(2).await.unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Missing);
    assert!(list(&alone, false).count_by(GroupBy::Reason, 1).await.is_err());
}

#[tokio::test]
async fn counts_of_all_logs_are_summed_before_the_most_frequent_are_chosen() {
    let rows = async |counts: &[(&'static str, u64)]| {
        let store = Store::temporary();
        let mut batch = Batch::default();
        for (host, count) in counts {
            for n in 0..*count {
                let time = time(n);
                Row { host, time, ..ROW }.file(&mut batch);
            }
        }
        store.write(batch).await.unwrap();
        let store: Arc<Store> = Arc::new(store);
        store
    };
    let logs = logs(vec![
        Log::running(name("a"), rows(&[("x.example", 5), ("z.example", 4)]).await),
        Log::running(name("b"), rows(&[("y.example", 6), ("z.example", 4)]).await),
    ]);
    let groups = list(&logs, false).count_by(GroupBy::Origin, 2).await.unwrap();
    let counts: Vec<(&str, u64)> = groups.iter().map(|one| (&*one.key[0], one.count)).collect();
    assert_eq!(counts, [("https://z.example", 8), ("https://y.example", 6)]);
    assert_eq!(
        (groups[1].first, groups[1].last),
        (time(0), time(5)),
        "first and last are those of all"
    );
}

#[test]
fn a_log_is_found_by_its_name_or_by_a_part_that_no_other_has() {
    let folder = tempfile::tempdir().unwrap();
    let all = |names: &[&str]| Logs {
        all: names.iter().map(|one| missing(one, folder.path())).collect(),
        copies: OpenCopies::default(),
        folder: Some(folder.path().to_owned()),
    };
    let three = ["logs.example/ams", "logs.example/fra", "logs.example/fra-1"];
    let shown = |logs: &Logs, name: &str| match logs.named(name) {
        Ok(log) => log.name().to_string(),
        Err(error) => error.message,
    };
    assert!(shown(&all(&[]), "a").ends_with("no log is collected there"));
    let logs = all(&three);
    assert_eq!(shown(&logs, "ams"), "logs.example/ams");
    assert_eq!(shown(&logs, "logs.example/fra"), "logs.example/fra");
    assert_eq!(shown(&logs, "fra"), "logs.example/fra");
    assert_eq!(shown(&logs, "-1"), "logs.example/fra-1");
    assert_eq!(
        shown(&logs, "fr"),
        "fr: more than one log has this in its name: logs.example/fra, logs.example/fra-1"
    );
    let more = [&three[..], &["others/fra"]].concat();
    assert_eq!(
        shown(&all(&more), "fra"),
        "fra: more than one log has this in its name: logs.example/fra, logs.example/fra-1, others/fra"
    );
    let unknown = shown(&logs, "par");
    has(&unknown, "there are logs.example/ams, logs.example/fra,");
    let chosen = |wanted: &[&str]| logs.choose(wanted).map(|logs| logs.names());
    let names = "logs.example/ams, logs.example/fra-1";
    assert_eq!(chosen(&["-1", "ams", "-1"]).as_deref(), Ok(names));
    assert_eq!(chosen(&["ams", "*"]).as_deref(), Ok(&*three.join(", ")));
    assert!(chosen(&["ams", "par"]).is_err());
}

#[tokio::test]
async fn the_log_itself_takes_the_place_of_its_copy() {
    let folder = tempfile::tempdir().unwrap();
    let collection = Collection::at(folder.path());
    for log in ["logs/a", "logs/b"] {
        std::fs::write(collection.place(&name(log)).unwrap(), "").unwrap();
    }
    let own = log("logs/b", &[1]).await;
    let logs = Logs::of(Some(own), Some(&collection), OpenCopies::default()).unwrap();
    assert_eq!(logs.names(), "logs/a, logs/b");
    let copies: Vec<bool> = logs.iter().map(Log::is_copy).collect();
    assert_eq!(copies, [true, false]);
}

#[tokio::test]
async fn few_copies_stay_open_and_another_file_is_opened_anew() {
    let folder = tempfile::tempdir().unwrap();
    let place = |n: usize| folder.path().join(format!("{n}.db"));
    for n in 0..=MAX_OPEN {
        let store =
            Store::open(&place(n), crate::Access::Write, crawlgate_config::Synchronous::Normal);
        store.unwrap().write(ROW.batch()).await.unwrap();
    }
    let copies = OpenCopies::default();
    let first = copies.get(&place(0)).await.unwrap();
    let again = copies.get(&place(0)).await.unwrap();
    assert!(Arc::ptr_eq(&first, &again), "it stays open");
    for n in 0..=MAX_OPEN {
        copies.get(&place(n)).await.unwrap();
    }
    assert_eq!(copies.len(), MAX_OPEN);
    let later = copies.get(&place(0)).await.unwrap();
    assert!(!Arc::ptr_eq(&first, &later), "it was closed for another");
    assert_eq!(first.extent().await.unwrap().size, 1, "its holder still reads the closed log");

    std::fs::rename(place(1), place(0)).unwrap();
    let other = copies.get(&place(0)).await.unwrap();
    assert!(!Arc::ptr_eq(&later, &other), "another file has its place");
    std::fs::remove_file(place(0)).unwrap();
    let gone = copies.get(&place(0)).await.unwrap_err();
    assert_eq!(gone.kind, StoreErrorKind::Missing);
}

#[test]
fn places_go_through_a_text() {
    let mut places = Places::default();
    places.insert(&name("logs/a"), Place::At(17));
    places.insert(&name("logs/b"), Place::Failed);
    let text = places.to_string();
    assert_eq!(text.len(), 2 * 12 + "-17.-x".len());
    assert_eq!(text.parse(), Ok(places.clone()));
    assert_eq!(places.get(&name("logs/a")), Some(Place::At(17)));
    assert_eq!(places.get(&name("logs/c")), None);
    assert!(places.lead_on());
    for wrong in [
        "",
        "x",
        "17",
        "0123456789ab",
        "0123456789ab-",
        "0123456789ab-y",
        "0123456789ab-+1",
        "0123456789AB-1",
        "0123456789ab-1.",
        "0123456789ab-99999999999999999999",
    ] {
        assert_eq!(wrong.parse::<Places>(), Err(UnreadablePlaces), "{wrong}");
    }
}

#[test]
fn a_line_begins_with_the_name_of_its_log() {
    let listed = Listed {
        log: name("logs/\"a\""),
        entry: StoredDecision {
            seq: 1,
            time: Moment::default(),
            entry: Vec::new(),
            bodies: Vec::new(),
            record: "{\"time\":\"x\"}".to_owned(),
            acknowledged: None,
        },
    };
    assert_eq!(listed.line(), "{\"log\":\"logs/\\\"a\\\"\",\"time\":\"x\"}");
}
