use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::PROXY_AUTHORIZATION;

use super::*;
use crate::client::PeerCertificate;
use crate::client::passwords::hash;
use crawlgate_config::{PasswordHash, Rate};

const NOON: Moment = Moment::from_millis(1_795_176_000_000);

fn config(toml: &str) -> Config {
    Config::parse(toml, std::path::Path::new("/etc/crawlgate/config.toml")).expect(toml)
}

fn clients(toml: &str) -> Clients {
    Clients::new(&config(toml), None, Clock::manual(NOON))
}

/// A peer at this address and listener, with a certificate of this name.
fn peer(address: &str, listener: Option<&str>, name: Option<&str>, is_private: bool) -> Peer {
    Peer {
        address: (address.parse::<std::net::IpAddr>().expect(address), 4_000).into(),
        listener: listener.map(Arc::from),
        certificate: name.map(|name| {
            Arc::new(PeerCertificate {
                sha256: [0xab; 32],
                names: vec!["192.0.2.1".into(), name.into()],
            })
        }),
        is_private,
    }
}

fn with(credentials: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    if let Some(credentials) = credentials {
        let field = format!("Basic {}", STANDARD.encode(credentials));
        headers.insert(PROXY_AUTHORIZATION, HeaderValue::from_str(&field).expect("a field"));
    }
    headers
}

/// A cheap hash: the tests are about which client is asked for it.
fn cheap(password: &str) -> PasswordHash {
    use argon2::PasswordHasher as _;
    let params = argon2::Params::new(8, 1, 1, None).expect("cheap");
    let argon2 = argon2::Argon2::new(Default::default(), Default::default(), params);
    let phc: argon2::PasswordHash = argon2.hash_password(password.as_bytes()).expect("hashes");
    PasswordHash::parse(&phc.to_string()).expect("our own")
}

fn password(password: &str) -> String {
    format!("password = '{}'", cheap(password).reveal())
}

async fn named(clients: &Clients, peer: &Peer, given: Option<&str>) -> Result<String, AuthError> {
    let found = clients.recognise(peer, &with(given), &AuthCache::default()).await?;
    Ok(found.name.as_deref().unwrap_or("-").to_owned())
}

