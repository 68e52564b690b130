//! FTP servers that sites use, and the clients that crawlers are made of.
//!
//! A server that is not installed is named on stderr and its test passes; with `CRAWLGATE_REQUIRE_CLIENTS=1` it fails.
//! `.ci/clients` unpacks them into the folder that `CRAWLGATE_FTP` names.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::ftp::FtpServer;
use crate::support::peer::Peer;
use crate::support::{CrawlgateProcess, RULES, Setup, eventually};

/// Finds a server: its program, and a command that runs it with the libraries beside it.
fn server(name: &str) -> Option<(PathBuf, Option<PathBuf>)> {
    let folder = std::env::var_os("CRAWLGATE_FTP").map(PathBuf::from);
    let unpacked = folder.as_ref().map(|folder| folder.join("usr/sbin").join(name));
    let installed = Path::new("/usr/sbin").join(name);
    let mut candidates = unpacked.into_iter().chain([installed]);
    let found = candidates.find(|program| program.exists());
    if found.is_none() {
        let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "{name} is missing: run .ci/clients");
        eprintln!("skipped: {name} is missing");
    }
    found.map(|program| (program, folder))
}

/// Makes the site that a server serves, below `dir`.
fn site(dir: &Path) -> PathBuf {
    let root = dir.join("site");
    for folder in ["pub/deep", "private"] {
        fs::create_dir_all(root.join(folder)).unwrap();
    }
    for (name, octets) in [
        ("robots.txt", RULES),
        ("pub/a b.txt", "0123456789"),
        ("pub/deep/x.html", "<p>x"),
        ("private/x", "secret"),
    ] {
        fs::write(root.join(name), octets).unwrap();
    }
    // A server that serves anonymous users refuses a root that they may write to.
    fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
    root
}

/// Runs a program with the libraries of the folder that it was unpacked into.
fn script(program: &Path, folder: Option<&Path>, before: &str, arguments: &str) -> String {
    let libraries = folder.map_or(String::new(), |folder| {
        let folder = folder.display();
        format!("export LD_LIBRARY_PATH=$(printf %s: {folder}/usr/lib/*-linux-gnu {folder}/lib/*-linux-gnu)\n")
    });
    format!("{libraries}{before}\nexec {} {arguments}\n", program.display())
}

fn vsftpd() -> Option<Peer> {
    let (program, folder) = server("vsftpd")?;
    let peer = Peer::start("sh", &[], |port, dir| {
        let (root, log) = (site(dir), dir.join("commands"));
        let user =
            String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        let settings = [
            "listen=YES",
            "listen_address=127.0.0.1",
            &format!("listen_port={port}"),
            "background=NO",
            "anonymous_enable=YES",
            "local_enable=NO",
            &format!("anon_root={}", root.display()),
            // An ordinary process: no root, no other user.
            "run_as_launching_user=YES",
            &format!("ftp_username={}", user.trim()),
            "seccomp_sandbox=NO",
            &format!("secure_chroot_dir={}", dir.display()),
            "connect_from_port_20=NO",
            "xferlog_enable=YES",
            "log_ftp_protocol=YES",
            &format!("vsftpd_log_file={}", log.display()),
        ];
        let file = dir.join("vsftpd.conf");
        fs::write(&file, settings.join("\n") + "\n").unwrap();
        // It takes settings only from root's files or its own user's.
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        script(&program, folder.as_deref(), "", &file.display().to_string())
    });
    Some(peer)
}

fn pure_ftpd() -> Option<Peer> {
    let (program, folder) = server("pure-ftpd")?;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: pure-ftpd enters the directory of anonymous users as root only");
        return None;
    }
    let peer = Peer::start("sh", &[], |port, dir| {
        let root = site(dir);
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        // It serves the home of the user "ftp", which another library makes up.
        let users =
            format!("root:x:0:0::/:/bin/sh\nftp:x:65534:65534::{}:/bin/false\n", root.display());
        fs::write(dir.join("passwd"), users).unwrap();
        fs::write(dir.join("group"), "root:x:0:\nftp:x:65534:\n").unwrap();
        let dir = dir.display();
        let before = format!(
            "export LD_PRELOAD=libnss_wrapper.so NSS_WRAPPER_PASSWD={dir}/passwd NSS_WRAPPER_GROUP={dir}/group"
        );
        let arguments = format!("-e -H -S 127.0.0.1,{port} -g {dir}/pid -O clf:{dir}/commands");
        script(&program, folder.as_deref(), &before, &arguments)
    });
    Some(peer)
}

