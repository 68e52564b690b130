use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crawlgate_config::{Config, TokenDigest};
use crawlgate_turns::client::passwords::hash;

const PEER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 4000);
const SHARED: &str = "shared-shared-shared";
const OF_PROM: &str = "0123456789abcdef";

fn users() -> Vec<AdminUser> {
    vec![
        AdminUser {
            name: "ada".into(),
            role: Role::Review,
            password: Some(hash(b"open sesame").expect("hashes")),
            token: None,
        },
        AdminUser {
            name: "prom".into(),
            role: Role::Read,
            password: None,
            token: Some(TokenDigest::of(OF_PROM.as_bytes())),
        },
    ]
}

fn admin(users: Vec<AdminUser>) -> AdminConfig {
    AdminConfig { users, ..Config::default().admin }
}

fn access(token: Option<&str>) -> Access {
    let clock = Clock::system();
    Access::new(token.map(Token::of), Refusals::new(clock.clone()), clock)
}

fn fields(lines: &[String]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        headers.append(AUTHORIZATION, line.parse().expect("a field"));
    }
    headers
}

fn basic(pair: &str) -> String {
    format!("Basic {}", STANDARD.encode(pair))
}

/// A name, the check, the fields of a request, and its sender.
type Case<'a> = (&'a str, &'a Access, Vec<String>, Result<Actor, Refusal>);

#[tokio::test]
async fn credentials_tell_who_sends_a_request() {
    let users = users();
    let (with_token, without) = (access(Some(SHARED)), access(None));
    let [ada, prom] = [0, 1].map(|place| Actor::User(users[place].clone()));
    let admin = admin(users);
    let bearer = |token: &str| format!("Bearer {token}");
    #[rustfmt::skip] // one row, one case
    let cases: Vec<Case<'_>> = vec![
        ("nothing", &with_token, vec![], Err(Refusal::Missing)),
        ("nothing, and no shared token", &without, vec![], Err(Refusal::Missing)),
        ("the shared token", &with_token, vec![bearer(SHARED)], Ok(Actor::TokenHolder)),
        ("a scheme in another case", &with_token, vec![format!("bEaReR {SHARED}")], Ok(Actor::TokenHolder)),
        ("more than it", &with_token, vec![bearer(&format!("{SHARED}0"))], Err(Refusal::Wrong)),
        ("a part of it", &with_token, vec![bearer(&SHARED[1..])], Err(Refusal::Wrong)),
        ("it without a scheme", &with_token, vec![SHARED.into()], Err(Refusal::Wrong)),
        ("it as the password to any name", &with_token, vec![basic(&format!("eve:{SHARED}"))], Ok(Actor::TokenHolder)),
        ("it as the password to no name", &with_token, vec![basic(&format!(":{SHARED}"))], Ok(Actor::TokenHolder)),
        ("it as the password of a user", &with_token, vec![basic(&format!("ada:{SHARED}"))], Ok(Actor::TokenHolder)),
        ("it where there is none", &without, vec![bearer(SHARED)], Err(Refusal::Wrong)),
        ("it where there is none, as a password", &without, vec![basic(&format!("ada:{SHARED}"))], Err(Refusal::Wrong)),
        ("a password", &without, vec![basic("ada:open sesame")], Ok(ada.clone())),
        ("a password, beside a shared token", &with_token, vec![basic("ada:open sesame")], Ok(ada)),
        ("a wrong password", &without, vec![basic("ada:open says me")], Err(Refusal::Wrong)),
        ("an empty password", &without, vec![basic("ada:")], Err(Refusal::Wrong)),
        ("the password of another user", &without, vec![basic("prom:open sesame")], Err(Refusal::Wrong)),
        ("an unknown user", &without, vec![basic("eve:open sesame")], Err(Refusal::Wrong)),
        ("a name in other letters", &without, vec![basic("Ada:open sesame")], Err(Refusal::Wrong)),
        ("a user's token", &without, vec![bearer(OF_PROM)], Ok(prom.clone())),
        ("a user's token as its password", &without, vec![basic(&format!("prom:{OF_PROM}"))], Ok(prom)),
        ("a user's token as another one's password", &without, vec![basic(&format!("ada:{OF_PROM}"))], Err(Refusal::Wrong)),
        ("a password as a token", &without, vec![bearer("open sesame")], Err(Refusal::Wrong)),
        ("an empty token", &without, vec!["Bearer ".into()], Err(Refusal::Wrong)),
        ("no base64", &without, vec!["Basic !!".into()], Err(Refusal::Wrong)),
        ("another scheme", &with_token, vec![format!("Digest {SHARED}")], Err(Refusal::Wrong)),
        ("two fields", &with_token, vec![bearer(SHARED), bearer(SHARED)], Err(Refusal::Wrong)),
    ];
    for (name, access, lines, expected) in cases {
        let found = access.identify(&admin, &fields(&lines), PEER).await;
        assert_eq!(found, expected, "{name}");
    }
}

