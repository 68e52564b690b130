use super::*;

#[test]
fn each_fault_is_told_with_its_facts_and_is_read_again_from_its_code() {
    let at = Moment::from_millis(1_705_312_800_000);
    let names = |names: &[&str]| TlsFault::OtherNames(Names::of(names));
    let authority = || shown("CN=Example Root, O=Example: \u{202e}");
    let many: Vec<String> = (0..50).map(|number| format!("{number}.example")).collect();
    use Holder::{Issuer, Origin};
    #[rustfmt::skip] // one row, one case
    let cases = [
        (TlsFault::Expired(Origin, at), "certificate_expired:2024-01-15T10:00:00.000Z", "its certificate expired on 2024-01-15 at 10:00 UTC"),
        (TlsFault::Expired(Issuer, at), "certificate_issuer_expired:", "the certificate of its issuer expired on 2024-01-15"),
        (TlsFault::NotYetValid(Origin, at), "certificate_not_yet_valid:", "its certificate is not valid before 2024-01-15"),
        (TlsFault::NotYetValid(Issuer, at), "certificate_issuer_not_yet_valid:", "the certificate of its issuer is not valid before"),
        (names(&["a.example", "*.b.example"]), "certificate_names:a.example,*.b.example", "for a.example, *.b.example, not"),
        (names(&[]), "certificate_names:", "for no host"),
        (TlsFault::OtherNames(Names::of(&many)), "certificate_names:0.example,1.example,", " more, not for it"),
        (TlsFault::UnknownIssuer(authority()), "certificate_unknown_issuer:CN=Example Root, O=Example: ", "issued by CN=Example Root, O=Example: \\u{202e},"),
        (TlsFault::UntrustedRoot(authority()), "certificate_untrusted_root:CN=", "extra_roots can name this authority"),
        (TlsFault::SelfSigned(authority()), "certificate_self_signed:CN=", "signed itself ([tls] extra_roots can name this certificate)"),
        (TlsFault::CaAsLeaf(authority()), "certificate_of_a_ca:CN=", "is that of an authority"),
        (TlsFault::WeakKey(1024), "certificate_weak_key:1024", "an RSA key of 1024 bits"),
        (TlsFault::SignatureAlgorithm("sha1WithRSAEncryption".into()), "certificate_signature_algorithm:sha1", "signed with sha1WithRSAEncryption"),
        (TlsFault::BadSignature, "certificate_signature", "is false"),
        (TlsFault::Purpose, "certificate_purpose", "not for servers"),
        (TlsFault::Constraints, "certificate_constraints", "outside the constraints"),
        (TlsFault::OldCertificate, "certificate_version", "version 3"),
        (TlsFault::UnreadableCertificate, "certificate_unreadable", "cannot be read"),
        (TlsFault::NoCertificate, "certificate_missing", "no certificate"),
        (TlsFault::Certificate, "certificate", "could not be verified"),
        (TlsFault::Alert(40), "tls_alert:40", "alert handshake_failure (40)"),
        (TlsFault::Alert(70), "tls_alert:70", "neither TLS 1.2"),
        (TlsFault::Alert(112), "tls_alert:112", "unrecognized_name (112)"),
        (TlsFault::Alert(116), "tls_alert:116", "a certificate of the client"),
        (TlsFault::Alert(200), "tls_alert:200", "unknown (200)"),
        (TlsFault::Version, "tls_version", "neither TLS 1.2 nor TLS 1.3"),
        (TlsFault::NoCommonAlgorithm, "tls_algorithm", "no algorithm"),
        (TlsFault::NotTls, "tls_not_spoken", "does not speak TLS"),
        (TlsFault::Closed, "tls_closed", "closed the connection"),
        (TlsFault::ServerName, "tls_server_name", "fits no TLS session"),
        (TlsFault::Protocol, "tls", "break the protocol"),
    ];
    for (fault, begins, says) in cases {
        let (code, words) = (fault.code(), fault.to_string());
        assert!(code.starts_with(begins), "{code}");
        assert!(code.len() < 256, "a record cuts it: {code}");
        assert!(words.contains(says), "{words}");
        let is_of_the_certificate = code.starts_with("certificate");
        assert_eq!(fault.is_of_the_certificate(), is_of_the_certificate, "{code}");
        assert_eq!(TlsFault::from_code(&code), Some(fault), "{code}");
    }
    for code in ["certificate_expired:today", "tls_alert:256", "tls_alert", "dns"] {
        assert_eq!(TlsFault::from_code(code), None, "{code}");
    }
}

#[test]
fn a_foreign_text_is_cut_between_characters() {
    let long = "é".repeat(MOST);
    let kept = shown(&long);
    assert!(kept.len() <= MOST && kept.ends_with("é..."), "{kept}");
    assert_eq!(shown(&kept), kept, "cutting again changes nothing");
    assert_eq!(Names::of([&long]).more + Names::of([&long]).first.len(), 1);
}