fn proftpd() -> Option<Peer> {
    let (program, folder) = server("proftpd")?;
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: proftpd changes its user, as root only");
        return None;
    }
    let peer = Peer::start("sh", &[], |port, dir| {
        let root = site(dir);
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
        let (dir, root) = (dir.display(), root.display());
        let files = [
            ("passwd", format!("ftp:x:65534:65534::{root}:/bin/false\n")),
            ("group", "root:x:0:\nftp:x:65534:\n".to_owned()),
            (
                "proftpd.conf",
                format!(
                    "ServerType standalone\nServerName test\nPort {port}\nDefaultAddress 127.0.0.1\n\
                     SocketBindTight on\nUseIPv6 off\nUser root\nGroup root\nDelayEngine off\nWtmpLog off\n\
                     TransferLog none\nSystemLog {dir}/log\nPidFile {dir}/pid\nScoreboardFile {dir}/scoreboard\n\
                     AuthUserFile {dir}/passwd\nAuthGroupFile {dir}/group\nAuthOrder mod_auth_file.c\n\
                     LogFormat commands \"%r\"\nExtendedLog {dir}/commands ALL commands\n\
                     <Anonymous {root}>\nUser ftp\nGroup ftp\nUserAlias anonymous ftp\nRequireValidShell off\n\
                     </Anonymous>\n"
                ),
            ),
        ];
        for (name, text) in files {
            let file = Path::new(&dir.to_string()).join(name);
            fs::write(&file, text).unwrap();
            // It takes no file that others may read.
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        }
        let arguments = format!("-n -c {dir}/proftpd.conf");
        script(&program, folder.as_deref(), "", &arguments)
    });
    Some(peer)
}

/// Asks a server for everything that a crawler asks for.
fn crawl(peer: &Peer) {
    let gate = CrawlgateProcess::start();
    let url = |path: &str| format!("ftp://site.test:{}{path}", peer.port());
    let whole = gate.get(&url("/pub/a%20b.txt"));
    whole.is_origins(200, "0123456789");
    whole.field_is("content-length", Some("10"));
    assert!(whole.field("last-modified").is_some(), "{whole:?}");
    let part = gate.request("GET", &url("/pub/a%20b.txt;type=i"), "Range: bytes=2-5\r\n");
    part.is_origins(206, "2345");
    let head = gate.request("HEAD", &url("/pub/a%20b.txt"), "");
    assert_eq!((head.status, head.field("content-length").as_deref()), (200, Some("10")));
    let page = gate.get(&url("/pub/")).is(200);
    for link in ["<a href=\"a%20b.txt\">a b.txt</a>", "<a href=\"deep/\">deep/</a>"] {
        assert!(page.text().contains(link), "{}", page.text());
    }
    assert!(gate.get(&url("/")).text().contains("<a href=\"pub/\">"));
    let moved = gate.get(&url("/pub/deep"));
    assert_eq!((moved.status, moved.field("location")), (301, Some(url("/pub/deep/"))));
    assert_eq!(gate.get(&url("/pub/none")).status, 404);
    assert_eq!(gate.get(&url("/none/")).status, 404);
    for path in ["/private/x", "/private/", "/private/x;type=a"] {
        gate.denies(&url(path));
    }
    let all = "/pub/../private/x //private/x /pub%2F..%2Fprivate/x /%0aRETR%20private/x \
        /priv%61te/x;type=a";
    for path in all.split(' ') {
        gate.refuses(&url(path), 400, "bad_request");
    }
    // A server may write its log a moment after its answer.
    let seen = eventually("the commands", || {
        let seen = fs::read_to_string(peer.dir().join("commands")).ok()?;
        let names = ["a b.txt", "a%20b.txt", "a_b.txt"];
        let has_page = names.iter().any(|name| seen.contains(name));
        has_page.then_some(seen)
    });
    assert!(!seen.contains("private"), "{seen}");
}

