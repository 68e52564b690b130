//! FTP beside what all requests share: upstream proxies, pace, descriptors.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::ftp::{Act, FtpServer};
use crate::support::{CrawlgateProcess, Latch, RULES, Setup, Wire};

/// Starts a proxy that connects to any port on loopback, and notes what it was asked for. `meet` reads a request and
/// grants it.
fn proxy(meet: fn(&mut TcpStream) -> String) -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let list = Arc::clone(&asked);
    thread::spawn(move || {
        for mut client in listener.incoming().map_while(Result::ok) {
            let list = Arc::clone(&list);
            thread::spawn(move || {
                let target = meet(&mut client);
                let port: u16 = target.rsplit(':').next().unwrap().parse().unwrap();
                list.lock().unwrap().push(target);
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || std::io::copy(&mut from, &mut to));
                drop(std::io::copy(&mut &server, &mut client));
                drop(client.shutdown(Shutdown::Both));
            });
        }
    });
    (address, asked)
}

/// Grants a CONNECT.
fn connect(client: &mut TcpStream) -> String {
    let mut reader = BufReader::with_capacity(1, client.try_clone().unwrap());
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        reader.read_line(&mut head).unwrap();
    }
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    head.split(' ').nth(1).unwrap().to_owned()
}

/// Grants a CONNECT of SOCKS 5 by name, without a login.
fn socks(client: &mut TcpStream) -> String {
    let mut greeting = [0; 3];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(greeting, [5, 1, 0]);
    client.write_all(&[5, 0]).unwrap();
    let mut request = [0; 5];
    client.read_exact(&mut request).unwrap();
    assert_eq!(request[..4], [5, 1, 0, 3], "a name");
    let mut host = vec![0; usize::from(request[4])];
    client.read_exact(&mut host).unwrap();
    let mut port = [0; 2];
    client.read_exact(&mut port).unwrap();
    client.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).unwrap();
    let host = String::from_utf8(host).unwrap();
    format!("{host}:{}", u16::from_be_bytes(port))
}

#[test]
fn both_connections_go_through_an_upstream_proxy() {
    type Meet = fn(&mut TcpStream) -> String;
    for (scheme, meet) in [("http", connect as Meet), ("socks5", socks)] {
        let (proxy, asked) = proxy(meet);
        let gate = CrawlgateProcess::with(|setup| {
            let url = format!("url = \"{scheme}://{proxy}\"");
            setup.tables(&format!("[[upstream.proxy]]\nhosts = [\"*\"]\n{url}\n"));
        });
        let server = FtpServer::with_rules(RULES).file("open", "hello");
        let url = server.url("/open").replace("site.test", "far.example");
        gate.get(&url).is_origins(200, "hello");
        let asked = asked.lock().unwrap();
        assert_eq!(asked.len(), 4, "{scheme}: {asked:?}");
        assert!(
            asked.iter().all(|target| target.starts_with("far.example:")),
            "{scheme}: {asked:?}"
        );
        assert_eq!(asked[0], format!("far.example:{}", server.port()));
        assert_ne!(asked[1], asked[0], "the data connection has a port of its own");
    }
}

#[test]
fn a_session_takes_one_turn_of_the_pace() {
    let gate = CrawlgateProcess::with(|setup| {
        setup.set("pace", "requests_per_second", "0.01");
        setup.set("pace", "burst", "3");
        setup.set("pace", "max_hold", "\"1ms\"");
    });
    let server = FtpServer::with_rules(RULES).file("open", "x");
    // The fetch of robots.txt takes the first turn. Each session has two connections and many commands.
    for _ in 0..2 {
        gate.get(&server.url("/open")).is_origins(200, "x");
    }
    gate.refuses(&server.url("/open"), 429, "paced");
    gate.denies(&server.url("/private"));
    assert_eq!(server.sessions(), 3);
}

#[test]
fn the_third_descriptor_of_a_session_is_counted() {
    let setup = Setup::new();
    // Of 96, a quarter is for other uses. A ninth of the rest and what 31 connections leave is for unused connections.
    let limited = "ulimit -n 96; exec \"$0\" \"$@\"";
    let command = setup.command_in(&["sh", "-c", limited], "serve");
    let gate = CrawlgateProcess::spawn(setup, command);
    let latch = Latch::new();
    let server =
        FtpServer::with_rules(RULES).file("open", "x").on("RETR open", Act::Wait(latch.clone()));
    let url = server.url("/open");
    let mut wires: Vec<Wire> = (0..10).map(|_| gate.connect()).collect();
    for wire in &mut wires {
        wire.send(format!("GET {url} HTTP/1.1\r\nHost: x\r\n\r\n"));
    }
    latch.arrivals(10);
    gate.refuses(&url, 503, "overloaded");
    assert_eq!(server.sessions(), 11, "one was for robots.txt");
    latch.open();
    for wire in &mut wires {
        wire.response("GET").is_origins(200, "x");
    }
    gate.until(200, &url);
}
