//! The default paths of files.
//!
//! systemd's directories come first (systemd.exec(5), `StateDirectory=`), then the `certs` directory
//! of a working copy, then the XDG base directories, then those of a service without a home.
//!
//! Many projects have a `certs` directory, and users run `crawlgate run` inside of them: a private key must not appear
//! there, where it may be committed or copied into an image. So `certs` counts only if it is visibly crawlgate's.

use std::{
    ffi::OsString,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use rustls::pki_types::{CertificateDer, pem::PemObject as _};

/// The directories that an environment names, each absolute or absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    state_directory: Option<PathBuf>,
    certs: Option<PathBuf>,
    config_home: Option<PathBuf>,
    data_home: Option<PathBuf>,
    state_home: Option<PathBuf>,
}

/// Name of the directory for certificates in a working copy.
const CERTS: &str = "certs";

/// The first line of the README that such a directory comes with.
const TITLE: &[u8] = b"# crawlgate's certs/";

impl Places {
    /// Returns the places of this process: its environment and its working directory.
    #[must_use]
    pub fn from_env() -> Self {
        let certs = std::env::current_dir()
            .map(|directory| directory.join(CERTS))
            .ok()
            .filter(|certs| is_ours(certs));
        Self::from_variables(|name| std::env::var_os(name), certs)
    }

    /// Returns the places of an environment. `certs` is the working directory's `certs`, if it is ours.
    ///
    /// A variable that is empty or holds a relative path counts as not set, as the XDG Base Directory Specification
    /// demands: a path with another meaning in each working directory would scatter keys and logs.
    pub(super) fn from_variables(
        variable: impl Fn(&str) -> Option<OsString>,
        certs: Option<PathBuf>,
    ) -> Self {
        let directory = |name: &str| {
            let value = variable(name)?;
            Some(PathBuf::from(value)).filter(|path| path.is_absolute())
        };
        let home = directory("HOME");
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        Self {
            state_directory: variable("STATE_DIRECTORY").and_then(first_of_list),
            certs,
            config_home: directory("XDG_CONFIG_HOME").or_else(|| below_home(".config")),
            data_home: directory("XDG_DATA_HOME").or_else(|| below_home(".local/share")),
            state_home: directory("XDG_STATE_HOME").or_else(|| below_home(".local/state")),
        }
    }

    /// Returns the places of a service with this directory.
    #[must_use]
    pub fn at(&self, state_directory: &Path) -> Self {
        Self { state_directory: Some(state_directory.to_owned()), ..self.clone() }
    }

    /// Tells whether the process is a service with a state directory, or was given that of a service.
    #[must_use]
    pub fn is_of_service(&self) -> bool {
        self.state_directory.is_some()
    }

    /// Returns the paths to search for a configuration, in this order. The first one stands in the working directory,
    /// and has the program's name: other programs have a `config.toml` there.
    #[must_use]
    pub fn configurations(&self) -> Vec<PathBuf> {
        let of_the_user = self.config_home.as_ref();
        let of_the_user = of_the_user.map(|home| home.join("crawlgate/config.toml"));
        [PathBuf::from("crawlgate.toml")]
            .into_iter()
            .chain(of_the_user)
            .chain([PathBuf::from("/etc/crawlgate/config.toml")])
            .collect()
    }

    /// Returns the local CA's certificate and key.
    #[must_use]
    pub fn ca(&self) -> (PathBuf, PathBuf) {
        let directory = if let Some(state) = &self.state_directory {
            state.join("ca")
        } else if let Some(certs) = &self.certs {
            certs.clone()
        } else if let Some(data) = &self.data_home {
            data.join("crawlgate")
        } else {
            Path::new("/var/lib/crawlgate/ca").to_owned()
        };
        (directory.join("ca.crt"), directory.join("ca.key"))
    }

    /// Returns the store, and the socket beside it for commands to the process that writes it.
    #[must_use]
    pub fn store(&self) -> (PathBuf, PathBuf) {
        let directory = if let Some(state) = &self.state_directory {
            state.clone()
        } else if let Some(state) = &self.state_home {
            state.join("crawlgate")
        } else {
            Path::new("/var/lib/crawlgate").to_owned()
        };
        (directory.join("crawlgate.db"), directory.join("crawlgate.sock"))
    }
}

/// The beginning of the names of authorities that crawlgate makes.
pub const AUTHORITY_NAME: &str = "crawlgate local CA";

/// Returns whether `pem` is the certificate of an authority that crawlgate made, on whatever machine.
fn is_made_here(pem: &[u8]) -> bool {
    CertificateDer::from_pem_slice(pem)
        .is_ok_and(|der| memchr::memmem::find(&der, AUTHORITY_NAME.as_bytes()).is_some())
}

/// Tells whether a directory holds an authority that crawlgate made, or the README of such a directory.
pub fn is_ours(certs: &Path) -> bool {
    is_made_here(&head(&certs.join("ca.crt")))
        || head(&certs.join("README.md")).split(|&octet| octet == b'\n').next() == Some(TITLE)
}

