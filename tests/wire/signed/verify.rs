//! The requests that origins were sent, and the verification of their signatures: by hand, and by another program.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use crawlgate_signing::SigningKey;
use serde_json::{Value, json};

use crate::support::http2_origin::SeenStream;
use crate::support::peer::python_with;
use crate::support::{CrawlgateProcess, Origin, Setup};

/// The URL of the identity of these tests.
pub const AGENT: &str = "https://bot.example/.well-known/http-message-signatures-directory";

/// The fields of a signature.
pub const FIELDS: [&str; 3] = ["signature-agent", "signature-input", "signature"];

/// One request as an origin received it.
#[derive(Debug, Clone)]
pub struct Sent {
    pub method: String,
    pub url: String,
    pub fields: Vec<(String, String)>,
}

impl Sent {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.fields.iter();
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn is_signed(&self) -> bool {
        FIELDS.iter().any(|name| self.field(name).is_some())
    }

    /// Returns a parameter of the signature.
    #[track_caller]
    pub fn parameter(&self, name: &str) -> &str {
        let input = self.field("signature-input").unwrap();
        let (_, rest) = input.split_once(&format!(";{name}=")).unwrap();
        rest.split(';').next().unwrap().trim_matches('"')
    }

    /// Returns the authority, path and query of the URL.
    pub fn target(&self) -> (&str, &str, &str) {
        let rest = self.url.split_once("://").unwrap().1;
        let (authority, path) = rest.split_at(rest.find('/').unwrap());
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        (authority, path, query)
    }
}

/// Returns what an origin was sent, in order.
pub fn by_http1(origin: &Origin) -> Vec<Sent> {
    let scheme = origin.url("").split("://").next().unwrap().to_owned();
    let seen = origin.seen().into_iter();
    seen.map(|seen| {
        let text = seen.head.text();
        let fields = text.lines().skip(1).filter_map(|line| line.split_once(':'));
        let host = seen.head.field("host").unwrap();
        Sent {
            method: seen.head.word(0),
            url: format!("{scheme}://{host}{}", seen.head.word(1)),
            fields: fields
                .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
                .collect(),
        }
    })
    .collect()
}

pub fn by_http2(seen: &SeenStream) -> Sent {
    let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
    let fields = seen.fields.iter();
    Sent {
        method: seen.method.clone(),
        url: format!("https://{}{}", seen.authority, seen.path),
        fields: fields.map(|(name, value)| (name.as_str().to_owned(), text(value))).collect(),
    }
}

/// Makes the key of an identity; returns its section.
pub fn identity(setup: &Setup, name: &str, more: &str) -> (SigningKey, String) {
    let file = format!("{name}.key");
    let key = SigningKey::create(&setup.dir().join(&file)).unwrap();
    let section =
        format!("[[signing]]\nname = '{name}'\nagent = '{AGENT}'\nkey = '{file}'\n{more}\n");
    (key, section)
}

/// Returns a gate that signs requests, and its key.
pub fn signing_gate(more: &str) -> (CrawlgateProcess, SigningKey) {
    signing_gate_with(more, |_| ())
}

/// Does the same with more settings.
pub fn signing_gate_with(
    more: &str,
    configure: impl FnOnce(&mut Setup),
) -> (CrawlgateProcess, SigningKey) {
    let mut made = None;
    let gate = CrawlgateProcess::with(|setup| {
        configure(setup);
        let (key, section) = identity(setup, "news", more);
        setup.set("agent", "signing", "\"news\"");
        setup.tables(&section);
        made = Some(key);
    });
    (gate, made.unwrap())
}

/// Asserts that a request is signed by the key as crawlgate does it by default.
#[track_caller]
pub fn is_signed_by(sent: &Sent, key: &SigningKey) {
    let (authority, path, query) = sent.target();
    let agent = format!("crawlgate=\"{AGENT}\"");
    assert_eq!(sent.field("signature-agent"), Some(&*agent), "{sent:?}");
    let input = sent.field("signature-input").unwrap();
    let params = input.strip_prefix("crawlgate=").unwrap();
    let base = format!(
        "\"@method\": {}\n\"@authority\": {authority}\n\"@path\": {path}\n\"@query\": ?{query}\n\
         \"signature-agent\";key=\"crawlgate\": \"{AGENT}\"\n\"@signature-params\": {params}",
        sent.method
    );
    let signature = sent.field("signature").unwrap();
    let signature = signature.strip_prefix("crawlgate=:").unwrap();
    let signature = STANDARD.decode(signature.strip_suffix(':').unwrap());
    let public = URL_SAFE_NO_PAD.decode(key.public()).unwrap();
    let public = UnparsedPublicKey::new(&ED25519, public);
    let verified = public.verify(base.as_bytes(), &signature.unwrap());
    assert!(verified.is_ok(), "{sent:?}\n{base}");
    assert_eq!(sent.parameter("keyid"), &**key.thumbprint());
    let number = |name| sent.parameter(name).parse::<u64>().unwrap();
    assert_eq!(number("expires") - number("created"), 60);
    assert_eq!(STANDARD.decode(sent.parameter("nonce")).unwrap().len(), 32);
}

/// Returns the words of another program about these messages, one for each; `None` if it is not installed.
pub fn verdicts(keys: &[&SigningKey], messages: &[Value]) -> Option<Vec<String>> {
    let python = python_with("http_message_signatures", "http-message-signatures")?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/signed/verify.py");
    let mut command = Command::new(python);
    command.arg(script);
    Some(ask(command, keys, messages))
}

/// Returns the lines that a command prints about these messages.
#[track_caller]
pub fn ask(mut command: Command, keys: &[&SigningKey], messages: &[Value]) -> Vec<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let keys = keys.iter().map(|key| (&**key.thumbprint(), key.public()));
    let document = json!({ "keys": keys.collect::<BTreeMap<_, _>>(), "messages": messages });
    let mut input = child.stdin.take().unwrap();
    input.write_all(document.to_string().as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    said.lines().map(str::to_owned).collect()
}

pub fn message(sent: &Sent) -> Value {
    let lower = |(name, value): &(String, String)| (name.to_ascii_lowercase(), value.clone());
    let fields: BTreeMap<_, _> = sent.fields.iter().map(lower).collect();
    json!({ "method": sent.method, "url": sent.url, "headers": fields })
}