#[tokio::test]
async fn a_request_that_fits_an_entry_belongs_to_its_client() {
    let listeners = ["side", "other", "mtls"]
        .map(|name| format!("[[listener]]\nname = '{name}'\nunix = '{name}.sock'\n"))
        .concat();
    let toml = format!(
        "{listeners}[[client]]\nname = 'secret'\n{}\nnetworks = '127.0.0.0/8'\n\
         [[client]]\nname = 'fleet'\nnetworks = ['10.1.0.0/16', '2001:db8::/32']\n\
         [[client]]\nname = 'side'\nlisteners = ['side', 'other']\nnetworks = '127.0.0.0/8'\n\
         [[client]]\nname = 'shown'\ncertificates = 'crawler.example'\n\
         [[client]]\nname = 'printed'\ncertificates = 'sha256:{}'\nlisteners = 'mtls'\n",
        password("sesame"),
        "ab".repeat(32),
    );
    let clients = clients(&toml);
    let unknown = Err(AuthError::UnknownClient);
    let asked = Err(AuthError::Unauthenticated);
    let right = Some("secret:sesame");
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("by its network", peer("10.1.2.3", None, None, false), None, Ok("fleet")),
        ("by its network, on a socket for both", peer("::ffff:10.1.2.3", None, None, false), None, Ok("fleet")),
        ("by its network of IPv6", peer("2001:db8::7", None, None, false), None, Ok("fleet")),
        ("from elsewhere", peer("10.2.0.1", None, None, false), None, unknown),
        ("to its listener", peer("127.0.0.1", Some("side"), None, true), None, Ok("side")),
        ("to its listener, from elsewhere", peer("10.2.0.1", Some("side"), None, false), None, unknown),
        ("to another listener", peer("127.0.0.1", Some("main"), None, true), None, asked),
        ("by a name of its certificate, in other letters", peer("10.2.0.1", None, Some("Crawler.Example"), true), None, Ok("shown")),
        ("by no name of its certificate", peer("10.2.0.1", None, Some("other.example"), true), None, unknown),
        ("by its fingerprint, to its listener", peer("10.2.0.1", Some("mtls"), Some("x"), true), None, Ok("printed")),
        ("by its fingerprint, to another listener", peer("10.2.0.1", Some("main"), Some("x"), true), None, unknown),
        ("by its password", peer("127.0.0.1", None, None, true), right, Ok("secret")),
        ("by its password, where another fits without", peer("127.0.0.1", Some("side"), None, true), right, Ok("secret")),
        ("by its password, from elsewhere", peer("192.0.2.1", None, None, true), right, unknown),
        ("by its password, where others can listen", peer("127.0.0.1", None, None, false), right, unknown),
        ("with a wrong one", peer("127.0.0.1", None, None, true), Some("secret:wrong"), asked),
        ("with a wrong one, where another fits without", peer("127.0.0.1", Some("side"), None, true), Some("secret:wrong"), asked),
        ("with another's name", peer("127.0.0.1", None, None, true), Some("fleet:sesame"), asked),
        ("with an unknown name", peer("127.0.0.1", None, None, true), Some("nobody:sesame"), asked),
        ("with nothing", peer("127.0.0.1", None, None, true), None, asked),
        ("with credentials where none count", peer("10.1.2.3", None, None, false), Some("any:thing"), Ok("fleet")),
    ];
    for (name, peer, given, want) in cases {
        let found = self::named(&clients, &peer, given).await;
        assert_eq!(found, want.map(str::to_owned), "{name}");
    }
}

#[tokio::test]
async fn without_entries_there_is_one_client_and_a_last_entry_can_catch_the_rest() {
    let peer = peer("192.0.2.1", None, None, false);
    assert_eq!(named(&clients(""), &peer, None).await, Ok("-".into()));
    let given = Some("a:b");
    assert_eq!(named(&clients(""), &peer, given).await, Ok("-".into()));
    let toml = "[[client]]\nname = 'near'\nnetworks = '10.0.0.0/8'\n[[client]]\nname = 'rest'\n";
    assert_eq!(named(&clients(toml), &peer, None).await, Ok("rest".into()));
}

#[tokio::test]
async fn a_client_keeps_the_identity_that_it_was_recognised_with() {
    let all = |signing: &str| {
        let sections = ["news", "all"].map(|name| {
            format!(
                "[[signing]]\nname = '{name}'\nagent = 'https://a.example'\nkey = '{name}.key'\n"
            )
        });
        config(&format!("[agent]\nsigning = '{signing}'\n{}", sections.concat()))
    };
    let from = |client: &str, signing: &str| {
        let one = config(&format!("[[client]]\nname = '{client}'"));
        let mut from = Config { clients: one.clients, ..all("all") };
        for client in &mut from.clients {
            client.signing = (!signing.is_empty()).then(|| signing.into());
        }
        from
    };
    let recognise = async |clients: &Clients| {
        let peer = peer("192.0.2.1", None, None, true);
        let (headers, auth_cache) = (with(None), AuthCache::default());
        let found = clients.recognise(&peer, &headers, &auth_cache);
        found.await.expect("a client")
    };
    for (name, config, expected) in [
        ("its own", from("a", "news"), Some("news")),
        ("that of all others", from("a", ""), Some("all")),
        ("there are no clients", all("news"), Some("news")),
        ("there is none", all(""), None),
    ] {
        let clients = Clients::new(&config, None, Clock::manual(NOON));
        let client = recognise(&clients).await;
        clients.reconfigure(&from("b", ""));
        assert_eq!(client.signed_as.as_deref(), expected, "{name}");
        let after = recognise(&clients).await;
        assert_eq!(after.signed_as.as_deref(), Some("all"), "{name}");
    }
}

