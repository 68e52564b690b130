//! The name of a member, and the process that has it.

use std::time::Duration;

use crawlgate::fleet::HeartbeatReply;
use crawlgate::fleet::coordinator::{CoordinatorError, Heartbeat};

use super::{each, report, two};

#[test]
fn a_name_stays_with_its_process_until_that_one_is_silent_or_leaves() {
    each(|test_engine| async move {
        let [old, new] = two(&test_engine).await;
        let reports = ["01", "02"].map(report);
        let beat = |process, report| Heartbeat {
            name: "x",
            process,
            report,
            after: None,
            forget_after: Duration::from_secs(18),
        };
        let [of_old, of_new] = [beat("01", &reports[0]), beat("02", &reports[1])];
        let of_x = async || {
            let rows = old.members().await.unwrap().into_iter();
            rows.rev().map(|row| row.report).next().unwrap()
        };
        let duplicate = Err(CoordinatorError::Duplicate("x".into()));
        let mut refused = Ok(HeartbeatReply::default());
        // On a machine that stands still for a second, the name is free again.
        for _ in 0..20 {
            old.leave("x", "01").await.unwrap();
            new.leave("x", "02").await.unwrap();
            old.heartbeat(of_old).await.unwrap();
            refused = new.heartbeat(of_new).await;
            if refused == duplicate {
                break;
            }
        }
        assert_eq!(refused, duplicate);
        assert_eq!(of_x().await, reports[0]);
        new.leave("x", "02").await.unwrap();
        assert_eq!(of_x().await, reports[0], "only the member leaves");
        test_engine.silences("x");
        new.heartbeat(of_new).await.unwrap();
        assert_eq!(of_x().await, reports[1]);
        new.leave("x", "02").await.unwrap();
        old.heartbeat(of_old).await.unwrap();
        assert_eq!(of_x().await, reports[0]);
    });
}