/// Returns the first octets of a file, more than a certificate has; none if it cannot be read.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // Opening a pipe would wait for its other end.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        // The octets before an error count.
        let _ = file.take(16 * 1024).read_to_end(&mut head);
    }
    head
}

/// Returns the first directory of a list with colons: systemd names one for each word of `StateDirectory=`.
fn first_of_list(value: OsString) -> Option<PathBuf> {
    std::env::split_paths(&value).next().filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(variables: &[(&str, &str)], certs: Option<&str>) -> Places {
        Places::from_variables(
            |name| {
                let (_, value) = variables.iter().find(|(key, _)| *key == name)?;
                Some(value.into())
            },
            certs.map(PathBuf::from),
        )
    }

    #[test]
    fn the_configuration_is_looked_for_nearby_then_at_home_then_in_etc() {
        type Case<'a> = (&'a [(&'a str, &'a str)], Option<&'a str>);
        #[rustfmt::skip] // one row, one case
        let cases: [Case<'_>; 4] = [
            (&[("XDG_CONFIG_HOME", "/c"), ("HOME", "/home/a")], Some("/c/crawlgate/config.toml")),
            (&[("HOME", "/home/a")], Some("/home/a/.config/crawlgate/config.toml")),
            (&[("XDG_CONFIG_HOME", "c"), ("HOME", "/home/a")], Some("/home/a/.config/crawlgate/config.toml")),
            (&[], None),
        ];
        for (variables, at_home) in cases {
            let want: Vec<&Path> =
                [Some("crawlgate.toml"), at_home, Some("/etc/crawlgate/config.toml")]
                    .into_iter()
                    .flatten()
                    .map(Path::new)
                    .collect();
            assert_eq!(places(variables, None).configurations(), want, "{variables:?}");
        }
    }

    #[test]
    fn the_ca_goes_to_the_first_place_that_exists() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], Option<&'a str>, &'a str);
        #[rustfmt::skip] // one row, one case
        let cases: [Case<'_>; 8] = [
            (
                "systemd's state directory comes first",
                &[
                    ("STATE_DIRECTORY", "/var/lib/private/gate"),
                    ("HOME", "/home/a"),
                ],
                Some("/src/certs"),
                "/var/lib/private/gate/ca/ca.crt",
            ),
            ("the first of several state directories", &[("STATE_DIRECTORY", "/var/lib/one:/var/lib/two")], None, "/var/lib/one/ca/ca.crt"),
            ("then our certs in the working directory", &[("XDG_DATA_HOME", "/data")], Some("/src/certs"), "/src/certs/ca.crt"),
            ("then XDG_DATA_HOME", &[("XDG_DATA_HOME", "/data"), ("HOME", "/home/a")], None, "/data/crawlgate/ca.crt"),
            ("then HOME", &[("HOME", "/home/a")], None, "/home/a/.local/share/crawlgate/ca.crt"),
            (
                "an empty variable is not set",
                &[
                    ("STATE_DIRECTORY", ""),
                    ("XDG_DATA_HOME", ""),
                    ("HOME", "/home/a"),
                ],
                None,
                "/home/a/.local/share/crawlgate/ca.crt",
            ),
            (
                "a relative variable is not set",
                &[
                    ("STATE_DIRECTORY", "state"),
                    ("XDG_DATA_HOME", "../data"),
                    ("HOME", "/home/a"),
                ],
                None,
                "/home/a/.local/share/crawlgate/ca.crt",
            ),
            ("a service without a home", &[], None, "/var/lib/crawlgate/ca/ca.crt"),
        ];
        for (name, variables, certs, want) in cases {
            let (cert, key) = places(variables, certs).ca();
            assert_eq!(cert, Path::new(want), "{name}");
            assert_eq!(key, cert.with_file_name("ca.key"), "{name}");
        }
    }

    #[test]
    fn the_store_goes_to_the_first_place_that_exists() {
        type Case<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);
        #[rustfmt::skip] // one row, one case
        let cases: [Case<'_>; 4] = [
            ("systemd's state directory comes first", &[("STATE_DIRECTORY", "/var/lib/gate"), ("HOME", "/home/a")], "/var/lib/gate"),
            ("then XDG_STATE_HOME", &[("XDG_STATE_HOME", "/state"), ("HOME", "/home/a")], "/state/crawlgate"),
            ("then HOME", &[("HOME", "/home/a")], "/home/a/.local/state/crawlgate"),
            ("a service without a home", &[], "/var/lib/crawlgate"),
        ];
        for (name, variables, want) in cases {
            let (store, socket) = places(variables, Some("/src/certs")).store();
            let want = Path::new(want);
            assert_eq!(store, want.join("crawlgate.db"), "{name}");
            assert_eq!(socket, want.join("crawlgate.sock"), "{name}");
        }
    }
}
