//! The name of a member, the process that has it, and the key of all.

use std::time::Duration;

use crawlgate_turns::fleet::HeartbeatReply;
use crawlgate_turns::fleet::coordinator::{CoordinatorError, Heartbeat};

use super::{KEY, each, report, two};

#[test]
fn a_name_stays_with_its_process_until_that_one_is_silent_or_leaves() {
    each(|test_engine| async move {
        let [old, new] = two(&test_engine).await;
        let reports = ["01", "02"].map(report);
        let beat = |process, report| Heartbeat {
            name: "x",
            process,
            key: KEY,
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

#[test]
fn an_instance_with_another_key_does_not_join_while_a_member_has_the_old_one() {
    each(|test_engine| async move {
        let [old, new] = two(&test_engine).await;
        let with = |name, key| Heartbeat {
            name,
            process: "0a",
            key,
            report: match key {
                KEY => r#"{"process":"0a","key":"0f"}"#,
                _ => r#"{"process":"0a","key":"0e"}"#,
            },
            after: None,
            forget_after: Duration::from_secs(18),
        };
        let other = |name: &str| Err(CoordinatorError::OtherKey(name.into()));
        new.leave("b", "0a").await.unwrap();
        assert_eq!(new.heartbeat(with("b", "0e")).await, other("a"));
        assert_eq!(new.heartbeat(with("c", "0e")).await, other("a"));
        // The members stay as they are.
        old.heartbeat(with("a", KEY)).await.unwrap();
        let names = old.members().await.unwrap().into_iter();
        assert_eq!(names.map(|row| row.name).collect::<Vec<_>>(), ["a"]);
        // The only member may come again with another key.
        new.heartbeat(with("a", "0e")).await.unwrap();
        new.heartbeat(with("c", "0e")).await.unwrap();
        assert_eq!(old.heartbeat(with("b", KEY)).await, other("a"));
        for name in ["a", "c"] {
            new.leave(name, "0a").await.unwrap();
        }
        old.heartbeat(with("b", KEY)).await.unwrap();
    });
}
