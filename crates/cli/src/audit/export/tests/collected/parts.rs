//! An export without checkpoints between is filed in parts.

use super::*;

/// Entries of a transaction in these tests.
const PART: u64 = 250;

impl Copy {
    /// Files an export in parts, and tells `progress` how many of the records were read.
    fn import_in_parts(
        &self,
        gate: &ExportedLog,
        progress: impl FnMut(u64, u64),
    ) -> Result<Imported, String> {
        let export = Exported::open(&gate.to()).unwrap();
        let mut copy = Collected::open(&self.path()).unwrap();
        let keys = [gate.key.vkey()];
        import_in_parts((PART, PastGaps::Stop), &export, &mut copy, (&keys, &[]), progress)
            .map_err(|error| error.to_string())
    }
}

/// Exports 1,000 records in ten files with one checkpoint.
async fn exported() -> ExportedLog {
    let mut gate = ExportedLog::new().await;
    for n in 0..10 {
        gate.exported(100, ROW.time + DAY * n).await;
    }
    for size in (100..1_000).step_by(100) {
        fs::remove_file(gate.to().join(checkpoint_file(size))).unwrap();
    }
    gate
}

#[tokio::test]
async fn a_long_log_is_filed_in_parts_and_the_copy_is_whole() {
    let gate = exported().await;
    let want = content(&gate.store, gate.text).await;
    let copy = Copy::new();
    let mut sizes = Vec::new();
    let shell = || Connection::open(copy.path()).unwrap();
    let imported = copy.import_in_parts(&gate, |_, _| {
        let stored = "SELECT coalesce(max(first + count), 0) FROM (SELECT first, count FROM block UNION ALL SELECT first, count FROM tail)";
        let size: i64 = shell().query_row(stored, [], |row| row.get(0)).unwrap();
        sizes.push(size);
    });
    let imported = imported.unwrap();
    assert_eq!((imported.records, imported.size, imported.missing.len()), (1_000, 1_000, 0));
    sizes.dedup();
    assert_eq!(sizes, [0, 300, 600, 900], "what others see meanwhile");
    let ours = copy.content(&gate).await;
    assert_eq!((ours.records, ours.text, ours.hours), (want.records, want.text, want.hours));
    assert_eq!(ours.checkpoints, want.checkpoints.last().into_iter().cloned().collect::<Vec<_>>());
    assert_eq!(copy.faults(), repair::Faults::default());
}

#[tokio::test]
async fn a_run_that_was_cut_off_leaves_records_that_a_later_one_continues() {
    let gate = exported().await;
    let want = content(&gate.store, gate.text).await;
    let whole = files(&gate.to());
    // The file of the last hundred records goes once so many records were read, the second time each.
    for (reads, left) in [(0, 0), (11, 0), (14, 300), (17, 600), (19, 900)] {
        let copy = Copy::new();
        let last = gate.to().join(entries_file(900, 1_000));
        let mut count = 0;
        let cut = copy.import_in_parts(&gate, |_, _| {
            count += 1;
            if count == reads {
                fs::remove_file(&last).unwrap();
            }
        });
        let is_cut = reads > 0;
        assert_eq!(cut.is_err(), is_cut, "{reads}: {cut:?}");
        let found = copy.content(&gate).await;
        let first = &want.records[..found.records.len()];
        assert_eq!(found.records, first, "{reads}");
        if is_cut {
            // The entries of the last part were read before the file had gone, or not.
            assert!(found.records.len() >= left, "{reads}: {}", found.records.len());
            assert_eq!(found.checkpoints.len(), 0, "{reads}");
            assert_eq!(copy.faults(), repair::Faults::default(), "{reads}");
            if left > 0 {
                let keys = public_keys::collected_keys(&copy.path()).unwrap();
                assert_eq!(keys, [gate.key.vkey()], "{reads}");
            }
        }
        for (name, octets) in &whole {
            fs::write(gate.to().join(name), octets).unwrap();
        }
        let imported = copy.import_in_parts(&gate, |_, _| ()).unwrap();
        assert_eq!(imported.size, 1_000);
        assert_eq!(imported.records, 1_000 - found.records.len() as u64);
        let ours = copy.content(&gate).await;
        assert_eq!(ours.records, want.records, "{reads}");
        assert_eq!((ours.hours, ours.checkpoints.len()), (want.hours, 1));
        assert_eq!(copy.faults(), repair::Faults::default());
    }
}

#[tokio::test]
async fn nothing_is_filed_of_a_log_that_does_not_lead_to_the_signed_root() {
    let gate = exported().await;
    let other = exported().await;
    for (first, end) in [(0, 100), (400, 500), (900, 1_000)] {
        let name = entries_file(first, end);
        let ours = fs::read(gate.to().join(&name)).unwrap();
        let theirs = fs::read(other.to().join(&name)).unwrap();
        fs::write(gate.to().join(&name), &theirs).unwrap();
        let copy = Copy::new();
        let error = copy.import_in_parts(&gate, |_, _| ()).unwrap_err();
        assert!(error.contains("do not lead to the root"), "{name}: {error}");
        assert_eq!(copy.content(&gate).await.records.len(), 0, "{name}");

        // The file is exchanged once it was read, and before it is filed.
        fs::write(gate.to().join(&name), &ours).unwrap();
        let mut count = 0;
        let copy = Copy::new();
        let error = copy.import_in_parts(&gate, |_, _| {
            count += 1;
            if count == 10 {
                fs::write(gate.to().join(&name), &theirs).unwrap();
            }
        });
        assert!(error.unwrap_err().contains("do not lead to the root"), "{name}");
        let found = copy.content(&gate).await.records.len() as u64;
        assert_eq!(found, first / 300 * 300, "{name}");
        assert_eq!(copy.faults(), repair::Faults::default(), "{name}");
        fs::write(gate.to().join(&name), &ours).unwrap();
        copy.import_in_parts(&gate, |_, _| ()).unwrap();
    }
}

#[tokio::test]
async fn a_checkpoint_that_comes_late_is_filed_over_records_that_are_here() {
    let gate = exported().await;
    let want = content(&gate.store, gate.text).await;
    let copy = Copy::new();
    let last = gate.to().join(entries_file(900, 1_000));
    let octets = fs::read(&last).unwrap();
    let mut count = 0;
    let cut = copy.import_in_parts(&gate, |_, _| {
        count += 1;
        if count == 19 {
            fs::remove_file(&last).unwrap();
        }
    });
    cut.unwrap_err();
    fs::write(&last, octets).unwrap();
    assert_eq!(gate.export().await, Ok(CheckResult::Clean));
    let late = want.checkpoints[3].as_bytes();
    fs::write(gate.to().join(checkpoint_file(400)), late).unwrap();
    let imported = copy.import_in_parts(&gate, |_, _| ()).unwrap();
    assert_eq!((imported.records, imported.size), (100, 1_000));
    let ours = copy.content(&gate).await;
    assert_eq!(ours.records, want.records);
    assert_eq!(ours.checkpoints, [&want.checkpoints[3], &want.checkpoints[9]].map(Clone::clone));
    assert_eq!(copy.faults(), repair::Faults::default());
}
