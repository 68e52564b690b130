//! Each fault of a certificate, as it is told: one row, one fault.

use std::fs;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, GeneralSubtree, IsCa,
    Issuer, KeyPair, NameConstraints, date_time_ymd,
};
use rustls::pki_types::pem::PemObject as _;
use rustls::{AlertDescription, PeerMisbehaved};

use super::*;
use crawlgate_origins::access::Cause;
use crawlgate_system::clock::Clock;

/// Certificates that openssl made until 2126, of kinds that rcgen does not make: an RSA root, a root with a short key, then
/// leaves for `site.test`: signed with SHA-1, with a short key, under the root with a short key, of version 1.
const OLD: &str = include_str!("old.pem");

type Change = fn(&mut CertificateParams);

/// An authority of the table, or a server that signs itself.
struct Signer {
    der: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

fn params(name: &str, hosts: &[&str], change: Change) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut params = CertificateParams::new(hosts).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    change(&mut params);
    params
}

fn authority(params: &mut CertificateParams) {
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
}

fn self_signed(name: &str, hosts: &[&str], change: Change) -> Signer {
    let (params, key) = (params(name, hosts, change), KeyPair::generate().unwrap());
    let der = params.self_signed(&key).unwrap().der().clone();
    let issuer = Issuer::new(params, key);
    Signer { der, issuer }
}

impl Signer {
    fn issue(&self, name: &str, hosts: &[&str], change: Change) -> Signer {
        let (params, key) = (params(name, hosts, change), KeyPair::generate().unwrap());
        let der = params.signed_by(&key, &self.issuer).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        Signer { der, issuer }
    }

    fn leaf(&self, change: Change) -> CertificateDer<'static> {
        self.issue("a server", &["site.test"], change).der
    }
}

/// Returns the verifier of a configuration with these certificates in a file of `extra_roots`.
fn verifier(extra: &[&CertificateDer<'_>]) -> Arc<Verifier> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("extra.pem");
    let pem: String = extra.iter().map(|der| crawlgate_text::pem("CERTIFICATE", der)).collect();
    fs::write(&file, pem).unwrap();
    let trusted = super::super::upstream_roots(&[file]).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Verifier::new(trusted, provider).unwrap()
}

/// Verifies a chain for a host, now.
fn verify(verifier: &Verifier, chain: &[&CertificateDer<'_>], host: &str) -> Result<(), TlsFault> {
    let (leaf, issuers) = chain.split_first().unwrap();
    let issuers: Vec<CertificateDer<'_>> = issuers.iter().map(|one| (*one).clone()).collect();
    let name = ServerName::try_from(host.to_owned()).unwrap();
    let now = Clock::system().now().as_millis() / 1000;
    let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(now));
    let verified = verifier.verify_server_cert(leaf, &issuers, &name, &[], now);
    verified.map(drop).map_err(|error| tls_fault(&error))
}

fn expired(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2019, 1, 1), date_time_ymd(2020, 2, 3));
}

fn not_yet_valid(params: &mut CertificateParams) {
    (params.not_before, params.not_after) = (date_time_ymd(2096, 1, 1), date_time_ymd(2097, 1, 1));
}

