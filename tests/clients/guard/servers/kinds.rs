//! The kinds of servers, each with its command.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Kind;

pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "nginx",
        set_up: "`root`",
        behind: None,
        recipe: |place| Some(place.configured("nginx", "nginx.conf", &["-e", "stderr", "-c"])),
    },
    Kind {
        name: "Apache httpd",
        set_up: "`DocumentRoot`",
        behind: None,
        recipe: |place| Some(place.configured("apache2", "apache.conf", &["-X", "-f"])),
    },
    Kind {
        name: "Apache httpd, encoded slashes",
        set_up: "`AllowEncodedSlashes On`",
        behind: None,
        recipe: |place| Some(place.configured("apache2", "apache-slashes.conf", &["-X", "-f"])),
    },
    Kind {
        name: "Tomcat",
        set_up: "`DefaultServlet`",
        behind: None,
        recipe: |place| place.java("Tomcat.java", &["strict"]),
    },
    Kind {
        name: "Tomcat, lenient",
        set_up: "`encodedSolidusHandling=\"decode\"`, `allowBackslash=\"true\"`",
        behind: None,
        recipe: |place| place.java("Tomcat.java", &["lenient"]),
    },
    Kind {
        name: "Jetty",
        set_up: "`ResourceHandler`",
        behind: None,
        recipe: |place| place.java("Jetty.java", &[]),
    },
    Kind {
        name: "Express",
        set_up: "`express.static`",
        behind: None,
        recipe: |place| Some(place.node("express.cjs")),
    },
    Kind {
        name: "Node, new URL",
        set_up: "`new URL(request.url, base)`, `decodeURIComponent`",
        behind: None,
        recipe: |place| Some(place.node("url.cjs")),
    },
    Kind {
        name: "Node, path.join",
        set_up: "`decodeURIComponent(request.url.split(\"?\")[0])`",
        behind: None,
        recipe: |place| Some(place.node("join.cjs")),
    },
    Kind {
        name: "Node, decoded and new URL",
        set_up: "`new URL(decodeURIComponent(request.url), base)`",
        behind: None,
        recipe: |place| Some(place.node("decoded.cjs")),
    },
    Kind {
        name: "Node, decoded and url.parse",
        set_up: "`url.parse(decodeURIComponent(request.url))`",
        behind: None,
        recipe: |place| {
            let mut command = place.node("decoded.cjs");
            command.arg("parse");
            Some(command)
        },
    },
    Kind {
        name: "Python http.server",
        set_up: "`python -m http.server`",
        behind: None,
        recipe: |place| {
            let mut command = place.python();
            command
                .args(["-m", "http.server", &place.port.to_string(), "--bind", "127.0.0.1", "-d"])
                .arg(place.root);
            Some(command)
        },
    },
    Kind {
        name: "gunicorn",
        set_up: "files by `PATH_INFO`",
        behind: None,
        recipe: |place| {
            let mut command = place.wsgi("gunicorn", "--bind");
            command.args(["--no-control-socket", "--worker-tmp-dir"]).arg(place.dir);
            Some(command)
        },
    },
    Kind {
        name: "waitress",
        set_up: "files by `PATH_INFO`",
        behind: None,
        recipe: |place| Some(place.wsgi("waitress", "--listen")),
    },
    Kind {
        name: "cheroot",
        set_up: "files by `PATH_INFO`",
        behind: None,
        recipe: |place| Some(place.wsgi("cheroot", "--bind")),
    },
    Kind {
        name: "CherryPy",
        set_up: "`tools.staticdir`",
        behind: None,
        recipe: |place| Some(place.script("cherry.py")),
    },
    Kind {
        name: "Bottle",
        set_up: "`static_file`",
        behind: None,
        recipe: |place| Some(place.script("bottles.py")),
    },
    Kind {
        name: "aiohttp",
        set_up: "`add_static`",
        behind: None,
        recipe: |place| Some(place.script("aio.py")),
    },
    Kind { name: "PHP", set_up: "`php -S`", behind: None, recipe: |place| Some(place.php()) },
    Kind {
        name: "PHP, front controller",
        set_up: "`parse_url`, `rawurldecode`",
        behind: None,
        recipe: |place| {
            let mut command = place.php();
            command.arg(script("router.php"));
            Some(command)
        },
    },
    Kind {
        name: "Go",
        set_up: "`http.FileServer`",
        behind: None,
        recipe: |place| {
            let program = place.dir.join("files");
            let built = Command::new("go")
                .args(["build", "-o"])
                .arg(&program)
                .arg(script("files.go"))
                .env("GO111MODULE", "off")
                .env("GOFLAGS", "")
                .status()
                .unwrap();
            assert!(built.success(), "go build");
            let mut command = Command::new(program);
            command.arg(place.port.to_string()).arg(place.root);
            Some(command)
        },
    },
    Kind {
        name: "h2o",
        set_up: "`file.dir`",
        behind: None,
        recipe: |place| Some(place.configured("h2o", "h2o.conf", &["-c"])),
    },
    Kind {
        name: "lighttpd",
        set_up: "`server.document-root`",
        behind: None,
        recipe: |place| Some(place.configured("lighttpd", "lighttpd.conf", &["-D", "-f"])),
    },
    Kind {
        name: "CivetWeb",
        set_up: "`document_root`",
        behind: None,
        recipe: |place| {
            let mut command = Command::new("civetweb");
            // Otherwise it runs the file as a program.
            command
                .args(["-cgi_pattern", "", "-listening_ports"])
                .arg(format!("127.0.0.1:{}", place.port))
                .arg("-document_root")
                .arg(place.root);
            Some(command)
        },
    },
    Kind {
        name: "Caddy before gunicorn",
        set_up: "`reverse_proxy`",
        behind: Some("gunicorn"),
        recipe: |place| {
            let arguments = ["run", "--adapter", "caddyfile", "--config"];
            let mut command = place.configured("caddy", "Caddyfile", &arguments);
            command.env("HOME", place.dir);
            Some(command)
        },
    },
    Kind {
        name: "HAProxy before gunicorn",
        set_up: "`mode http`",
        behind: Some("gunicorn"),
        recipe: |place| Some(place.configured("haproxy", "haproxy.cfg", &["-db", "-f"])),
    },
    Kind {
        name: "nginx before Tomcat, lenient",
        set_up: "`proxy_pass http://tomcat$uri`",
        behind: Some("Tomcat, lenient"),
        recipe: |place| Some(place.nginx_proxy()),
    },
    Kind {
        name: "nginx before http.server",
        set_up: "`proxy_pass http://python$uri`",
        behind: Some("Python http.server"),
        recipe: |place| Some(place.nginx_proxy()),
    },
    Kind {
        name: "nginx before waitress",
        set_up: "`proxy_pass http://waitress$uri`",
        behind: Some("waitress"),
        recipe: |place| Some(place.nginx_proxy()),
    },
    Kind {
        name: "nginx before cheroot",
        set_up: "`proxy_pass http://cheroot$uri`",
        behind: Some("cheroot"),
        recipe: |place| Some(place.nginx_proxy()),
    },
    Kind {
        name: "nginx before CherryPy",
        set_up: "`proxy_pass http://cherrypy$uri`",
        behind: Some("CherryPy"),
        recipe: |place| Some(place.nginx_proxy()),
    },
];

pub(super) fn script(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/guard/servers")).join(name)
}

/// Returns a folder that `.ci/clients` has installed for these servers.
pub(super) fn installed(folder: &str) -> PathBuf {
    let all = env::var("CRAWLGATE_SERVERS").unwrap_or_default();
    Path::new(&all).join(folder)
}
