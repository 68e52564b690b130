//! Real servers with the same files: started on a free port, and ended with their test.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::{env, fs};

use crate::support::{PATIENCE, within};

mod kinds;

pub(crate) use self::kinds::KINDS;
use self::kinds::{installed, script};

/// Returns the command of a server: program, arguments and environment. `None` if the server is not installed.
type Recipe = fn(&Place<'_>) -> Option<Command>;

/// A kind of server.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The settings that differ from the server's defaults.
    pub(crate) set_up: &'static str,
    /// The server behind it, if it is a proxy.
    pub(crate) behind: Option<&'static str>,
    recipe: Recipe,
}

/// The files and directories of a server.
pub(crate) struct Place<'a> {
    port: u16,
    /// The served files.
    root: &'a Path,
    /// The server's own directory.
    dir: &'a Path,
    behind: u16,
}

impl Place<'_> {
    fn configured(&self, program: &str, file: &str, arguments: &[&str]) -> Command {
        let (file, slashes) = match file {
            "apache-slashes.conf" => ("apache.conf", "On"),
            file => (file, "Off"),
        };
        let text = fs::read_to_string(script(file))
            .unwrap()
            .replace("ROOT", &self.root.to_string_lossy())
            .replace("DIR", &self.dir.to_string_lossy())
            .replace("PORT", &self.port.to_string())
            .replace("BEHIND", &self.behind.to_string())
            .replace("SLASHES", slashes);
        let made = self.dir.join("server.conf");
        fs::write(&made, text).unwrap();
        let beside = format!("/usr/sbin/{program}");
        let program = if Path::new(&beside).exists() { &beside } else { program };
        let mut command = Command::new(program);
        command.args(arguments).arg(made);
        command
    }

    fn java(&self, source: &str, more: &[&str]) -> Option<Command> {
        let jars: Vec<String> = fs::read_dir(installed("java"))
            .ok()?
            .map(|entry| entry.unwrap().path().to_string_lossy().into_owned())
            .collect();
        let mut command = Command::new("java");
        // Helpers for one processor: the server serves files one after the other.
        command
            .args(["-XX:TieredStopAtLevel=1", "-cp", &jars.join(":")])
            .arg(script(source))
            .arg(self.port.to_string())
            .arg(self.root)
            .arg(self.dir)
            .args(more);
        Some(command)
    }

    fn node(&self, source: &str) -> Command {
        let mut command =
            Command::new(env::var("CRAWLGATE_NODE").unwrap_or_else(|_| "node".to_owned()));
        command
            .arg(script(source))
            .arg(self.port.to_string())
            .arg(self.root)
            .env("NODE_PATH", installed("node/node_modules"));
        command
    }

    fn python(&self) -> Command {
        Command::new(env::var("CRAWLGATE_PYTHON").unwrap_or_else(|_| "python3".to_owned()))
    }

    /// Returns the command of a server written in Python.
    fn script(&self, source: &str) -> Command {
        let mut command = self.python();
        command.arg(script(source)).arg(self.port.to_string()).arg(self.root);
        command
    }

    /// Returns the command of a module that serves a WSGI application at the address that its option names.
    fn wsgi(&self, module: &str, option: &str) -> Command {
        let servers = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/guard/servers");
        let mut command = self.python();
        command
            .args(["-m", module])
            .arg(option)
            .arg(format!("127.0.0.1:{}", self.port))
            .arg("wsgi:application")
            .env("PYTHONPATH", servers)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("ROOT", self.root);
        command
    }

    fn nginx_proxy(&self) -> Command {
        self.configured("nginx", "nginx-proxy.conf", &["-e", "stderr", "-c"])
    }

    fn php(&self) -> Command {
        let mut command = Command::new("php");
        command.args(["-S", &format!("127.0.0.1:{}", self.port), "-t"]).arg(self.root);
        command
    }
}

/// A server that listens.
pub(crate) struct Server {
    pub(crate) kind: &'static Kind,
    pub(crate) address: SocketAddr,
    child: Child,
    _dir: tempfile::TempDir,
}

impl Server {
    /// Starts the server; fails if it is not installed.
    #[track_caller]
    pub(crate) fn start(kind: &'static Kind, root: &Path, behind: u16) -> Server {
        // Another process may take a free port at any moment.
        for _ in 0..5 {
            let dir = tempfile::tempdir().unwrap();
            let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
            let place = Place { port, root, dir: dir.path(), behind };
            let mut command =
                (kind.recipe)(&place).unwrap_or_else(|| panic!("{} is not there", kind.name));
            let log = fs::File::create(dir.path().join("log")).unwrap();
            let child = command
                .current_dir(dir.path())
                .stdin(Stdio::null())
                .stdout(log.try_clone().unwrap())
                .stderr(log)
                .spawn()
                .unwrap_or_else(|error| panic!("{}: {error}", kind.name));
            let address = SocketAddr::from(([127, 0, 0, 1], port));
            let mut server = Server { kind, address, child, _dir: dir };
            // Some compile their source first.
            let is_up =
                within(4 * PATIENCE, kind.name, || match server.child.try_wait().unwrap() {
                    Some(_) => Some(false),
                    None => TcpStream::connect(address).is_ok().then_some(true),
                });
            if is_up {
                return server;
            }
            let said = fs::read_to_string(server._dir.path().join("log")).unwrap_or_default();
            eprintln!("{} ended: {said}", kind.name);
        }
        panic!("{} does not start", kind.name);
    }

