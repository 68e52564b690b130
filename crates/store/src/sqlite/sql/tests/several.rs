//! Statements over several logs.

use super::*;

#[tokio::test]
async fn a_statement_goes_on_in_a_log_that_others_have_closed() {
    let folder = tempfile::tempdir().unwrap();
    let logs = 0..=sources::MAX_OPEN;
    let paths: Vec<_> = logs.map(|n| folder.path().join(format!("{n}.db"))).collect();
    for path in &paths {
        let store = Store::open(path, Access::Write, Synchronous::Normal).unwrap();
        // Two runs.
        record(&store, &[ROW]).await;
        record(&store, &[ROW, ROW]).await;
    }
    let stores: Vec<_> = paths.iter().map(|path| Exported { name: Some("a log"), path }).collect();
    let session = Session::open_several(&stores, &DecisionQuery::default()).unwrap();
    let mut taken = Taken::default();
    // The first row of the outer statement makes the inner one read all logs.
    let text = "SELECT time, (SELECT count(*) FROM denials) FROM decisions";
    session.run(text, &mut taken).unwrap();
    let all = paths.len() * 3;
    assert_eq!(taken.rows.len(), all);
    assert!(taken.rows.iter().all(|row| row[1] == json!(all)));
}
