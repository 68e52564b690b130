//! Logs of several gates, exported and collected in one directory.

use std::fs;
use std::path::{Path, PathBuf};

use super::{CrawlgateProcess, Origin, Setup, eventually};

/// A directory of exports and a collection, with the configuration of a collector that runs no gate.
pub(crate) struct Collector {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) setup: Setup,
}

impl Collector {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut setup = Setup::new();
        let collection = folder.path().join("collection");
        setup.set("audit", "collection", &format!("{collection:?}"));
        Self { folder, setup }
    }

    pub(crate) fn export_of(&self, gate: &CrawlgateProcess, name: &str) -> PathBuf {
        let to = self.folder.path().join(name);
        let words = ["export", "--to", to.to_str().unwrap()];
        let (code, _, error) = gate.beside("audit", &words);
        assert_eq!(code, Some(0), "{error}");
        to
    }

    /// Exports the logs of these gates, each to a separate folder, and collects them.
    #[track_caller]
    pub(crate) fn collect_of(&self, gates: &[CrawlgateProcess]) {
        let numbered = gates.iter().zip(0..);
        let from: Vec<PathBuf> = numbered
            .map(|(gate, number)| self.export_of(gate, &format!("export-{number}")))
            .collect();
        let from: Vec<_> = from.iter().map(PathBuf::as_path).collect();
        self.collect(&from, &["--trust-new"], 0);
    }

    #[track_caller]
    pub(crate) fn collect(&self, from: &[&Path], words: &[&str], code: i32) -> String {
        let mut all = vec!["--from"];
        all.extend(from.iter().map(|path| path.to_str().unwrap()));
        all.extend(words);
        let (found, said, error) = self.setup.run("collect", &all);
        assert_eq!(found, Some(code), "{said}{error}");
        said + &error
    }

    /// Returns the directory of the collection.
    pub(crate) fn place(&self) -> PathBuf {
        self.folder.path().join("collection")
    }

    /// Returns the copy of the log `logs.example/NAME`.
    pub(crate) fn copy_of(&self, name: &str) -> PathBuf {
        self.place().join(format!("logs.example%2F{name}.db"))
    }

    /// Returns the files of the collection with their content, the lock left out.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let Ok(folder) = fs::read_dir(self.folder.path().join("collection")) else {
            return Vec::new();
        };
        let mut files: Vec<_> = folder
            .map(|file| file.unwrap())
            .map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap()))
            .filter(|(name, _)| name != "collect.lock")
            .collect();
        files.sort();
        files
    }
}

/// Makes a denial that a checkpoint covers, and returns its identifier.
pub(crate) fn denied(gate: &CrawlgateProcess, origin: &Origin, path: &str) -> String {
    deny(gate, origin, &[path]);
    let record = gate.record_of(&origin.url(path));
    record["id"].as_str().unwrap().to_owned()
}

/// Makes denials, and waits until a checkpoint covers them.
pub(crate) fn deny(gate: &CrawlgateProcess, origin: &Origin, paths: &[&str]) {
    for path in paths {
        let record = gate.denies(&origin.url(path));
        let id = record["id"].as_str().unwrap();
        gate.beside_until("log", &["show", id], |told| told.contains(id));
        eventually("a checkpoint over it", || {
            let (code, said, _) = gate.beside("audit", &["verify", id, "--json"]);
            let said: serde_json::Value = serde_json::from_str(&said).ok()?;
            (code == Some(0) && said["signed"].is_u64()).then_some(())
        });
    }
}

/// Starts a gate with the log `logs.example/NAME`, which is signed every second.
pub(crate) fn named(name: &str) -> CrawlgateProcess {
    let name = format!("\"logs.example/{name}\"");
    CrawlgateProcess::with(|setup: &mut Setup| {
        setup.set("audit", "checkpoint_every", "\"1s\"");
        setup.set("audit", "log_name", &name);
    })
}
