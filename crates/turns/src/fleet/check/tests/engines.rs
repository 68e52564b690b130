//! Engines as their own words tell them: `INFO` of real servers.

use super::*;

/// `INFO` of real engines: by themselves, and as a node of a cluster.
#[rustfmt::skip] // one row, one case
const ENGINES: [(&str, &str, &str); 4] = [
    ("Redis 7.0.15", include_str!("../info/redis-7.0.15.txt"), include_str!("../info/redis-7.0.15-cluster.txt")),
    ("Redis 8.0.2", include_str!("../info/redis-8.0.2.txt"), include_str!("../info/redis-8.0.2-cluster.txt")),
    ("Valkey 8.1.1", include_str!("../info/valkey-8.1.1.txt"), include_str!("../info/valkey-8.1.1-cluster.txt")),
    ("Valkey 9.1.2", include_str!("../info/valkey-9.1.2.txt"), include_str!("../info/valkey-9.1.2-cluster.txt")),
];

#[test]
fn each_engine_is_known_by_its_own_words_and_no_cluster_passes() {
    for (name, alone, cluster) in ENGINES {
        let version = |text: &str| {
            let mut survey = in_order();
            engine_of(&mut survey).info = Ok(crate::fleet::survey::fields_of_info(text));
            let all = judge(&survey, &config());
            let version = all.into_iter().filter(|one| one.check == "version");
            version.map(|one| (one.level, one.says)).collect::<Vec<_>>()
        };
        let known = (Level::Ok, name.to_owned());
        assert_eq!(version(alone), std::slice::from_ref(&known), "{name}");
        let refused = (Level::Failure, "it runs in cluster mode".to_owned());
        assert_eq!(version(cluster), [known, refused], "{name}");
    }
}
