//! Prints the line of an entry of a decision log, with nothing but `crawlgate_record`.
//!
//! ```sh
//! cargo run -p crawlgate-record --example line -- ENTRY [OBJECT…]
//! ```
//!
//! Each argument is a file of octets: the entry, and the bodies of the objects that it names by their SHA-256.

// A program of one screen: what it prints is its result.
#![allow(clippy::print_stderr)]

use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::{env, fs};

use aws_lc_rs::digest::{SHA256, digest};
use crawlgate_record::{Digest, Entry, write_line};

fn main() -> ExitCode {
    let files: Vec<String> = env::args().skip(1).collect();
    match line(&files).map(|line| io::stdout().lock().write_all(&line)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            eprintln!("standard output: {error}");
            ExitCode::from(2)
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the line of the entry in the first file.
///
/// # Errors
/// When a file cannot be read, the entry is invalid, or an object is missing.
pub fn line(files: &[String]) -> Result<Vec<u8>, String> {
    let read = |file: &String| fs::read(file).map_err(|error| format!("{file}: {error}"));
    let [entry, objects @ ..] = files else {
        return Err("usage: line ENTRY [OBJECT...]".to_owned());
    };
    let mut bodies: HashMap<Digest, Vec<u8>> = HashMap::new();
    for body in objects.iter().map(read) {
        let body = body?;
        let mut sha256 = Digest::default();
        sha256.copy_from_slice(digest(&SHA256, &body).as_ref());
        bodies.insert(sha256, body);
    }
    let octets = read(entry)?;
    let entry = Entry::read(&octets).map_err(|error| format!("{entry}: {error}"))?;
    let mut line = Vec::new();
    write_line(&entry, &bodies, &mut line).map_err(|error| format!("{}: {error}", error.what))?;
    Ok(line)
}
