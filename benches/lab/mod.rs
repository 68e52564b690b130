//! Tools to measure a running crawlgate: processes of our own with their costs, an origin, a crawler.
//!
//! The parts run as processes, so that each one's CPU time can be told from the others': a benchmark starts its own
//! executable again with `--role=…`. Everything stays on the loopback interface and in a temporary directory.

pub mod crawler;
pub mod origin;
pub mod process;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use tempfile::TempDir;

use self::process::Process;

/// Returns the role that this process was started for, if it is a part.
pub fn role() -> Option<String> {
    std::env::args().find_map(|word| word.strip_prefix("--role=").map(str::to_owned))
}

/// Returns the argument at a place.
pub fn word(place: usize) -> String {
    std::env::args().nth(place).unwrap()
}

/// Returns the median.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Tells whether `cargo bench` runs this. `cargo test --benches` does not ask for measurements.
pub fn is_asked_to_measure() -> bool {
    std::env::args().any(|word| word == "--bench")
}

/// Returns a number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")),
        Err(_) => default,
    }
}

/// A directory with an origin's certificate, and the origin that uses it.
pub struct Lab {
    directory: TempDir,
    /// The origin's process.
    pub origin: Process,
    /// The ports of the origin.
    pub ports: origin::Ports,
}

impl Lab {
    /// Starts an origin on these CPUs, with a certificate for 127.0.0.1, localhost and `*.bench.test`.
    pub fn new(cpus: Option<&str>) -> Lab {
        let directory = tempfile::tempdir().unwrap();
        make_certificates(directory.path());
        let words = ["--role=origin".to_owned(), directory.path().display().to_string()];
        let mut origin = Process::part(&words, cpus);
        let ports = origin::Ports::read(&origin.line());
        Lab { directory, origin, ports }
    }

    /// Returns the place of the files of this lab.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the place of a file of this lab.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Starts crawlgate on these CPUs, with these names for 127.0.0.1 and these settings beside the lab's.
    pub fn crawlgate(
        &self,
        cpus: Option<&str>,
        names: &[String],
        upstream: &str,
    ) -> (Process, u16) {
        self.crawlgate_that_records(cpus, "denied", names, upstream)
    }

    /// Starts crawlgate with a choice of recorded decisions; two that record the same share a store.
    pub fn crawlgate_that_records(
        &self,
        cpus: Option<&str>,
        decisions: &str,
        names: &[String],
        upstream: &str,
    ) -> (Process, u16) {
        let tables = format!("[upstream]\n{upstream}\n");
        self.crawlgate_with(cpus, decisions, decisions, names, &tables)
    }

    /// Starts crawlgate without a store and a log: it judges, and records nothing.
    pub fn crawlgate_that_keeps_nothing(&self, cpus: Option<&str>) -> (Process, u16) {
        self.crawlgate_with(cpus, "nothing", "", &[], "")
    }

    /// Starts another build of crawlgate with the same settings and a separate store.
    pub fn crawlgate_of_build(&self, program: &str, cpus: Option<&str>) -> (Process, u16) {
        self.start(program, cpus, "of-build", "denied", &[], "")
    }

    /// Starts crawlgate with separate files under `name`, and with more tables. Without `decisions`, it records
    /// nothing.
    pub fn crawlgate_with(
        &self,
        cpus: Option<&str>,
        name: &str,
        decisions: &str,
        names: &[String],
        tables: &str,
    ) -> (Process, u16) {
        let program = env!("CARGO_BIN_EXE_crawlgate");
        self.start(program, cpus, name, decisions, names, tables)
    }

    fn start(
        &self,
        program: &str,
        cpus: Option<&str>,
        name: &str,
        decisions: &str,
        names: &[String],
        tables: &str,
    ) -> (Process, u16) {
        let file = |name: &str| self.file(name).display().to_string();
        let (certificate, key) = (file("ca.crt"), file("ca.key"));
        // Beside the store if denials are read from it; never while recording is measured.
        let log = match decisions {
            "denied" => file(&format!("{name}.jsonl")),
            _ => String::new(),
        };
        let (decisions, store) = match decisions {
            "" => ("denied", String::new()),
            _ => (decisions, file(&format!("{name}.db"))),
        };
        let origins = file("origin-ca.pem");
        let mut config = format!(
            r#"
            listen.address = "127.0.0.1:0"
            admin.address = ""
            log = {{ decisions = {decisions:?}, file = {log:?}, rotate_bytes = "16GiB", level = "warn" }}
            store.path = {store:?}
            tls = {{ ca_cert = {certificate:?}, ca_key = {key:?}, extra_roots = [{origins:?}] }}
            egress = {{ allow = ["127.0.0.0/8", "::1"], connect_ports = ["1-65535"] }}
            {tables}
            [upstream.hosts]
            "#
        );
        for host in names {
            let _ = writeln!(config, "{host:?} = \"127.0.0.1\"");
        }
        let path = self.file(&format!("{name}.toml"));
        fs::write(&path, config).unwrap();
        let words = ["--config".to_owned(), path.display().to_string()];
        let create = [words.as_slice(), &["ca".to_owned(), "create".to_owned()]].concat();
        if !self.file("ca.crt").exists() {
            let created = Process::start(program, &create, None).wait();
            assert!(created.success(), "crawlgate ca create: {created}");
        }
        let mut process = Process::start(program, &words, cpus);
        let port = process.listening_port();
        (process, port)
    }
}

/// Makes the origin's CA and certificate: `origin-ca.pem`, `origin.crt`, `origin.key`.
fn make_certificates(directory: &Path) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    authority.distinguished_name.push(DnType::CommonName, "CA of a benchmark's origins");
    let key = KeyPair::generate().unwrap();
    let certificate = authority.self_signed(&key).unwrap();
    fs::write(directory.join("origin-ca.pem"), certificate.pem()).unwrap();
    let issuer = Issuer::new(authority, key);

    let names = ["127.0.0.1", "localhost", "*.bench.test"].map(str::to_owned);
    let mut leaf = CertificateParams::new(names).unwrap();
    leaf.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate().unwrap();
    let certificate = leaf.signed_by(&key, &issuer).unwrap();
    fs::write(directory.join("origin.crt"), certificate.pem()).unwrap();
    fs::write(directory.join("origin.key"), key.serialize_pem()).unwrap();
}