    /// Returns the marker of the resource that the server serves for a target, sent unchanged.
    pub(crate) fn serves(&self, target: &str) -> Option<String> {
        let answer = self.asked(target, "");
        let (_, marker) = answer.split_once("marker:")?;
        let end = marker.find(|one: char| one.is_whitespace() || one == '"');
        Some(marker[..end.unwrap_or(marker.len())].to_owned())
    }

    /// Returns the server's answer to a target with these fields.
    pub(crate) fn asked(&self, target: &str, fields: &str) -> String {
        let mut stream = TcpStream::connect(self.address)
            .unwrap_or_else(|error| panic!("{} and {target}: {error}", self.kind.name));
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // A server that refuses a request line may reset the connection.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the versions of the servers, for the page.
pub(crate) fn versions() -> Vec<(&'static str, String)> {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).lines().next().unwrap_or_default().trim().to_owned()
    };
    let python = env::var("CRAWLGATE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let node = env::var("CRAWLGATE_NODE").unwrap_or_else(|_| "node".to_owned());
    let of = |module: &str| {
        said(&python, &["-c", &format!("import {module}; print({module}.__version__)")])
    };
    let package = |name: &str| {
        let program = format!("from importlib.metadata import version; print(version({name:?}))");
        said(&python, &["-c", &program])
    };
    let jar = |prefix: &str| {
        let names = fs::read_dir(installed("java")).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let name = names
            .filter(|name| {
                name.starts_with(prefix) && name.contains(|one: char| one.is_ascii_digit())
            })
            .max();
        name.and_then(|name| Some(name.strip_prefix(prefix)?.strip_suffix(".jar")?.to_owned()))
            .unwrap_or_default()
    };
    let after = |text: String, mark: &str| {
        text.split_once(mark).map_or(text.clone(), |(_, rest)| rest.to_owned())
    };
    let word = |text: String| text.split_whitespace().next().unwrap_or_default().to_owned();
    vec![
        ("nginx", word(after(said("/usr/sbin/nginx", &["-v"]), "nginx/"))),
        ("Apache httpd", word(after(said("/usr/sbin/apache2", &["-v"]), "Apache/"))),
        ("Tomcat", jar("tomcat10-embed-core-")),
        ("Jetty", jar("jetty9-server-")),
        ("Node", said(&node, &["--version"])),
        (
            "Express",
            said(
                &node,
                &[
                    "-p",
                    &format!(
                        "require({:?}).version",
                        installed("node/node_modules/express/package.json")
                    ),
                ],
            ),
        ),
        ("Python", word(after(said(&python, &["--version"]), "Python "))),
        ("gunicorn", of("gunicorn")),
        ("waitress", package("waitress")),
        ("cheroot", of("cheroot")),
        ("CherryPy", of("cherrypy")),
        ("Bottle", of("bottle")),
        ("aiohttp", of("aiohttp")),
        ("PHP", word(after(said("php", &["--version"]), "PHP "))),
        ("Go", word(after(said("go", &["version"]), "version go"))),
        ("h2o", word(after(said("h2o", &["--version"]), "version "))),
        ("lighttpd", word(after(said("/usr/sbin/lighttpd", &["-v"]), "lighttpd/"))),
        ("CivetWeb", word(after(said("civetweb", &["-V"]), "CivetWeb v")).replace(',', "")),
        ("Caddy", word(said("caddy", &["version"]))),
        ("HAProxy", word(after(said("haproxy", &["-v"]), "version "))),
    ]
}

/// Tells whether all servers are installed; names the missing ones, and fails if they are required.
pub(crate) fn are_there() -> bool {
    let is_program = |name: &str| {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .chain([PathBuf::from("/usr/sbin")])
            .any(|folder| folder.join(name).exists())
    };
    let programs = ["nginx", "apache2", "java", "php", "go", "h2o", "lighttpd"];
    let others = ["civetweb", "caddy", "haproxy"];
    let mut missing: Vec<String> = programs
        .into_iter()
        .chain(others)
        .filter(|name| !is_program(name))
        .map(str::to_owned)
        .collect();
    for folder in ["java", "node/node_modules/express"] {
        if !installed(folder).exists() {
            missing.push(format!("{folder} in CRAWLGATE_SERVERS"));
        }
    }
    if missing.is_empty() {
        return true;
    }
    let is_required = env::var("CRAWLGATE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    assert!(!is_required, "missing: {missing:?}");
    eprintln!("skipped, missing: {missing:?}");
    false
}

/// The files that every server serves.
pub(crate) fn files() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for resource in super::spellings::RESOURCES {
        let file = root.path().join(resource[1..].replace("%C3%A9", "é"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let text = match resource.ends_with(".php") {
            // A script with a query is another resource than the script without one.
            true => format!(
                "<?php echo \"marker:{resource}\", $_SERVER[\"PATH_INFO\"] ?? \"\", \"\\n\";\n"
            ),
            false => format!("marker:{resource}\n"),
        };
        fs::write(file, text).unwrap();
    }
    // Servers that change their user must be able to read the files.
    let readable = Command::new("chmod").args(["-R", "a+rX"]).arg(root.path()).status().unwrap();
    assert!(readable.success());
    root
}
