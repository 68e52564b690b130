use super::*;
use crate::store::chain::SealingKey;

/// A chain as a store has it.
#[derive(Clone)]
struct Told {
    records: Vec<StoredDecision>,
    seals: Vec<Seal>,
}

const NOON: Moment = Moment::from_millis(1_795_176_000_123);

fn key() -> SealingKey {
    SealingKey::generate().expect("a key")
}

/// Ten records, sealed after the fourth and after the eighth.
fn told(key: &SealingKey) -> Told {
    let mut told = Told {
        records: Vec::new(),
        seals: Vec::new(),
    };
    let mut hash = chain::GENESIS;
    for seq in 1..=10 {
        let record = format!("{{\"n\":{seq}}}");
        hash = chain::link(&hash, record.as_bytes());
        told.records.push(StoredDecision {
            seq,
            time: NOON,
            record,
            hash,
            acknowledged: None,
        });
        if seq % 4 == 0 {
            let seal = key.seal(seq, hash, (1, chain::GENESIS), NOON);
            told.seals.push(seal);
        }
    }
    told
}

impl Told {
    /// Makes all links anew, as an attacker without the key can.
    fn forge(&mut self) {
        let mut hash = chain::GENESIS;
        for (place, one) in self.records.iter_mut().enumerate() {
            one.seq = place as u64 + 1;
            hash = chain::link(&hash, one.record.as_bytes());
            one.hash = hash;
        }
    }

    /// Drops the first records as retention does.
    fn prune(&mut self, to: u64, key: &SealingKey) {
        let before = self.records[to as usize - 1].hash;
        self.records.retain(|one| one.seq > to);
        self.seals.retain(|seal| seal.seq >= to);
        let (seq, hash) = self
            .records
            .last()
            .map_or((to, before), |one| (one.seq, one.hash));
        self.seals.push(key.seal(seq, hash, (to + 1, before), NOON));
    }

    fn walk(&self, trusted: &SealingKey, kept: Option<Head>) -> (Chain, Vec<String>) {
        let mut faults = Vec::new();
        let mut verifier = ChainVerifier::new(&self.seals, &[trusted.public()], kept, &mut faults);
        for one in &self.records {
            verifier.step(one, &mut faults);
        }
        let chain = verifier.end(&mut faults);
        (chain, faults.iter().map(Fault::to_string).collect())
    }
}

#[test]
fn an_unchanged_chain_has_no_faults() {
    let key = key();
    let told = told(&key);
    let (chain, faults) = told.walk(&key, None);
    assert_eq!(faults, [""; 0]);
    assert_eq!(
        (chain.first, chain.head.seq, chain.sealed),
        (1, 10, Some(8))
    );
    assert_eq!(chain.head.hash, told.records[9].hash);
}

#[test]
fn each_change_of_a_chain_is_found() {
    type Change = fn(&mut Told, &SealingKey);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &[&str])] = &[
        ("a record altered", |t, _| t.records[4].record = "{}".into(), &["record 5 does not follow"]),
        ("a link altered", |t, _| t.records[4].hash[0] ^= 1, &["record 5 does not follow", "record 6 does not follow"]),
        ("a sealed link altered", |t, _| t.records[3].hash[0] ^= 1, &["record 4 does not follow", "at record 4 the chain is not what the seal of 2026-11-20T12:00:00.123Z says: something from record 1 on", "record 5 does not follow"]),
        ("a record altered, all links made anew", |t, _| { t.records[5].record = "{}".into(); t.forge(); }, &["at record 8 the chain is not what the seal of 2026-11-20T12:00:00.123Z says: something from record 5 on"]),
        ("a record taken out", |t, _| drop(t.records.remove(4)), &["record 5 is missing"]),
        ("two taken out", |t, _| drop(t.records.drain(4..6)), &["records 5 to 6 are missing"]),
        ("a record taken out, all made anew", |t, _| { t.records.remove(5); t.forge(); }, &["at record 8 the chain is not what"]),
        ("two records swapped", |t, _| { t.records.swap(4, 5); t.records[4].seq = 5; t.records[5].seq = 6; }, &["record 5 does not follow", "record 6 does not follow", "record 7 does not follow"]),
        ("a record put in, all made anew", |t, _| { let one = t.records[1].clone(); t.records.insert(1, one); t.forge(); }, &["at record 4 the chain is not what", "at record 8 the chain is not what"]),
        ("the end cut off, back to before a seal", |t, _| t.records.truncate(6), &["records 7 to 8 are missing: the seal of 2026-11-20T12:00:00.123Z speaks of record 8"]),
        ("all taken out", |t, _| t.records.clear(), &["records 1 to 8 are missing"]),
        ("the front cut off", |t, _| drop(t.records.drain(..2)), &["records before 3 are missing"]),
        ("a seal altered", |t, _| t.seals[0].time = NOON + std::time::Duration::from_secs(1), &["the signature of the seal of record 4"]),
        ("a seal of another key", |t, _| { let (seq, hash) = (8, t.seals[1].hash); t.seals[1] = super::tests::key().seal(seq, hash, (1, chain::GENESIS), NOON); }, &["the seal of record 8 is of another key"]),
        ("pruned", |t, key| t.prune(3, key), &[]),
        ("pruned up to a seal", |t, key| t.prune(4, key), &[]),
        ("pruned twice", |t, key| { t.prune(3, key); let before = t.records[1].hash; t.records.drain(..2); t.seals.push(key.seal(10, t.records.last().unwrap().hash, (6, before), NOON)); }, &[]),
        ("pruned, and a record altered", |t, key| { t.prune(3, key); t.records[0].record = "{}".into(); }, &["record 4 does not follow"]),
        ("pruned, and more taken off the front", |t, key| { t.prune(3, key); t.records.remove(0); }, &["records before 5 are missing"]),
        ("all pruned", |t, key| t.prune(10, key), &[]),
        // Only a head that was kept elsewhere reveals this.
        ("the end cut off, after the last seal", |t, _| t.records.truncate(8), &[]),
        ("the end cut off with its seals", |t, _| { t.records.truncate(5); t.seals.truncate(1); }, &[]),
        ("the end altered after the last seal", |t, _| { t.records[9].record = "{}".into(); t.forge(); }, &[]),
    ];
    for (name, change, want) in cases {
        let key = key();
        let mut told = told(&key);
        change(&mut told, &key);
        let (_, faults) = told.walk(&key, None);
        assert_eq!(faults.len(), want.len(), "{name}: {faults:?}");
        for (fault, want) in faults.iter().zip(*want) {
            assert!(fault.starts_with(want), "{name}: {fault}");
        }
    }
}

