//! Authorities that another program made.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crawlgate_ca::{Authority, CaError};
use crawlgate_system::clock::Clock;

use super::{has, openssl_connects, serve, succeed, tls};

#[test]
fn authorities_made_by_openssl_are_accepted() {
    if !has("openssl", "version") {
        return;
    }
    let req = "openssl req -x509 -days 30 -config ca.cnf -keyout ca.key -out ca.crt -nodes";
    let ec = "-newkey ec -pkeyopt ec_paramgen_curve:P-256";
    let usual = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\n\
                 subjectKeyIdentifier=hash\n";
    let no_key_id = "basicConstraints=critical,CA:TRUE\nsubjectKeyIdentifier=none\n";
    let plain = "CN=Test CA";
    let with_mail = "C=DE\nO=Example Ltd.\nCN=B\u{fc}cher CA\nemailAddress=ca@example.com";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("P-256", format!("{req} {ec}"), plain, usual, true),
        ("a long subject", format!("{req} {ec} -utf8"), with_mail, usual, true),
        ("P-384", format!("{req} -newkey ec -pkeyopt ec_paramgen_curve:P-384"), plain, usual, true),
        ("RSA", format!("{req} -newkey rsa:2048"), plain, usual, true),
        ("Ed25519", format!("{req} -newkey ed25519"), plain, usual, true),
        ("no subject key identifier", format!("{req} {ec}"), plain, no_key_id, false),
        (
            "a SEC 1 key after its parameters",
            "openssl ecparam -name prime256v1 -genkey -out ca.key && \
             openssl req -x509 -days 30 -config ca.cnf -key ca.key -out ca.crt"
                .to_owned(),
            plain,
            usual,
            true,
        ),
        (
            "a PKCS #1 key",
            "openssl genrsa -traditional -out ca.key 2048 && \
             openssl req -x509 -days 30 -config ca.cnf -key ca.key -out ca.crt"
                .to_owned(),
            plain,
            usual,
            true,
        ),
    ];
    for (name, script, subject, extensions, strict) in cases {
        let directory = tempfile::tempdir().unwrap();
        openssl_makes(directory.path(), &script, subject, extensions);
        let authority = Authority::load(&tls(directory.path()), Clock::system())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let address = serve(authority.server_config("www.example.com").unwrap());
        eprintln!("{name}");
        openssl_connects(address, "www.example.com", authority.certificate_path(), strict);
    }
}

#[test]
fn certificates_that_may_not_sign_and_subjects_that_cannot_be_repeated_are_refused() {
    if !has("openssl", "version") {
        return;
    }
    let req = "openssl req -x509 -config ca.cnf -keyout ca.key -out ca.crt -nodes \
               -newkey ec -pkeyopt ec_paramgen_curve:P-256";
    #[rustfmt::skip] // one row, one case
    let cases = [
        ("a server's certificate", "CN=a", "basicConstraints=critical,CA:FALSE\n", "CA:TRUE"),
        (
            "an authority that may only sign revocations",
            "CN=a",
            "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,cRLSign\n",
            "keyCertSign",
        ),
        ("two units of one organisation", "0.OU=a\n1.OU=b\nCN=a", "basicConstraints=critical,CA:TRUE\n", "subject"),
    ];
    for (name, subject, extensions, says) in cases {
        let directory = tempfile::tempdir().unwrap();
        openssl_makes(directory.path(), req, subject, extensions);
        let error: CaError = Authority::load(&tls(directory.path()), Clock::system()).unwrap_err();
        let said = error.to_string();
        says!(said, says, "ca.crt"; "{name}");
    }
}

/// Runs `script` in `directory`, where `ca.cnf` gives it the subject and the extensions.
fn openssl_makes(directory: &Path, script: &str, subject: &str, extensions: &str) {
    let config = format!(
        "[req]\nprompt=no\ndistinguished_name=subject\nx509_extensions=extensions\n\
         [subject]\n{subject}\n[extensions]\n{extensions}"
    );
    fs::write(directory.join("ca.cnf"), config).unwrap();
    succeed(Command::new("sh").args(["-e", "-c", script]).current_dir(directory));
    fs::set_permissions(directory.join("ca.key"), fs::Permissions::from_mode(0o600)).unwrap();
}