#[test]
fn vsftpd_is_crawled_as_its_robots_txt_allows() {
    if let Some(peer) = vsftpd() {
        crawl(&peer);
    }
}

#[test]
fn pure_ftpd_is_crawled_as_its_robots_txt_allows() {
    if let Some(peer) = pure_ftpd() {
        crawl(&peer);
    }
}

#[test]
fn proftpd_is_crawled_as_its_robots_txt_allows() {
    if let Some(peer) = proftpd() {
        crawl(&peer);
    }
}

/// Runs a client behind `crawlgate run`, and returns its exit code and its output.
fn run(setup: &Setup, command: &[&str]) -> (Option<i32>, String) {
    let mut run = setup.command("run");
    let output = run.arg("--").args(command).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code(), said)
}

/// Returns a server with a site, at an address that clients reach without a name server.
fn scripted() -> (FtpServer, impl Fn(&str) -> String) {
    let server = FtpServer::with_rules(RULES)
        .file("pub/a b.txt", "0123456789")
        .file("pub/deep/x.html", "<p>x")
        .file("pub/private.txt", "open")
        .file("private/x", "secret");
    let port = server.port();
    (server, move |path: &str| format!("ftp://127.0.0.1:{port}{path}"))
}

#[test]
fn curl_reads_ftp_through_the_gate() {
    let (server, url) = scripted();
    let setup = Setup::new();
    let get = |more: &[&str], path: &str| {
        let url = url(path);
        let words = [&["curl", "-sS", "-w", " %{http_code}"], more, &[&*url]].concat();
        run(&setup, &words)
    };
    assert_eq!(get(&[], "/pub/a%20b.txt"), (Some(0), "0123456789 200".to_owned()));
    assert_eq!(get(&["-r", "2-5"], "/pub/a%20b.txt"), (Some(0), "2345 206".to_owned()));
    assert_eq!(get(&[], "/pub/a%20b.txt;type=a"), (Some(0), "0123456789 200".to_owned()));
    assert!(server.seen().contains(&"TYPE A".to_owned()), "lines are asked for");
    let (_, head) = get(&["-I"], "/pub/a%20b.txt");
    assert!(head.to_lowercase().contains("content-length: 10"), "{head}");
    let (_, page) = get(&[], "/pub/");
    assert!(page.contains("<a href=\"deep/\">") && page.ends_with(" 200"), "{page}");
    let (_, denied) = get(&[], "/private/x");
    assert!(denied.contains("Disallow: /private") && denied.ends_with(" 403"), "{denied}");
    let (_, written) = get(&["-X", "PUT", "-d", "x"], "/pub/new");
    assert!(written.ends_with(" 405"), "{written}");
    let (_, named) = get(&["-u", "user:secret"], "/pub/a%20b.txt");
    assert!(!named.starts_with("0123"), "{named}");
    assert!(server.seen().iter().all(|line| !line.contains("private")), "{:?}", server.seen());
}

#[test]
fn wget_follows_the_links_of_a_directory() {
    let (server, url) = scripted();
    let setup = Setup::new();
    let to = setup.dir().join("got");
    let start = url("/");
    let words = ["wget", "-q", "-r", "-l", "3", "-nH", "-P", to.to_str().unwrap(), &start];
    run(&setup, &words);
    let read = |name: &str| fs::read_to_string(to.join(name)).ok();
    assert_eq!(read("pub/a b.txt").as_deref(), Some("0123456789"));
    assert_eq!(read("pub/deep/x.html").as_deref(), Some("<p>x"));
    assert_eq!(read("pub/private.txt").as_deref(), Some("open"));
    assert_eq!(read("private/x"), None);
    let named = |line: &String| line.ends_with(" private") || line.contains(" private/");
    assert!(!server.seen().iter().any(named), "{:?}", server.seen());
}
