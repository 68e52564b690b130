//! Origins at one address share its bounds, if they are to.

use std::collections::HashMap;
use std::pin::pin;

use super::*;

#[tokio::test(start_paused = true)]
async fn origins_at_one_address_share_its_bounds_where_that_is_asked_for() {
    let address: IpAddr = [192, 0, 2, 1].into();
    for (per_address, least, most) in [(true, 9, 11), (false, 28, 33)] {
        let clock = Clock::manual(START);
        let config = PaceConfig { per_address, ..rate(1.0, 1) };
        let pace = Pace::new(&config, clock.clone());
        let seen = Seen::default();
        for name in ["a", "b", "c"] {
            let (pace, clock, seen) = (pace.clone(), clock.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let (to, of) = (origin(name), client(name));
                loop {
                    let turn = take(&pace, ask(&to), &of, Some(address)).await;
                    assert!(turn.is_ok());
                    seen.lock().push((clock.now(), name.to_owned()));
                }
            });
        }
        pass(&clock, secs(10)).await;
        let all = moments(&seen);
        assert!((least..=most).contains(&all.len()), "{per_address}: {}", all.len());
        let mut each: HashMap<String, Vec<Moment>> = HashMap::new();
        for (at, of) in seen.lock().iter() {
            each.entry(of.clone()).or_default().push(*at);
        }
        for (of, seen) in &each {
            is_spaced(seen, secs(1), 1, of);
            assert!(seen.len() >= least / 3, "{of}: {}", seen.len());
        }
        if per_address {
            is_spaced(&all, secs(1), 1, "the address");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_held_for_an_address_goes_on_when_addresses_are_not_limited() {
    let address: IpAddr = [192, 0, 2, 1].into();
    let before = PaceConfig { per_address: true, ..rate(0.2, 1) };
    let quiet = PaceConfig { per_address: true, ..config() };
    for (name, after) in [("not per address", rate(0.2, 1)), ("no bound", quiet)] {
        let clock = Clock::manual(START);
        let pace = Pace::new(&before, clock.clone());
        let (a, of) = (origin("a"), client("a"));
        let turn = || take(&pace, ask(&a), &of, Some(address));
        drop(turn().await.expect("a turn"));
        let mut held = pin!(turn());
        assert!(once(&mut held).await.is_pending(), "{name}");
        pace.reconfigure(&after);
        pass(&clock, ms(5_010)).await;
        assert!(matches!(once(&mut held).await, Poll::Ready(Ok(_))), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn fetches_of_robots_txt_keep_the_pace_of_their_address() {
    let address: IpAddr = [192, 0, 2, 1].into();
    for (name, per_address, fetched) in [("per address", true, 3), ("per origin", false, 8)] {
        let clock = Clock::manual(START);
        let config =
            PaceConfig { per_address, concurrency: Some(1), max_hold: secs(2), ..rate(1.0, 1) };
        let pace = Pace::new(&config, clock.clone());
        let (page, of) = (origin("page"), client("a"));
        let page = take(&pace, ask(&page), &of, Some(address));
        // In flight all the time: a request that has a turn may be waiting for a robots.txt.
        let (_page, _) = page.await.expect("a turn");
        let seen = Seen::default();
        for n in 0..8 {
            let (pace, clock, seen) = (pace.clone(), clock.clone(), Arc::clone(&seen));
            tokio::spawn(async move {
                let to = origin(&format!("o{n}"));
                let _turn = pace.turn_for_robots(&to, Some(address)).await;
                seen.lock().push((clock.now(), String::new()));
            });
        }
        pass(&clock, ms(3_020)).await;
        assert_eq!(seen.lock().len(), fetched, "{name}");
        if per_address {
            is_spaced(&moments(&seen), secs(1), 1, name);
        }
    }
}