#[test]
fn seals_of_an_earlier_key_count_once_the_key_is_named() {
    let (earlier, present) = (key(), key());
    let mut told = told(&earlier);
    let head = told.records.last().map(|one| (one.seq, one.hash)).unwrap();
    let seal = present.seal(head.0, head.1, (1, chain::GENESIS), NOON);
    told.seals.push(seal);
    let [earlier, present] = [earlier, present].map(|key| key.public());
    for (name, trusted, faults_of, sealed) in [
        ("the present one alone", vec![present], vec![4, 8], 10),
        ("the earlier one alone", vec![earlier], vec![10], 8),
        ("both", vec![present, earlier], vec![], 10),
    ] {
        let mut faults = Vec::new();
        let mut verifier = ChainVerifier::new(&told.seals, &trusted, None, &mut faults);
        for one in &told.records {
            verifier.step(one, &mut faults);
        }
        let chain = verifier.end(&mut faults);
        let of = faults.iter().map(|fault| match fault {
            Fault::Key { seq, .. } => *seq,
            other => panic!("{name}: {other}"),
        });
        assert_eq!(of.collect::<Vec<_>>(), faults_of, "{name}");
        assert_eq!(chain.sealed, Some(sealed), "{name}");
    }
}

#[test]
fn a_kept_head_reveals_changes_without_a_seal() {
    let key = key();
    let whole = told(&key);
    let head = whole.walk(&key, None).0.head;
    assert_eq!(head.to_string().parse(), Ok(head));
    type Change = fn(&mut Told);
    #[rustfmt::skip] // one row, one case
    let cases: &[(&str, Change, &[&str])] = &[
        ("nothing", |_| {}, &[]),
        ("the end cut off", |t| t.records.truncate(8), &["records 9 to 10 are missing: the head that was kept speaks of record 10"]),
        ("the end cut off with its seals", |t| { t.records.truncate(5); t.seals.truncate(1); }, &["records 6 to 10 are missing"]),
        ("the end altered", |t| { t.records[9].record = "{}".into(); t.forge(); }, &["at record 10 the chain is not what the head that was kept says: something from record 9 on"]),
    ];
    for (name, change, want) in cases {
        let mut told = whole.clone();
        change(&mut told);
        let (_, faults) = told.walk(&key, Some(head));
        assert_eq!(faults.len(), want.len(), "{name}: {faults:?}");
        for (fault, want) in faults.iter().zip(*want) {
            assert!(fault.starts_with(want), "{name}: {fault}");
        }
    }
    let mut pruned = whole.clone();
    let second = whole.records[1].hash;
    pruned.prune(5, &key);
    let (chain, faults) = pruned.walk(
        &key,
        Some(Head {
            seq: 2,
            hash: second,
        }),
    );
    assert_eq!((chain.kept_is_dropped, faults), (true, Vec::new()));
}

#[test]
fn records_dropped_during_the_walk_are_no_gap() {
    let key = key();
    let mut told = told(&key);
    let mut faults = Vec::new();
    let mut verifier = ChainVerifier::new(&told.seals, &[key.public()], None, &mut faults);
    told.records[..2]
        .iter()
        .for_each(|one| verifier.step(one, &mut faults));
    told.prune(5, &key);
    verifier.learn(&told.seals);
    told.records
        .iter()
        .for_each(|one| verifier.step(one, &mut faults));
    assert_eq!(
        (verifier.end(&mut faults).sealed, faults),
        (Some(8), Vec::new())
    );
}

#[test]
fn without_a_trusted_key_each_seal_counts_by_its_own() {
    let key = key();
    let told = told(&key);
    let mut faults = Vec::new();
    let mut verifier = ChainVerifier::new(&told.seals, &[], None, &mut faults);
    told.records
        .iter()
        .for_each(|one| verifier.step(one, &mut faults));
    assert_eq!(
        (verifier.end(&mut faults).sealed, faults),
        (Some(8), Vec::new())
    );
}

#[test]
fn heads_are_read_as_they_are_written() {
    for wrong in ["", "12", "12:", "12:abc", "x:00", ":", "1:zz"] {
        assert!(wrong.parse::<Head>().is_err(), "{wrong}");
    }
}