#[test]
fn each_fault_of_a_certificate_has_its_own_words_and_facts() {
    let root = self_signed("a root", &[], authority);
    let unknown = self_signed("an unknown root", &[], authority);
    let middle = root.issue("an issuer", &[], authority);
    let old_middle = root.issue("an old issuer", &[], |params| {
        authority(params);
        expired(params);
    });
    let narrow = root.issue("a narrow issuer", &[], |params| {
        authority(params);
        params.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("elsewhere.test".to_owned())],
            excluded_subtrees: Vec::new(),
        });
    });
    let no_authority = root.issue("another server", &["site.test"], |_| ());
    let plain: Change = |_| ();
    let others = |hosts: &[&str]| root.issue("a server", hosts, plain).der;
    let old: Vec<_> = CertificateDer::pem_slice_iter(OLD.as_bytes()).map(Result::unwrap).collect();
    let [old_root, weak_root, sha1, weak, by_weak, version_1] = &old[..] else {
        panic!("{}", old.len());
    };
    let verifier = self::verifier(&[&root.der, old_root, weak_root]);
    let alone = self_signed("alone", &["site.test"], plain).der;
    let alone_as_ca = self_signed("alone", &["site.test"], authority).der;
    let rubbish = CertificateDer::from(b"rubbish".to_vec());
    let mut wrong = Vec::new();
    let mut row = |name: &str, chain: &[&CertificateDer<'_>], code: &str, words: &str| {
        let fault = verify(&verifier, chain, "site.test").expect_err(name);
        let cause = Cause::from(fault);
        let (found, said) = (cause.code(), cause.to_string());
        if !found.starts_with(code) || !said.contains(words) {
            wrong.push(format!("{name}: {found}: {said}"));
        }
        assert_eq!(Cause::from_code(&found), Some(cause), "{name}");
    };
    #[rustfmt::skip] // one row, one case
    {
        row("expired", &[&root.leaf(expired)], "certificate_expired:2020-02-03T00:00:00.000Z", "its certificate expired on 2020-02-03 at 00:00 UTC");
        row("expired, and for another name", &[&root.issue("", &["other.test"], expired).der], "certificate_expired:2020", "expired");
        row("not yet valid", &[&root.leaf(not_yet_valid)], "certificate_not_yet_valid:2096-01-01", "not valid before 2096-01-01");
        row("an expired issuer", &[&old_middle.leaf(plain), &old_middle.der], "certificate_issuer_expired:2020-02-03", "the certificate of its issuer expired on 2020-02-03");
        row("other names", &[&others(&["other.test", "*.elsewhere.test", "192.0.2.1", "2001:db8::1"])], "certificate_names:other.test,*.elsewhere.test,192.0.2.1,2001:db8::1", "for other.test, *.elsewhere.test, 192.0.2.1, 2001:db8::1, not");
        row("no name", &[&root.issue("site.test", &[], plain).der], "certificate_names:", "no subjectAltName");
        row("an unknown issuer", &[&unknown.leaf(plain)], "certificate_unknown_issuer:CN=an unknown root", "issued by CN=an unknown root");
        row("an untrusted root", &[&unknown.leaf(plain), &unknown.der], "certificate_untrusted_root:CN=an unknown root", "under CN=an unknown root");
        row("a missing intermediate", &[&middle.leaf(plain)], "certificate_unknown_issuer:CN=an issuer", "may leave out an intermediate");
        row("a server as issuer", &[&no_authority.leaf(plain), &no_authority.der], "certificate_constraints", "outside the constraints");
        row("self-signed", &[&alone], "certificate_self_signed:CN=alone", "signed itself");
        row("self-signed, as a CA", &[&alone_as_ca], "certificate_self_signed:CN=alone", "extra_roots can name this certificate");
        row("a CA as a server", &[&root.leaf(authority)], "certificate_of_a_ca:CN=a server", "an authority, not of a server");
        row("for clients alone", &[&root.leaf(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth])], "certificate_purpose", "not for servers");
        row("outside of the constraints", &[&narrow.leaf(plain), &narrow.der], "certificate_constraints", "outside the constraints");
        row("an old algorithm", &[sha1], "certificate_signature_algorithm:sha1WithRSAEncryption", "signed with sha1WithRSAEncryption");
        row("under a short key", &[by_weak, weak_root], "certificate_weak_key:1024", "1024 bits");
        row("of version 1", &[version_1], "certificate_version", "version 3");
        row("rubbish", &[&rubbish], "certificate_unreadable", "cannot be read");
    };
    let false_signature = {
        let mut der = root.leaf(plain).to_vec();
        *der.last_mut().unwrap() ^= 1;
        CertificateDer::from(der)
    };
    row("a false signature", &[&false_signature], "certificate_signature", "is false");
    assert!(wrong.is_empty(), "{wrong:#?}");
    // The signature of the handshake: a short key verifies none.
    let bad: rustls::Error = CertificateError::BadSignature.into();
    assert_eq!(diagnosis::of_signature(&bad, weak), TlsFault::WeakKey(1024));
    let sound = root.leaf(plain);
    assert_eq!(diagnosis::of_signature(&bad, &sound), TlsFault::BadSignature);
    assert_eq!(verify(&verifier, &[&sound], "site.test"), Ok(()));
    let whole = [&middle.leaf(plain), &middle.der];
    assert_eq!(verify(&verifier, &whole, "site.test"), Ok(()));
}

#[test]
fn a_certificate_in_a_file_of_roots_is_trusted_as_it_is_for_its_names_and_time() {
    let plain: Change = |_| ();
    let named = |change| self_signed("site.test", &["site.test", "127.0.0.1"], change).der;
    let unnamed = self_signed("site.test", &[], authority).der;
    let by_address = self_signed("127.0.0.1", &[], authority).der;
    let expired = named(|params| {
        authority(params);
        expired(params);
    });
    let (leaf, ca) = (named(plain), named(authority));
    let of_another = self_signed("a root", &[], authority).leaf(plain);
    let verifier = self::verifier(&[&leaf, &ca, &unnamed, &by_address, &expired, &of_another]);
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a server's", &leaf, "site.test", true),
        ("a CA's, as openssl makes it", &ca, "site.test", true),
        ("for its address", &ca, "127.0.0.1", true),
        ("for another host", &ca, "other.test", false),
        ("by its common name", &unnamed, "Site.test", true),
        ("by another common name", &unnamed, "other.test", false),
        ("by its common name, an address", &by_address, "127.0.0.1", true),
        ("expired", &expired, "site.test", false),
        ("signed by an authority that is not trusted", &of_another, "site.test", true),
    ];
    for (name, certificate, host, trusted) in cases {
        let verified = verify(&verifier, &[certificate], host);
        assert_eq!(verified.is_ok(), trusted, "{name}: {verified:?}");
    }
    // Another certificate of the same name and key form is another certificate.
    let twin = named(authority);
    assert!(verify(&verifier, &[&twin], "site.test").is_err());
    // What it signs is not trusted by its common name.
    let ca = self_signed("site.test", &[], authority);
    let verifier = self::verifier(&[&ca.der]);
    let issued = ca.issue("site.test", &[], plain).der;
    assert!(verify(&verifier, &[&issued], "site.test").is_err());
}

#[test]
fn each_end_of_a_handshake_has_its_fault() {
    #[rustfmt::skip] // one row, one case
    let cases = [
        (rustls::Error::AlertReceived(AlertDescription::HandshakeFailure), TlsFault::Alert(40)),
        (rustls::Error::AlertReceived(AlertDescription::UnrecognisedName), TlsFault::Alert(112)),
        (PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into(), TlsFault::Version),
        (PeerIncompatible::NoCipherSuitesInCommon.into(), TlsFault::NoCommonAlgorithm),
        (InvalidMessage::InvalidContentType.into(), TlsFault::NotTls),
        (rustls::Error::NoCertificatesPresented, TlsFault::NoCertificate),
        (PeerMisbehaved::IllegalMiddleboxChangeCipherSpec.into(), TlsFault::Protocol),
    ];
    for (error, fault) in cases {
        assert_eq!(tls_fault(&error), fault, "{error}");
    }
}