#[tokio::test]
async fn without_credentials_in_the_configuration_everyone_is_let_in() {
    for lines in [vec![], vec![basic("ada:x")]] {
        let (access, admin) = (access(None), admin(vec![]));
        let found = access.identify(&admin, &fields(&lines), PEER).await;
        assert_eq!(found, Ok(Actor::Anyone));
    }
}

#[tokio::test]
async fn after_the_last_user_no_request_is_let_in() {
    let (never, with, after) =
        (admin(vec![]), admin(users()), AdminConfig { had_users: true, ..admin(vec![]) });
    let access = access(None);
    let ask = async |admin: &AdminConfig, lines: &[String]| {
        access.identify(admin, &fields(lines), PEER).await
    };
    let before = ask(&never, &[]).await.expect("open");
    assert_eq!(before, Actor::Anyone);
    assert_eq!(ask(&after, &[]).await, Err(Refusal::Missing));
    let token = format!("Bearer {OF_PROM}");
    assert_eq!(ask(&after, &[token]).await, Err(Refusal::Wrong));
    // An answer that continues.
    for (name, admin, stands) in
        [("never", &never, true), ("with", &with, false), ("after", &after, false)]
    {
        assert_eq!(before.stands(admin), stands, "{name}");
        assert!(Actor::TokenHolder.stands(admin), "{name}");
    }
}

#[tokio::test]
async fn a_user_acts_by_the_users_in_force() {
    let mut admin = admin(users());
    let access = access(None);
    let shown = fields(&[basic("ada:open sesame")]);
    let found = access.identify(&admin, &shown, PEER).await;
    let before = found.expect("right");
    assert!(before.stands(&admin) && before.role() == Role::Review);
    admin.users[0].role = Role::Read;
    assert!(!before.stands(&admin));
    let found = access.identify(&admin, &shown, PEER).await;
    assert_eq!(found.expect("right").role(), Role::Read, "another role");
    admin.users[0].password = Some(hash(b"another one").expect("hashes"));
    let found = access.identify(&admin, &shown, PEER).await;
    assert_eq!(found, Err(Refusal::Wrong), "another password");
    admin.users.remove(0);
    let found = access.identify(&admin, &shown, PEER).await;
    assert_eq!(found, Err(Refusal::Wrong), "the user is gone");
}

#[tokio::test]
async fn guesses_are_put_off_and_right_credentials_are_not() {
    let admin = admin(users());
    let access = access(None);
    let ask = async |pair: String, peer| {
        let shown = fields(&[basic(&pair)]);
        access.identify(&admin, &shown, peer).await
    };
    // Known from before.
    assert!(ask("ada:open sesame".into(), PEER).await.is_ok());
    let mut put_off = 0;
    for guess in 0..12 {
        let found = ask(format!("ada:guess {guess}"), PEER).await;
        put_off += usize::from(matches!(found, Err(Refusal::TooMany(_))));
    }
    assert!(put_off > 0, "the address has a few attempts");
    assert!(ask("ada:open sesame".into(), PEER).await.is_ok());
    let elsewhere = SocketAddr::from(([192, 0, 2, 7], 4000));
    assert_eq!(ask("ada:guess".into(), elsewhere).await, Err(Refusal::Wrong));
}

#[test]
fn an_act_is_recorded_under_the_users_name() {
    let ada = Actor::User(users().remove(0));
    for (name, actor, named, expected) in [
        ("a user", &ada, None, Some("ada")),
        ("an empty name", &ada, Some(" "), Some("ada")),
        ("the same name", &ada, Some("ada"), Some("ada")),
        ("the same name in space", &ada, Some(" ada "), Some("ada")),
        ("a sender without a name", &Actor::Anyone, None, None),
        ("any person", &Actor::Anyone, Some("Eve"), Some("Eve")),
        ("the shared token", &Actor::TokenHolder, Some("Eve"), Some("Eve")),
    ] {
        assert_eq!(actor.acts_as(named).expect(name).as_deref(), expected, "{name}");
    }
    for named in ["Ada", "eve", "ada eve"] {
        let refused = ada.acts_as(Some(named)).expect_err(named);
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{named}");
        assert!(refused.detail().contains(named), "{refused}");
    }
}

#[test]
fn a_request_takes_the_role_of_its_route() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        (Method::GET, "/origin/forget", Role::Read),
        (Method::HEAD, "/denials", Role::Read),
        (Method::POST, "/try", Role::Read),
        (Method::PUT, "/try", Role::Operate),
        (Method::DELETE, "/auth", Role::Read),
        (Method::POST, "/denials/acknowledge", Role::Review),
        (Method::DELETE, "/api/v1/acknowledgements", Role::Operate),
        (Method::POST, "/origin/forget", Role::Operate),
        (Method::POST, "/overrides", Role::Operate),
        (Method::POST, "/no/such/route", Role::Operate),
        (Method::OPTIONS, "/denials", Role::Operate),
        (Method::TRACE, "/try", Role::Operate),
    ];
    for (method, route, role) in cases {
        assert_eq!(role_of(&method, route), role, "{method} {route}");
    }
    for (of, route, role) in &LESSER_ROLES {
        let method = of.clone().unwrap_or(Method::PATCH);
        assert_eq!(role_of(&method, route), *role, "{route}");
    }
}
