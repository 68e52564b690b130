//! Clients of Node.js, in each supported line of Node: agents of their own, HTTP/2, WebSockets, plain sockets.

use std::env;
use std::path::{Path, PathBuf};

use crate::support::Setup;
use crate::visit::{Visit, missing, printed_statuses};

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
    let (nodes, packages) = or_skip!(installed());
    for node in nodes {
        let visit = Visit::new();
        // By address: names that only the proxy resolves could not be reached without it in any case.
        let [plain, secure] =
            [&visit.http, &visit.https].map(|origin| origin.url_as("127.0.0.1", ""));
        let outcome = visit.run([&node, &program(), packages.to_str().unwrap(), &plain, &secure]);
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
                let denied = outcome.records.iter().find(|record| record["url"] == *denied);
                let denied = denied.unwrap_or_else(|| panic!("{node}: no record of {client}"));
                assert_eq!(denied["reason"], "robots_disallow", "{node}: {denied}");
            }
        }
        for (origin, requests) in [(&visit.http, CLIENTS.len() - 1), (&visit.https, CLIENTS.len())]
        {
            let seen = origin.seen_but_robots();
            assert_eq!(seen.len(), requests, "{node}: {seen:?}");
            assert!(seen.iter().all(|line| line.starts_with("GET /page/")), "{node}: {seen:?}");
        }
    }
}

#[test]
fn requests_by_node_itself_and_protocols_that_cannot_be_tunnelled() {
    let (nodes, _) = or_skip!(installed());
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
        assert!(lines.contains(&"ERR_SOCKET_BAD_PORT"), "{node}: {said}{errors}");
        assert!(lines.contains(&"ECONNREFUSED true"), "{node}: {said}{errors}");
        // A request that is not HTTP is answered or cut off, and never arrives.
        assert!(!lines.contains(&"101"), "{node}: {said}{errors}");
    }
}

#[test]
fn agents_of_undici_find_the_proxy_by_themselves() {
    let (nodes, packages) = or_skip!(installed());
    // Version 8 needs Node 22. It names the origin where it connects to the proxy, so the origin has a name here.
    let program = "const [agent, packages, ...urls] = process.argv.slice(1);\n\
        const name = Number(process.versions.node.split('.')[0]) < 22 ? 'undici' : 'undici8';\n\
        const undici = require(`${packages}/node_modules/${name}`);\n\
        const dispatcher = new undici[agent](process.env.http_proxy);\n\
        (async () => {\n\
            for (const url of urls) {\n\
                const { statusCode, body } = await undici.request(url, { dispatcher });\n\
                await body.dump();\n\
                console.log(statusCode);\n\
            }\n\
            await dispatcher.close();\n\
        })();";
    for node in nodes {
        for agent in ["ProxyAgent", "EnvHttpProxyAgent"] {
            let visit = Visit::new();
            // `EnvHttpProxyAgent` takes options, and a text has none.
            let start =
                [&node, "-e", program, agent, packages.to_str().unwrap()].map(str::to_owned);
            let outcome = visit.run(start.into_iter().chain(visit.urls()));
            printed_statuses(&outcome);
            visit.held(&outcome);
        }
    }
}

/// The longest time between the last answer and the end of a program, in milliseconds. Idle connections are kept for five
/// seconds and more.
const ENDS_WITHIN: u32 = 3000;

#[test]
fn a_program_of_node_ends_with_its_last_answer() {
    let (nodes, _) = or_skip!(installed());
    let program = "const url = process.argv[1];\n\
        const ends = () => { const end = Date.now(); process.on('exit', () => console.log(Date.now() - end)); };\n\
        const read = (answer) => answer.resume().on('end', ends);\n\
        ({\n\
            https: () => require('https').get(url, read),\n\
            fetch: () => fetch(url).then((answer) => answer.text()).then(ends),\n\
            http2: () => {\n\
                const session = require('http2').connect(new URL(url).origin);\n\
                const stream = session.request({ ':path': '/page' });\n\
                stream.resume().on('end', () => { session.unref(); ends(); }).end();\n\
            },\n\
        })[process.argv[2]]();";
    for node in nodes {
        for client in ["https", "fetch", "http2"] {
            let visit = Visit::new();
            let outcome = visit.run([&node, "-e", program, &visit.https.url("/page"), client]);
            let took: u32 = outcome.stdout.trim().parse().unwrap_or_else(|_| {
                panic!("{node} {client}: {}{}", outcome.stdout, outcome.stderr)
            });
            assert!(took < ENDS_WITHIN, "{node} {client}: {took} ms");
            // Node 22 warns of a dispatcher that no request takes here.
            lacks!(outcome.stderr, "Warning"; "{node} {client}");
        }
    }
}

#[test]
fn servers_that_node_starts_are_asked_without_the_proxy() {
    let (nodes, _) = or_skip!(installed());
    // Each server answers with the count of its requests: the proxy would ask for robots.txt first. The child of a child
    // is a browser behind its script. Undici 8 names a server by its own lookup, as this client does.
    let program = "const http = require('http'), { spawn } = require('child_process'), [url] = process.argv.slice(1);\n\
        const server = 'let count = 0; require(`http`).createServer((_, answer) => answer.end(`${++count}`))' +\n\
            '.listen(0, `127.0.0.1`, function () { console.log(this.address().port); })';\n\
        const get = (target, more = {}) => new Promise((done, failed) => http.get(target, more, (answer) => {\n\
            let text = '';\n\
            answer.on('data', (octets) => (text += octets)).on('end', () => done(`${answer.statusCode} ${text.length < 5 ? text : ''}`));\n\
        }).on('error', failed));\n\
        const child = spawn('sh', ['-c', '\"$0\" -e \"$1\"; true', process.execPath, server], { stdio: ['ignore', 'pipe', 'inherit'] });\n\
        child.stdout.once('data', async (port) => {\n\
            console.log('child', await get(`http://127.0.0.1:${Number(port)}/`));\n\
            console.log('another', await get(url));\n\
            let count = 0;\n\
            const own = http.createServer((_, answer) => answer.end(`${++count}`)).listen(0, '127.0.0.1', async () => {\n\
                const lookup = (_, options, found) => setImmediate(() =>\n\
                    options.all ? found(null, [{ address: '127.0.0.1', family: 4 }]) : found(null, '127.0.0.1', 4));\n\
                console.log('looked-up', await get(`http://own.invalid:${own.address().port}/`, { lookup }));\n\
                const fetched = await fetch(`http://127.0.0.1:${own.address().port}/`);\n\
                console.log('fetch', fetched.status, await fetched.text());\n\
                process.kill(-process.pid);\n\
            });\n\
        });";
    for node in nodes {
        let visit = Visit::new();
        let denied = visit.http.url_as("127.0.0.1", "/private");
        // A new process group, which the program ends.
        let outcome = visit.run(["setsid", "--wait", &node, "-e", program, &denied]);
        let told: Vec<_> = outcome.stdout.lines().collect();
        assert_eq!(
            told,
            ["child 200 1", "another 403 ", "looked-up 200 1", "fetch 200 2"],
            "{node}: {}",
            outcome.stderr
        );
        assert_eq!(visit.http.seen_but_robots(), [""; 0], "{node}");
    }
}
