//! Connecting with resolvers that lie, and with real connections on loopback.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpListener;

use super::super::resolve::DnsError;
use super::*;
use crawlgate_policy::address_policy::{Class, ProhibitedBy};

fn config(text: &str) -> Config {
    Config::parse(text, std::path::Path::new("/nowhere/config.toml")).unwrap()
}

fn dialler(text: &str) -> Dialler {
    Dialler::new(&config(text)).unwrap()
}

fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn origin(host: &str, port: u16) -> Origin {
    Origin::new(Scheme::Http, host, Some(port)).unwrap()
}

fn prohibited(failure: Failure) -> Option<ProhibitedBy> {
    match failure {
        Failure::Prohibited(prohibited) => Some(prohibited.by),
        _ => None,
    }
}

#[tokio::test]
async fn only_the_addresses_behind_no_wall_are_dialled() {
    type Case<'a> = (&'a str, &'a [&'a str], Result<&'a [&'a str], ProhibitedBy>);
    #[rustfmt::skip] // one row, one case
    let cases: &[Case<'_>] = &[
        ("public", &["8.8.8.8"], Ok(&["8.8.8.8"])),
        ("private", &["10.0.0.1"], Err(ProhibitedBy::Class(Class::Private))),
        ("private beside public", &["10.0.0.1", "8.8.8.8"], Ok(&["8.8.8.8"])),
        ("public beside metadata", &["8.8.8.8", "169.254.169.254", "8.8.4.4"], Ok(&["8.8.8.8", "8.8.4.4"])),
        ("two kinds of private: the first tells", &["127.0.0.1", "10.0.0.1"], Err(ProhibitedBy::Class(Class::Loopback))),
        ("both families", &["2606:4700::1", "8.8.8.8"], Ok(&["2606:4700::1", "8.8.8.8"])),
        ("loopback in disguise", &["::ffff:127.0.0.1"], Err(ProhibitedBy::Class(Class::Loopback))),
        ("the same twice", &["8.8.8.8", "::ffff:8.8.8.8"], Ok(&["8.8.8.8"])),
    ];
    for (name, answer, want) in cases {
        let dialler = dialler("");
        let answer = addresses(answer);
        dialler.asks(Names::scripted(move |_| Ok(answer.clone())));
        let found = dialler.find("site.test", 80).await;
        let want = want.map(|open| {
            addresses(open).into_iter().map(|open| SocketAddr::new(open, 80)).collect()
        });
        assert_eq!(found.map_err(prohibited), want.map_err(Some), "{name}");
    }
}

/// A gate that looks twice would let through a name that is public when judged and private when dialled.
#[tokio::test]
async fn a_name_is_looked_up_once_and_what_was_judged_is_what_is_dialled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dialler = dialler("egress.allow = ['127.0.0.1']");
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    dialler.asks(Names::scripted(move |_| {
        Ok(match count.fetch_add(1, Ordering::SeqCst) {
            0 => addresses(&["127.0.0.1"]),
            _ => addresses(&["127.0.0.2"]),
        })
    }));
    let origin = origin("rebinding.test", port);
    let stream = dialler.dial(&origin, None).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    // The next connection judges the new answer of the name server.
    let failure = dialler.dial(&origin, None).await.unwrap_err();
    assert_eq!(prohibited(failure), Some(ProhibitedBy::Class(Class::Loopback)));
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_denied_name_is_not_even_looked_up() {
    let dialler = dialler("egress.deny = ['*.ads.test']");
    let asked = Arc::new(Mutex::new(Vec::new()));
    let list = Arc::clone(&asked);
    dialler.asks(Names::scripted(move |host| {
        list.lock().unwrap().push(host.to_owned());
        Err(DnsError::new("no such name"))
    }));
    for (host, want) in [
        ("x.ads.test", Some(ProhibitedBy::Denied)),
        ("127.0.0.1", Some(ProhibitedBy::Class(Class::Loopback))),
        ("site.test", None),
    ] {
        let failure = dialler.dial(&origin(host, 80), None).await.unwrap_err();
        assert_eq!(prohibited(failure), want, "{host}");
    }
    assert_eq!(*asked.lock().unwrap(), ["site.test"]);
}

