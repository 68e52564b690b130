//! Changes during a session over FTP.

use crate::support::ftp::{Act, FtpServer};
use crate::support::{CrawlgateProcess, Latch, RULES};

#[test]
fn what_is_forbidden_before_its_transfer_is_not_transferred() {
    let cases = [
        // Only the login has happened, as far as the server can tell.
        ("/", 403, "operator_deny"),
        // The server knows the name.
        ("/later", 502, "robots_allow"),
        ("/pub/", 502, "robots_allow"),
    ];
    for (path, status, reason) in cases {
        let mut gate = CrawlgateProcess::start();
        let server = FtpServer::with_rules(RULES)
            .file("open", "x")
            .file("later", "y")
            .file("pub/z", "z");
        gate.get(&server.url("/open")).is_origins(200, "x");
        let latch = Latch::new();
        let server = server.on("EPSV", Act::Wait(latch.clone()));
        let mut wire = gate.connect();
        let url = server.url(path);
        wire.ask(&url);
        latch.arrivals(1);
        let origin = server.url("");
        let deny = format!(
            "[[override]]\norigin = \"{origin}\"\naction = \"deny\"\nby = \"us\"\nreason = \"no\"\n"
        );
        gate.reload(|setup| setup.tables(&deny));
        latch.open();
        let answer = wire.response("GET");
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        has!(gate.record_of(&url), {"reason": reason, "status": status}, "{path}");
        let transfers = ["RETR later", "MLSD", "LIST"];
        let seen = server.seen();
        assert!(
            !seen.iter().any(|line| transfers.contains(&line.as_str())),
            "{path}: {seen:?}"
        );
    }
}
