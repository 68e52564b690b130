//! Identification of a request's client and crawler, before the gate.

use super::*;
use argon2::PasswordHasher as _;
use base64::Engine as _;
use crawlgate_turns::client::{AuthCache, Clients, Peer};
use std::sync::LazyLock;

/// A client with a password, and 100 with networks; the last network is loopback's.
static CLIENTS: LazyLock<String> = LazyLock::new(|| {
    let hash: argon2::PasswordHash =
        argon2::Argon2::default().hash_password(b"open sesame").unwrap();
    let mut text = format!("[[client]]\nname = 'secret'\npassword = '{hash}'\n");
    for n in 0..99 {
        let _ = write!(text, "[[client]]\nname = 'client-{n}'\nnetworks = '10.{n}.0.0/16'\n");
    }
    let near =
        "[[client]]\nname = 'near'\nnetworks = '127.0.0.0/8'\nproduct_tokens = ['ExampleBot']\n";
    text + near
});

fn peer() -> Peer {
    Peer {
        address: (Ipv4Addr::LOCALHOST, 40_000).into(),
        listener: None,
        certificate: None,
        is_private: true,
    }
}

struct TestConnection {
    runtime: tokio::runtime::Runtime,
    clients: Clients,
    headers: HeaderMap,
    peer: Peer,
    auth_cache: AuthCache,
}

impl TestConnection {
    fn new(toml: &str, password: Option<&str>) -> TestConnection {
        let config = Config::parse(toml, std::path::Path::new("/config.toml")).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        if let Some(password) = password {
            let pair = format!("secret:{password}");
            let pair = base64::engine::general_purpose::STANDARD.encode(pair);
            let field = HeaderValue::from_str(&format!("Basic {pair}")).unwrap();
            headers.insert(header::PROXY_AUTHORIZATION, field);
        }
        let runtime = tokio::runtime::Builder::new_current_thread();
        let connection = TestConnection {
            runtime: { runtime }.enable_all().build().unwrap(),
            clients: Clients::new(&config, None, Clock::system()),
            headers,
            peer: peer(),
            auth_cache: AuthCache::default(),
        };
        // A password is hashed once.
        let first = connection.clients.recognise(
            &connection.peer,
            &connection.headers,
            &connection.auth_cache,
        );
        let _ = connection.runtime.block_on(first);
        connection
    }

    fn anew(&self) -> Arc<Client> {
        let anew = self.clients.recognise(&self.peer, &self.headers, &self.auth_cache);
        match pin!(anew).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found.unwrap(),
            Poll::Pending => panic!("what is known needs no waiting"),
        }
    }
}

/// One client without a name, on a connection that is known.
#[divan::bench]
fn unknown_client(bencher: Bencher<'_, '_>) {
    let connection = TestConnection::new("", None);
    bencher.bench_local(|| {
        connection.clients.cached(black_box(&connection.auth_cache), &connection.headers)
    });
}

/// The same credentials as before on this connection.
#[divan::bench]
fn password_known(bencher: Bencher<'_, '_>) {
    let connection = TestConnection::new(&CLIENTS, Some("open sesame"));
    let known =
        || connection.clients.cached(black_box(&connection.auth_cache), &connection.headers);
    assert!(known().is_some());
    bencher.bench_local(known);
}

/// The first request of a connection, with credentials that another one has brought.
#[divan::bench]
fn password_of_another_connection(bencher: Bencher<'_, '_>) {
    let connection = TestConnection::new(&CLIENTS, Some("open sesame"));
    bencher.bench_local(|| connection.anew());
}

/// The first request of a connection, from the last of 100 networks.
#[divan::bench]
fn network_of_a_new_connection(bencher: Bencher<'_, '_>) {
    let connection = TestConnection::new(&CLIENTS, None);
    bencher.bench_local(|| connection.anew());
}

/// A configured chain against the User-Agent.
#[divan::bench]
fn product_token_in_the_user_agent(bencher: Bencher<'_, '_>) {
    let known = Known::new(false);
    let client = TestConnection::new(&CLIENTS, None).anew();
    assert!(client.chain.is_some());
    bencher.bench_local(|| known.gate.identify(black_box(&client), &known.headers));
}

/// A rate and a quota.
#[divan::bench]
fn account(bencher: Bencher<'_, '_>) {
    let toml = "[[client]]\nname = 'a'\nrequests_per_second = 1e6\nburst = 1000000\n\
                quota = { requests = 9007199254740992, per = '1d' }\n";
    let connection = TestConnection::new(toml, None);
    let (client, clock) = (connection.anew(), Clock::system());
    bencher.bench_local(|| connection.clients.count(black_box(&client), clock.now()).is_ok());
}