#[tokio::test]
async fn a_new_address_policy_holds_for_the_next_connection_and_knows_the_listeners() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    let origin = origin("127.0.0.1", own.port());
    let dialler = dialler("");
    let refusal_of =
        |dialler: &Dialler| dialler.address_policy().check_origin(&origin, is_local).err();
    assert_eq!(refusal_of(&dialler).unwrap().by, ProhibitedBy::Class(Class::Loopback));
    dialler.reconfigure(&config("egress.allow = ['127.0.0.0/8']"));
    assert!(refusal_of(&dialler).is_none());
    assert!(dialler.dial(&origin, None).await.is_ok());
    dialler.listens_on(&[own]);
    assert_eq!(refusal_of(&dialler).unwrap().by, ProhibitedBy::Own);
    dialler.reconfigure(&config("egress.allow = ['127.0.0.0/8', '::1']"));
    let failure = dialler.dial(&origin, None).await.unwrap_err();
    assert_eq!(prohibited(failure), Some(ProhibitedBy::Own), "forgotten at a reload");
}

#[tokio::test]
async fn a_black_hole_beside_an_address_that_answers_costs_a_moment() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let dialler = dialler("egress.allow = ['127.0.0.0/8', '::1']");
    // No socket listens at ::1.
    dialler.asks(Names::scripted(|_| Ok(addresses(&["::1", "127.0.0.1"]))));
    let stream = dialler.dial(&origin("site.test", port), None).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
}

#[tokio::test]
async fn the_first_route_that_names_a_host_decides() {
    let dialler = dialler(
        "[[upstream.proxy]]\nhosts = ['direct.test', '*.near.test']\ndirect = true\n\
         [[upstream.proxy]]\nhosts = '*.onion'\nurl = 'socks5://127.0.0.1:9050'\n\
         [[upstream.proxy]]\nhosts = '*'\nurl = 'http://proxy.test:3128'",
    );
    for (host, proxy) in [
        ("direct.test", None),
        ("a.near.test", None),
        ("near.test", Some("proxy.test")),
        ("x.onion", Some("127.0.0.1")),
        ("192.0.2.1", Some("proxy.test")),
    ] {
        let found = dialler.proxy_for(&origin(host, 80)).map(|proxy| &*proxy.host);
        assert_eq!(found, proxy, "{host}");
    }
}

#[tokio::test]
async fn a_host_for_an_upstream_proxy_is_judged_as_far_as_possible() {
    let dialler = dialler(
        "[upstream.hosts]\n'given.test' = '8.8.8.8'\n'inside.test' = '10.0.0.1'\n'six.test' = '2606:4700::1'\n\
         [egress]\nallow = ['dev.localhost', 'instance-data']\ndeny = ['*.ads.test']\n\
         [[upstream.proxy]]\nhosts = '*'\nurl = 'http://proxy.test:3128'",
    );
    let class = |class| Err(Some(ProhibitedBy::Class(class)));
    for (host, want) in [
        ("site.test", Ok("site.test")),
        ("given.test", Ok("8.8.8.8")),
        ("six.test", Ok("[2606:4700::1]")),
        ("8.8.8.8", Ok("8.8.8.8")),
        ("inside.test", class(Class::Private)),
        ("127.0.0.1", class(Class::Loopback)),
        ("[::1]", class(Class::Loopback)),
        ("localhost", class(Class::Loopback)),
        ("a.localhost", class(Class::Loopback)),
        ("dev.localhost", Ok("dev.localhost")),
        ("x.ads.test", Err(Some(ProhibitedBy::Denied))),
        ("metadata.google.internal", class(Class::Metadata)),
        ("instance-data", class(Class::Metadata)), // also if it is allowed by name
    ] {
        let found = dialler.by_proxy(host, 80).map_err(prohibited);
        assert_eq!(found.as_deref(), want.as_ref().map(|want| *want), "{host}");
    }
}

