//! The steps of a rotation: each moves files, and says what is due next.
//!
//! The names of the files tell the step, so a rotation that was cut off continues where it stood. The private key is
//! never missing: the next one takes its place in one step.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crate::Failure;
use crate::credentials::quoted;
use crawlgate_config::format_moment;
use crawlgate_signing::directory::FRESH;
use crawlgate_signing::{Settings, SigningKey};
use crawlgate_system::atomic_file::sync_folder;
use crawlgate_system::clock::Moment;

/// The files of one identity.
struct Files<'s> {
    settings: &'s Settings,
    next: PathBuf,
    last: PathBuf,
}

/// Takes the next step. Unless it `is_urgent`, a step waits until verifiers know of the one before.
///
/// # Errors
/// When it is not due yet, a file is not published, or a file cannot be moved.
pub(super) fn step(settings: &Settings, is_urgent: bool, now: Moment) -> Result<String, Failure> {
    let beside = |end: &str| {
        let mut path = OsString::from(settings.key.as_os_str());
        path.push(end);
        PathBuf::from(path)
    };
    let files = Files { settings, next: beside(".next"), last: beside(".last") };
    let due = |since: &Path, step: &str| {
        let since = modified(since).map_err(|error| failed(since, &error))?;
        let due = since + FRESH;
        if !is_urgent && now < due {
            bail!(
                "{step} is due on {}: until then verifiers may keep a directory of before (--now takes the step anyway)",
                format_moment(due)
            );
        }
        Ok::<(), Failure>(())
    };
    match (files.next.exists(), files.last.exists()) {
        (false, false) => files.begin(now),
        (true, false) => {
            due(&files.next, "signing with the next key")?;
            files.swap(now)
        }
        // The step before was cut off between its two halves.
        (true, true) if files.is_half_done() => files.swap(now),
        (_, true) => {
            due(&files.last, "removing the last key")?;
            files.end()
        }
    }
}

impl Files<'_> {
    fn begin(&self, now: Moment) -> Result<String, Failure> {
        SigningKey::load(&self.settings.key).map_err(|fault| failed(&self.settings.key, &fault))?;
        let key = SigningKey::create(&self.next).map_err(|fault| failed(&self.next, &fault))?;
        let mut said =
            format!("{}: the next key, thumbprint {}\n", self.next.display(), key.thumbprint());
        if !self.publishes(&self.next) || !self.publishes(&self.last) {
            said += &format!(
                "\nAdd both files to its [[signing]], once and for all; those that are not there are left out:\n\n\
                 publish = [{}, {}]\n",
                quoted(&self.next.display().to_string()),
                quoted(&self.last.display().to_string())
            );
        }
        Ok(said + &self.closing("signing with it", now + FRESH))
    }

    fn swap(&self, now: Moment) -> Result<String, Failure> {
        for path in [&self.next, &self.last] {
            if !self.publishes(path) {
                bail!(
                    "[[signing]] name = {:?}: publish does not list {}, so verifiers would not know the key; add it, reload, and \
                     wait a day",
                    self.settings.name,
                    path.display()
                );
            }
        }
        let key = &self.settings.key;
        let next = SigningKey::load(&self.next).map_err(|fault| failed(&self.next, &fault))?;
        if !self.last.exists() {
            fs::hard_link(key, &self.last).map_err(|error| failed(&self.last, &error))?;
        }
        let moved = fs::rename(&self.next, key).and_then(|()| {
            File::options().write(true).open(&self.last)?.set_modified(now.into())?;
            sync_folder(key)
        });
        moved.map_err(|error| failed(key, &error))?;
        let said = format!(
            "{}: the key that signs, thumbprint {}\n{}: the last key, still in the directory\n",
            key.display(),
            next.thumbprint(),
            self.last.display()
        );
        Ok(said + &self.closing("removing the last key", now + FRESH))
    }

    fn end(&self) -> Result<String, Failure> {
        let removed = fs::remove_file(&self.last).and_then(|()| sync_folder(&self.last));
        removed.map_err(|error| failed(&self.last, &error))?;
        Ok(format!("{}: removed\n{}The rotation is complete.\n", self.last.display(), self.tasks()))
    }

    fn publishes(&self, path: &Path) -> bool {
        self.settings.publish.iter().any(|one| one == path)
    }

    fn is_half_done(&self) -> bool {
        let read = |path: &Path| fs::read(path).ok();
        read(&self.last).is_some() && read(&self.last) == read(&self.settings.key)
    }

    fn closing(&self, next: &str, due: Moment) -> String {
        format!(
            "{}The next step, {next}, is due on {}: `crawlgate signing rotate {}`\n",
            self.tasks(),
            format_moment(due),
            self.settings.name
        )
    }

    fn tasks(&self) -> String {
        format!(
            "\nSend SIGHUP to the running proxy. If another server has the directory, write it there again: \
             `crawlgate signing directory {}`\n",
            self.settings.name
        )
    }
}

