//! A separate home directory, the site of the docs, and a running crawlgate.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rcgen::{CertificateParams, KeyPair};

use crate::support::{CrawlgateProcess, Origin, PATIENCE, Reply, Setup, program, within};

/// The site that the README serves with Python.
const ROBOTS: &str = "User-agent: *\nDisallow: /private/\nAllow: /private/open\n";

/// Returns whether the commands of the pages can run; says so if not, and fails where all clients are required.
pub(crate) fn can_run() -> bool {
    let mut curl = Command::new("curl");
    curl.arg("--version").stdout(Stdio::null());
    let found = curl.status().is_ok_and(|status| status.success());
    if !found {
        let required = std::env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
        assert!(!required, "curl is missing");
        eprintln!("skipped: curl is missing");
    }
    found
}

/// The home directory, the site and the service that the commands of one page use.
pub(crate) struct Sandbox {
    directory: tempfile::TempDir,
    origin: Origin,
    /// The service that the pages speak of.
    service: CrawlgateProcess,
    /// The address of its console.
    console: String,
}

impl Sandbox {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path();
        for name in ["bin", "work", "home/.config/crawlgate"] {
            fs::create_dir_all(at.join(name)).unwrap();
        }
        symlink(program(), at.join("bin/crawlgate")).unwrap();
        fs::write(
            at.join("home/.config/crawlgate/config.toml"),
            "[listen]\naddress = \"127.0.0.1:0\"\n[admin]\naddress = \"127.0.0.1:0\"\n\
             [upstream.hosts]\n\"site.example\" = \"127.0.0.1\"\n",
        )
        .unwrap();
        let origin = Origin::with_rules(ROBOTS).on("/", [Reply::ok("a page\n")]);
        let service =
            CrawlgateProcess::spawn(Setup::new(), command(at.to_owned(), "exec crawlgate serve"));
        let said = service.said();
        let console = said.split("console: http://").nth(1).and_then(|rest| rest.split('/').next());
        let console = console.unwrap_or_else(|| panic!("no console: {said}")).to_owned();
        Self { directory, origin, service, console }
    }

    /// Writes a file into the working directory.
    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.directory.path().join("work").join(name), text).unwrap();
    }

    /// Writes a certificate and its key, which only its owner may read.
    pub(crate) fn write_certificate(&self, cert: &str, key: &str) {
        let names = ["crawlgate.intranet.example".to_owned()];
        let pair = KeyPair::generate().unwrap();
        let params = CertificateParams::new(names).unwrap();
        self.write(cert, &params.self_signed(&pair).unwrap().pem());
        self.write(key, &pair.serialize_pem());
        let key = self.directory.path().join("work").join(key);
        fs::set_permissions(key, fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Runs a command line of a page by the shell. Returns its exit code and its output and errors as they came, with the names
    /// that the pages use for addresses and directories.
    #[track_caller]
    pub(crate) fn run(&self, line: &str) -> (Option<i32>, String) {
        let mut command = command(self.directory.path().to_owned(), &self.real(line));
        let printed = self.directory.path().join("printed");
        let file = fs::File::create(&printed).unwrap();
        command.stdout(Stdio::from(file.try_clone().unwrap())).stderr(Stdio::from(file));
        let mut child = command.spawn().unwrap();
        let status = within(4 * PATIENCE, line, || child.try_wait().unwrap());
        let text = String::from_utf8_lossy(&fs::read(&printed).unwrap()).into_owned();
        let home = self.directory.path().join("home");
        let text = text
            .replace(home.to_str().unwrap(), "/home/you")
            .replace(&format!("127.0.0.1:{}", self.origin.port()), "127.0.0.1:8000");
        (status.code(), text)
    }

    /// Puts real addresses, ids and files in the place of those that a page names.
    fn real(&self, line: &str) -> String {
        let site = format!("127.0.0.1:{}", self.origin.port());
        let mut real = line
            .replace("127.0.0.1:8000", &site)
            .replace("127.0.0.1:8118", &self.service.address.to_string())
            .replace("127.0.0.1:8119", &self.console);
        let is_word = |word: &str| line.split([' ', '"', ')']).any(|other| other == word);
        let documented = line.split(' ').find(|word| word.len() == 26 && word.starts_with("01"));
        for id in documented.into_iter().chain(is_word("ID").then_some("ID")) {
            real = real.replace(id, &self.denial());
        }
        for (placeholder, value) in [
            ("ORIGIN", format!("http://{site}")),
            ("URL", format!("http://{site}/")),
            ("FILE", self.list(&site)),
            ("TEXT", "reviewed".to_owned()),
        ] {
            if is_word(placeholder) {
                real = real.replace(placeholder, &value);
            }
        }
        real
    }

    /// Writes a file for `FILE`: a list of one URL. As a robots.txt it has no rules.
    fn list(&self, site: &str) -> String {
        self.write("list", &format!("http://{site}/\n"));
        "list".to_owned()
    }

    /// Returns the id of the last denial by robots.txt; without one, denies a request.
    #[track_caller]
    fn denial(&self) -> String {
        let (code, records) = self.run("crawlgate log --json --reason robots_disallow");
        assert_eq!(code, Some(0), "{records}");
        if records.is_empty() {
            let url = "http://127.0.0.1:8000/private/diary.html";
            self.run(&format!("crawlgate run -q --allow 127.0.0.0/8 -- curl -sS {url}"));
            return self.denial();
        }
        let record = records.lines().last().unwrap();
        let record: serde_json::Value = serde_json::from_str(record).expect(record);
        record["id"].as_str().unwrap().to_owned()
    }

    /// Opens the store for reading, as another program would.
    pub(crate) fn store(&self) -> rusqlite::Connection {
        let file = self.directory.path().join("home/.local/state/crawlgate/crawlgate.db");
        rusqlite::Connection::open_with_flags(file, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)
            .unwrap()
    }
}

/// Returns a shell command in the sandbox. Of this environment it has the path of programs only.
fn command(directory: PathBuf, line: &str) -> Command {
    let path = std::env::var("PATH").unwrap();
    let mut command = Command::new("bash");
    command
        .args(["-c", line])
        .env_clear()
        .env("PATH", format!("{}:{path}", directory.join("bin").display()))
        .env("HOME", directory.join("home"))
        .env("USER", "you")
        .env("LC_ALL", "C.UTF-8")
        .current_dir(directory.join("work"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}