#[tokio::test]
async fn an_upstream_proxy_may_be_private_but_neither_denied_nor_ourselves() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let way = format!("[[upstream.proxy]]\nhosts = '*'\nurl = 'http://{address}'\n");
    let site = origin("site.test", 80);

    let open = dialler(&way);
    let answers = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut octets = [0; 64];
        let _ = tokio::io::AsyncReadExt::read(&mut stream, &mut octets).await;
        let answer = b"HTTP/1.1 200 OK\r\n\r\n";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
        stream
    };
    let (stream, _theirs) = tokio::join!(open.dial(&site, None), answers);
    assert_eq!(stream.unwrap().peer_addr().unwrap(), address);

    let denied = dialler(&format!("egress.deny = ['127.0.0.1']\n{way}"));
    assert_eq!(
        denied.dial(&site, None).await.err().and_then(prohibited),
        Some(ProhibitedBy::Denied)
    );
    open.listens_on(&[address]);
    assert_eq!(open.dial(&site, None).await.err().and_then(prohibited), Some(ProhibitedBy::Own));
    drop(listener);
    let unreachable = dialler(&way);
    assert_eq!(unreachable.dial(&site, None).await.err(), Some(Failure::ProxyUnreachable));
}

#[test]
fn credentials_come_from_a_file_and_are_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("proxy.pass");
    let config = config(&format!(
        "[[upstream.proxy]]\nhosts = '*'\nurl = 'http://proxy.test:3128'\ncredentials_file = {path:?}"
    ));
    let error = Dialler::new(&config).unwrap_err().to_string();
    assert!(error.starts_with("[[upstream.proxy]] credentials_file = "), "{error}");
    for (name, text, faulty) in [
        ("a line", "ada:se:same\n", false),
        ("no colon", "adasesame", true),
        ("nothing", "", true),
        ("no user", ":sesame", true),
    ] {
        std::fs::write(&path, text).unwrap();
        match Dialler::new(&config) {
            Ok(dialler) => {
                assert!(!faulty, "{name}");
                let login =
                    dialler.proxy_for(&origin("a.test", 80)).unwrap().login.clone().unwrap();
                assert_eq!((&*login.user, &*login.password), ("ada", "se:same"));
                assert!(!format!("{dialler:?}").contains("same"), "{dialler:?}");
            }
            Err(error) => {
                assert!(faulty, "{name}: {error}");
                let error = error.to_string();
                assert!(error.contains("proxy.pass: ") && !error.contains("sesame"), "{error}");
            }
        }
    }
}

#[test]
fn the_addresses_of_this_machine_are_known() {
    for (address, want) in
        [("127.0.0.1", true), ("127.9.9.9", true), ("192.0.2.1", false), ("8.8.8.8", false)]
    {
        assert_eq!(is_local(address.parse().unwrap()), want, "{address}");
    }
}

#[tokio::test]
async fn an_origin_is_reached_if_its_name_server_ignores_ipv6() {
    use super::super::resolve::{Answer, name_server};
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    let at_once = Answer::Is(here.ip(), Duration::ZERO);
    for (case, six, four) in [
        ("no word of IPv6", Answer::Silent, at_once.clone()),
        (
            "what is known first is prohibited, and the rest is late",
            Answer::Is("fc00::1".parse().unwrap(), Duration::ZERO),
            Answer::Is(here.ip(), Duration::from_millis(300)),
        ),
        (
            "nothing listens at what is known first, and the rest is late",
            Answer::Is("::1".parse().unwrap(), Duration::ZERO),
            Answer::Is(here.ip(), Duration::from_millis(300)),
        ),
    ] {
        let dialler = dialler("egress.allow = ['127.0.0.1', '::1']");
        dialler.asks(name_server(six, four).await);
        let dialled = dialler.dial(&origin("site.test", here.port()), None).await;
        let stream = dialled.unwrap_or_else(|failure| panic!("{case}: {failure:?}"));
        assert_eq!(stream.peer_addr().unwrap(), here, "{case}");
    }
}