#[tokio::test]
async fn credentials_of_a_connection_count_until_it_sends_others_or_a_reload() {
    let toml = format!("[[client]]\nname = 'news'\n{}\n", password("sesame"));
    let clients = clients(&toml);
    let (peer, auth_cache) = (peer("127.0.0.1", None, None, true), AuthCache::default());
    let right = with(Some("news:sesame"));
    assert!(clients.cached(&auth_cache, &right).is_none(), "nothing shown yet");
    let first = clients.recognise(&peer, &right, &auth_cache).await;
    let first = first.expect("right");
    let again = clients.cached(&auth_cache, &right).expect("shown");
    assert!(Arc::ptr_eq(&first, &again));
    let mut twice = right.clone();
    twice.append(PROXY_AUTHORIZATION, HeaderValue::from_static("Basic x"));
    for (name, other) in [
        ("nothing", with(None)),
        ("a wrong one", with(Some("news:wrong"))),
        ("the same and another", twice),
    ] {
        assert!(clients.cached(&auth_cache, &other).is_none(), "{name}");
        let outcome = clients.recognise(&peer, &other, &auth_cache).await;
        assert_eq!(outcome.err(), Some(AuthError::Unauthenticated), "{name}");
    }
    assert!(clients.cached(&auth_cache, &right).is_some(), "a failure forgets nothing");
    let hashed = clients.passwords().hashed();
    clients.reconfigure(&config(&toml));
    assert!(clients.cached(&auth_cache, &right).is_none(), "after a reload");
    assert!(clients.recognise(&peer, &right, &auth_cache).await.is_ok());
    assert_eq!(clients.passwords().hashed(), hashed, "the same hash needs no other");
    let changed = format!("[[client]]\nname = 'news'\n{}\n", password("other"));
    clients.reconfigure(&config(&changed));
    let outcome = clients.recognise(&peer, &right, &auth_cache).await;
    assert_eq!(outcome.err(), Some(AuthError::Unauthenticated), "a changed password");
}

#[tokio::test]
async fn an_open_connection_keeps_its_client_while_its_conditions_stay() {
    let entry = |more: &str| format!("[[client]]\nname = 'news'\nnetworks = '127.0.0.0/8'\n{more}");
    let clients = clients(&entry("requests_per_second = 1"));
    let peer = peer("127.0.0.1", None, None, true);
    let opened = clients.recognise(&peer, &with(None), &AuthCache::default()).await;
    let opened = opened.expect("fits");
    let again = |clients: &Clients| {
        let found = clients.again(&opened, &peer, &AuthCache::default())?;
        Ok((found.name.as_deref().unwrap_or("-").to_owned(), found.rate))
    };
    let secret = format!("[[client]]\nname = 'news'\n{}\n", password("sesame"));
    let rate = |requests_per_second| Some(Rate { requests_per_second, burst: 1 });
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("as it was", entry("requests_per_second = 1"), Ok(("news".into(), rate(1.0)))),
        ("with other bounds", entry("requests_per_second = 2"), Ok(("news".into(), rate(2.0)))),
        ("taken over by another", "[[client]]\nname = 'rest'\n".into(), Ok(("rest".into(), None))),
        ("recognised by a password now", secret, Err(AuthError::UnknownClient)),
        ("gone", "[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'".into(), Err(AuthError::UnknownClient)),
        ("no clients any more", String::new(), Ok(("-".into(), None))),
    ];
    for (name, toml, want) in cases {
        clients.reconfigure(&config(&toml));
        assert_eq!(again(&clients), want, "{name}");
    }
}