fn modified(path: &Path) -> io::Result<Moment> {
    fs::metadata(path)?.modified().map(Moment::from)
}

fn failed(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crawlgate_signing::{AgentUrl, Cover, Form, Identities};

    /// A folder with the key of an identity.
    struct TestKeys {
        folder: tempfile::TempDir,
        settings: Settings,
        now: Moment,
    }

    impl TestKeys {
        fn new() -> TestKeys {
            let folder = tempfile::tempdir().unwrap();
            let key = folder.path().join("news.key");
            SigningKey::create(&key).unwrap();
            let now = modified(&key).unwrap();
            let publish = ["news.key.next", "news.key.last"].map(|name| folder.path().join(name));
            let settings = Settings {
                name: "news".into(),
                agent: AgentUrl::parse("https://bot.example").unwrap(),
                key,
                publish: publish.into(),
                lifetime: Duration::from_secs(60),
                cover: Cover::Request,
                form: Form::Dictionary,
                plain_http: false,
            };
            TestKeys { folder, settings, now }
        }

        /// Returns the thumbprints of the directory, the key that signs first.
        fn keys(&self) -> Vec<Arc<str>> {
            let all = Identities::load(std::slice::from_ref(&self.settings)).unwrap();
            let keys = all.get("news").unwrap().keys();
            keys.map(|key| Arc::clone(key.thumbprint())).collect()
        }

        fn step(&self, is_urgent: bool, after: Duration) -> Result<String, String> {
            let done = step(&self.settings, is_urgent, self.now + after);
            done.map_err(|error| error.to_string())
        }

        fn file(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_steps_follow_each_other_a_day_apart() {
        let test_keys = TestKeys::new();
        let [old] = test_keys.keys().try_into().unwrap();
        let said = test_keys.step(false, Duration::ZERO).unwrap();
        let is_published = !said.contains("publish =");
        assert!(said.contains("next key") && is_published, "{said}");
        let [first, new] = test_keys.keys().try_into().unwrap();
        assert_eq!(first, old);
        let early = test_keys.step(false, FRESH - SECOND * 60).unwrap_err();
        assert!(early.contains("is due on"), "{early}");

        let day = FRESH + SECOND * 60;
        let said = test_keys.step(false, day).unwrap();
        assert!(said.contains(&*new) && said.contains("is due on"), "{said}");
        assert_eq!(test_keys.keys(), [Arc::clone(&new), Arc::clone(&old)]);
        test_keys.step(false, day + FRESH - SECOND).unwrap_err();

        let said = test_keys.step(false, day + FRESH).unwrap();
        assert!(said.contains("complete"), "{said}");
        assert_eq!(test_keys.keys(), [Arc::clone(&new)]);
        test_keys.step(false, day + FRESH).unwrap();
        assert_eq!(test_keys.keys().len(), 2, "the next rotation begins");
    }

    #[test]
    fn a_key_that_others_have_is_replaced_at_once() {
        let test_keys = TestKeys::new();
        let [old] = test_keys.keys().try_into().unwrap();
        for keys in [2, 2, 1] {
            test_keys.step(true, Duration::ZERO).unwrap();
            assert_eq!(test_keys.keys().len(), keys);
        }
        assert_ne!(test_keys.keys(), [old]);
    }

    #[test]
    fn a_step_that_was_cut_off_is_completed() {
        let test_keys = TestKeys::new();
        let [old] = test_keys.keys().try_into().unwrap();
        test_keys.step(true, Duration::ZERO).unwrap();
        fs::hard_link(test_keys.file("news.key"), test_keys.file("news.key.last")).unwrap();
        test_keys.step(false, Duration::ZERO).unwrap();
        let [new, last] = test_keys.keys().try_into().unwrap();
        assert!(new != old && last == old);
        assert!(!test_keys.file("news.key.next").exists());
    }

    #[test]
    fn a_key_that_is_not_published_does_not_sign() {
        let mut test_keys = TestKeys::new();
        test_keys.settings.publish.clear();
        let said = test_keys.step(false, Duration::ZERO).unwrap();
        let lines = format!(
            "publish = [\"{}\", \"{}\"]",
            test_keys.file("news.key.next").display(),
            test_keys.file("news.key.last").display()
        );
        assert!(said.contains(&lines), "{said}");
        let why = test_keys.step(true, Duration::ZERO).unwrap_err();
        assert!(why.contains("publish does not list"), "{why}");
        assert!(test_keys.file("news.key.next").exists());
    }

    #[test]
    fn a_bad_key_is_not_rotated() {
        let test_keys = TestKeys::new();
        fs::write(test_keys.file("news.key"), "nonsense").unwrap();
        let why = test_keys.step(false, Duration::ZERO).unwrap_err();
        assert!(why.contains("news.key: ") && why.contains("no Ed25519 key"), "{why}");
        assert!(!test_keys.file("news.key.next").exists());
    }
}
