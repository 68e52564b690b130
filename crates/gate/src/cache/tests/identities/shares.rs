//! The states of an origin, divided among clients.

use super::*;

#[tokio::test]
async fn a_client_with_many_names_takes_no_state_from_one_with_fewer() {
    let site = Site::new(|user_agent| match user_agent == OWN {
        true => file(1),
        false => file(2),
    });
    let seen = async |client: Option<&str>, name: &str| {
        let client = Client { name: client.map(Into::into), ..Client::default() };
        let agent = crawlgate_policy::agent::Agent {
            tokens: vec![token(name)],
            ..crawlgate_policy::agent::Agent::default()
        };
        site.clock.advance(Duration::from_secs(1));
        let view = site.cache.view(&origin("a"), client.crawler(&agent)).await;
        file_of(&view.stance)
    };
    let flood = async |client: Option<&str>| {
        for number in 0..20 {
            seen(client, &format!("Random{number}Bot")).await;
        }
    };
    flood(None).await;
    for client in ["news", "shop", "rest"] {
        assert_eq!(seen(Some(client), "GoodBot").await, Some(2), "{client}");
        flood(None).await;
        flood(Some("news")).await;
    }
    let fetched = site.sent().len();
    // Three clients have two or three states each, and so do requests without a client: none takes a state from another.
    for _ in 0..3 {
        for client in ["shop", "rest"] {
            assert_eq!(seen(Some(client), "GoodBot").await, Some(2), "{client}");
        }
        flood(None).await;
        flood(Some("news")).await;
        flood(Some("shop")).await;
    }
    assert!(site.sent().len() <= fetched + 2, "{:?}", site.sent());
    assert_eq!(site.cache.states(), OWN_STATES + 1);
}
