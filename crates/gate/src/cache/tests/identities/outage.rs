//! Outages in which some identities have a copy.

use super::*;

#[tokio::test]
async fn a_long_outage_opens_no_origin_to_a_name_when_the_rules_for_others_are_known() {
    let site = Site::new(|user_agent| match user_agent {
        OWN => file(1),
        _ => down(),
    });
    assert_eq!(stance_of(&site.view("early").await.stance), "disallow");
    assert_eq!(stance_of(&site.view("").await.stance), "rules");
    assert_eq!(stance_of(&site.view("late").await.stance), "disallow");
    for _ in 0..40 {
        site.clock.advance(DAY);
        for name in ["early", "", "late"] {
            site.view(name).await;
        }
    }
    for name in ["early", "late"] {
        let view = site.view(name).await;
        assert_eq!(stance_of(&view.stance), "rules", "{name}");
        let fetched_as = view.fetched_as.expect("it was fetched");
        assert_eq!(
            (&*fetched_as.name, &*fetched_as.user_agent),
            (name, OWN),
            "the file is that which others are given"
        );
    }
}