#[tokio::test]
async fn a_request_that_was_held_goes_out_as_its_own_client_or_not_at_all() {
    let peer = peer("127.0.0.1", None, None, true);
    let secret = |word: &str| format!("[[client]]\nname = 'news'\n{}\n", password(word));
    let near = "[[client]]\nname = 'near'\nnetworks = '127.0.0.0/8'\n";
    let far = "[[client]]\nname = 'far'\nnetworks = '10.0.0.0/8'\n";
    let rest = "[[client]]\nname = 'rest'\n";
    let both = |one: &str, other: &str| [one, other].concat();
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("as it was", near.into(), None, near.into(), Ok("near")),
        ("removed", near.into(), None, far.into(), Err(AuthError::UnknownClient)),
        ("taken over by another", near.into(), None, rest.into(), Ok("rest")),
        ("its password stands", secret("a"), Some("news:a"), both(&secret("a"), rest), Ok("news")),
        ("its password is another", secret("a"), Some("news:a"), both(&secret("b"), rest), Err(AuthError::Unauthenticated)),
        ("no client has a password", secret("a"), Some("news:a"), rest.into(), Err(AuthError::UnknownClient)),
        ("no clients at first", String::new(), None, far.into(), Err(AuthError::UnknownClient)),
    ];
    for (name, before, given, after, want) in cases {
        let before: String = before;
        let clients = clients(&before);
        let headers = with(given);
        let found = clients.recognise(&peer, &headers, &AuthCache::default()).await;
        let held = found.unwrap_or_else(|why| panic!("{name}: {why:?}"));
        // The same password has another hash each time it is stored.
        let after: String = match name {
            "its password stands" => both(&before, rest),
            _ => after,
        };
        clients.reconfigure(&config(&after));
        let now = clients.reidentify(&held, &peer);
        let now = now.as_ref().map(|client| client.name.as_deref().unwrap_or("-"));
        assert_eq!(now.map_err(|auth_error| *auth_error), want, "{name}");
    }
}

#[tokio::test]
async fn an_account_outlives_a_reload() {
    let entry = |requests: u32| {
        format!("[[client]]\nname = 'news'\nquota = {{ requests = {requests}, per = '1d' }}\n")
    };
    let clients = clients(&entry(2));
    let peer = peer("127.0.0.1", None, None, true);
    let enter = async |clients: &Clients| {
        let found = clients.recognise(&peer, &with(None), &AuthCache::default()).await;
        let found = found.expect("fits");
        let entered = clients.enter(&found, NOON, Duration::ZERO).await;
        entered.map(Reservation::commit).is_ok()
    };
    assert!(enter(&clients).await);
    clients.reconfigure(&config(&entry(2)));
    assert!(enter(&clients).await);
    assert!(!enter(&clients).await, "two were had");
    clients.reconfigure(&config(&entry(3)));
    assert!(enter(&clients).await, "one more by now");
    assert!(!enter(&clients).await);
}

#[tokio::test]
async fn a_request_that_enters_again_is_held_only_for_the_rest_of_the_time() {
    let clients = clients("[[client]]\nname = 'news'\nrequests_per_second = 0.2\n");
    let peer = peer("127.0.0.1", None, None, true);
    let found = clients.recognise(&peer, &with(None), &AuthCache::default()).await.expect("fits");
    let max_hold = Config::default().pace.max_hold;
    assert!(max_hold > Duration::from_secs(5), "{max_hold:?}");
    let mut holds = Vec::new();
    for held in [0, 0, max_hold.as_secs() - 4] {
        let held = Duration::from_secs(held);
        let entered = clients.enter(&found, NOON, held).await;
        holds.push(entered.map(Reservation::commit).is_ok());
    }
    assert_eq!(holds, [true, true, false]);
}

#[test]
fn a_new_hash_is_read_back() {
    let hash = hash("schlüssel".as_bytes()).expect("hashes");
    assert!(crate::client::passwords::verify(&hash, "schlüssel".as_bytes()));
    assert!(!crate::client::passwords::verify(&hash, b"other"));
}
