//! gRPC, which needs HTTP/2 on both sides: messages in both directions, trailers, and a denial.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::http2::{record, script, told};
use crate::support::origin_pem;
use crate::visit::{Visit, python};

/// A gRPC server in Python.
struct Server {
    child: Child,
    said: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(python: &str, visit: &Visit) -> Self {
        let (certificate, key) = origin_pem("site.test");
        let dir = visit.setup.dir();
        let paths = [dir.join("grpc.crt"), dir.join("grpc.key")];
        fs::write(&paths[0], certificate).unwrap();
        fs::write(&paths[1], key).unwrap();
        let mut child = Command::new(python)
            .arg(script("grpc_server.py"))
            .args(paths)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        said.read_line(&mut port).unwrap();
        Self { child, said, port: port.trim().parse().unwrap() }
    }

    /// Ends the server, and returns the paths of the calls that it received.
    fn calls(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).unwrap();
        self.child.wait().unwrap();
        rest.lines().map(str::to_owned).collect()
    }
}

#[test]
fn python_grpc() {
    let Some(python) = python("grpc") else { return };
    let mut visit = Visit::new();
    let server = Server::start(&python, &visit);
    let authority = format!("site.test:{}", server.port);
    // A gRPC server answers no GET: its robots.txt is unreachable, which only an override outweighs.
    visit.setup.tables(&format!(
        "[[override]]\norigin = 'https://{authority}'\npattern = '/test.Open/'\naction = 'allow'\nby = 'Ada'\nreason = 'ours'\n"
    ));
    let outcome = visit.run([&python, &script("grpc_client.py"), &authority]);
    let told = told(&outcome);
    let [one, many, denial] = &told[..] else {
        panic!("{told:?}\n{}", outcome.stderr);
    };
    assert_eq!(one, &json!(["heard one", "3", "OK"]));
    assert_eq!(many, &json!(["heard two", "heard three", 0, "OK"]));
    assert_eq!(denial[0], "UNAVAILABLE", "{denial}");
    assert!(denial[1].as_str().unwrap().contains("503"), "{denial}");

    for (path, verdict, status) in [
        ("/test.Open/One", "allow", 200),
        ("/test.Open/Many", "allow", 200),
        ("/test.Other/One", "deny", 503),
    ] {
        let record = record(&outcome, &format!("https://{authority}{path}"));
        has!(record, {"verdict": verdict, "status": status, "method": "POST"});
    }
    assert_eq!(server.calls(), ["/test.Open/One", "/test.Open/Many"]);
}
