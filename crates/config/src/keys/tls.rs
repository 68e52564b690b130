//! `[tls]`.

use std::path::Path;

use super::super::{
    HostPattern, Subtree, TlsConfig, days,
    read::Section,
    secs,
    values::{duration, integer, list, one_or_list, path, text},
};

pub(super) fn tls(mut section: Section<'_, '_>, base: &Path, to: &mut TlsConfig) {
    section.set("ca_cert", &mut to.ca_cert, path(base));
    section.set("ca_key", &mut to.ca_key, path(base));
    // A certificate without a key would pair the file's choice with the default path of another CA, and vice versa.
    section.require(
        section.names("ca_cert") == section.names("ca_key"),
        &["ca_cert", "ca_key"],
        || "ca_cert and ca_key belong together: set both or neither".to_owned(),
    );
    let lifetime = secs(60)..=days(397);
    section.set("leaf_lifetime", &mut to.leaf_lifetime, duration(lifetime));
    section.set("leaf_cache", &mut to.leaf_cache, integer(1..=10_000_000));
    section.set("tunnel", &mut to.tunnel, list(text(HostPattern::new)));
    section.set("extra_roots", &mut to.extra_roots, one_or_list(path(base)));
    let constraints = list(text(Subtree::new));
    section.set("name_constraints", &mut to.name_constraints, constraints);
    section.finish();
}
