//! Clients of Node.js, in each supported line of Node: agents of their own, HTTP/2, WebSockets, plain sockets.

use std::env;
use std::path::{Path, PathBuf};

use crate::support::Setup;
use crate::visit::{Visit, missing};

/// The name of each client in `node.cjs`, and its expected results for the four pages if they differ from the rule.
const CLIENTS: [(&str, Option<&str>); 20] = [
    ("http", None),
    ("http-agent-false", None),
    ("http-own-agent", None),
    ("fetch", None),
    ("undici-own-agent", None),
    ("undici-pool", None),
    ("axios", None),
    ("axios-no-proxy", None),
    ("axios-proxy", None),
    ("superagent", None),
    ("got", None),
    ("got-http2", None),
    ("node-fetch", None),
    ("ws", None),
    ("net-and-tls", None),
    ("tls-over-net", None),
    ("imported-by-name", None),
    ("crawlee", None),
    ("crawlee-proxy", None),
    // Without TLS the proxy speaks HTTP/1.1: a client that insists on HTTP/2 gets nothing there.
    ("http2", Some("error error 200 403")),
];

fn installed() -> Option<(Vec<String>, PathBuf)> {
    let nodes = env::var("CRAWLGATE_NODES").ok();
    let packages = env::var_os("CRAWLGATE_NODE_CLIENTS").map(PathBuf::from);
    let (Some(nodes), Some(packages)) = (nodes, packages) else {
        missing("Node.js and its packages (CRAWLGATE_NODES, CRAWLGATE_NODE_CLIENTS)");
        return None;
    };
    Some((nodes.split(':').map(str::to_owned).collect(), packages))
}

fn program() -> String {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/node.cjs");
    program.to_str().unwrap().to_owned()
}

#[test]
fn no_client_of_node_goes_past_the_proxy() {
    let Some((nodes, packages)) = installed() else {
        return;
    };
    for node in nodes {
        let visit = Visit::new();
        // By address: names that only the proxy resolves could not be reached without it in any case.
        let [plain, secure] =
            [&visit.http, &visit.https].map(|origin| origin.url_as("127.0.0.1", ""));
        let outcome = visit.run([
            &node,
            &program(),
            packages.to_str().unwrap(),
            &plain,
            &secure,
        ]);
        assert_eq!(outcome.code, Some(0), "{node}: {}", outcome.stderr);
        for (client, told) in CLIENTS {
            let told = format!("{client} {}", told.unwrap_or("200 403 200 403"));
            assert!(
                outcome.stdout.lines().any(|line| line == told),
                "{node}: not {told:?}:\n{}\n{}",
                outcome.stdout,
                outcome.stderr
            );
            let plain = (client != "http2").then_some(&visit.http);
            for origin in plain.into_iter().chain([&visit.https]) {
                let denied = origin.url_as("127.0.0.1", &format!("/private/{client}"));
                let denied = outcome
                    .records
                    .iter()
                    .find(|record| record["url"] == *denied);
                let denied = denied.unwrap_or_else(|| panic!("{node}: no record of {client}"));
                assert_eq!(denied["reason"], "robots_disallow", "{node}: {denied}");
            }
        }
        for (origin, requests) in [
            (&visit.http, CLIENTS.len() - 1),
            (&visit.https, CLIENTS.len()),
        ] {
            let seen = origin.seen_but_robots();
            assert_eq!(seen.len(), requests, "{node}: {seen:?}");
            assert!(
                seen.iter().all(|line| line.starts_with("GET /page/")),
                "{node}: {seen:?}"
            );
        }
    }
}

#[test]
fn requests_by_node_itself_and_protocols_that_cannot_be_tunnelled() {
    let Some((nodes, _)) = installed() else {
        return;
    };
    let program = "const http = require('http'), net = require('net'), tls = require('tls');\n\
        const server = http.createServer((_, answer) => answer.end('mine')).listen(0, '127.0.0.1', () => {\n\
            const port = server.address().port;\n\
            http.get({ port, host: '127.0.0.1' }, (answer) => {\n\
                console.log(answer.statusCode);\n\
                const socket = new tls.TLSSocket();\n\
                socket.on('error', (error) => {\n\
                    console.log(error.code, /cannot lead this kind/.test(error.message));\n\
                    const refused = net.connect(1, 'no-such-host.invalid');\n\
                    refused.on('connect', () => refused.write('SSH-2.0-x\\r\\n'));\n\
                    refused.on('data', (octets) => console.log(String(octets).split(' ')[1]));\n\
                    refused.on('error', (error) => console.log(error.code));\n\
                    refused.on('close', () => process.exit(0));\n\
                });\n\
                socket.connect(443, '127.0.0.1');\n\
                try { net.connect({ host: 'a', port: 99999 }); } catch (error) { console.log(error.code); }\n\
            });\n\
        });";
    for node in nodes {
        let setup = Setup::new();
        let mut command = setup.command("run");
        let output = command.args(["--", &node, "-e", program]).output().unwrap();
        let (said, errors) = (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        );
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines.first(), Some(&"200"), "{node}: {said}{errors}");
        assert!(
            lines.contains(&"ERR_SOCKET_BAD_PORT"),
            "{node}: {said}{errors}"
        );
        assert!(
            lines.contains(&"ECONNREFUSED true"),
            "{node}: {said}{errors}"
        );
        // A request that is not HTTP is answered or cut off, and never arrives.
        assert!(!lines.contains(&"101"), "{node}: {said}{errors}");
    }
}
