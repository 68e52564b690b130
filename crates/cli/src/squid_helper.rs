//! `crawlgate squid-helper`: lets Squid ask a running crawlgate, by its protocol for external ACLs.
//!
//! Squid writes one line for each request and waits for one line back; with channels, for many at once and in any
//! order. The helper passes each on to the decision service of the running instance, so there is one cache of states,
//! one log, and one place for settings. The helper itself has no state.
//!
//! A request without a decision is not allowed: if the instance is away or refuses to decide, the answer is `BH`, which
//! matches no `http_access allow`. The helper continues, and ends when Squid closes its input.

mod line;
mod service;

use std::io::{self, BufRead, Read as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use clap::Args;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use self::line::{Answer, Channels, Line};
use self::service::{Instance, Service};
use super::{Failure, small_runtime};
use crawlgate_config::{Config, parse_duration};

/// The default address of an instance.
const DEFAULT_INSTANCE: &str = "http://127.0.0.1:8119";

/// Octets of a line. Squid accepts URLs of 8 KiB, and may write each octet as three.
const LONGEST_LINE: u64 = 64 * 1024;

/// Arguments of `crawlgate squid-helper`.
#[derive(Args, Clone, Debug)]
#[command(after_help = AFTER_HELP)]
pub struct SquidHelperArgs {
    /// The [admin] address of the running instance [default: that of --config, else http://127.0.0.1:8119]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// File with the token of that instance, or of one of its [[admin.user]], if it demands one [default: that of --config]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with certificates to trust besides the system's, for a URL with https [default: [admin] cert of --config]
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The [[client]] of that instance for Squid's crawlers
    #[arg(long, value_name = "NAME")]
    client: Option<String>,
    /// Requests at once: the value of concurrency= in external_acl_type; 0 without one
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    concurrency: usize,
    /// Longest wait for an answer; robots.txt may have to be fetched first
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    timeout: Duration,
}

const AFTER_HELP: &str = "\
Squid starts the helper in any directory, so only a configuration that --config or $CRAWLGATE_CONFIG names is read.

In squid.conf:
  external_acl_type crawlgate concurrency=100 children-max=1 children-startup=1 ttl=0 negative_ttl=0 \
%/>ru %/{User-Agent}>h /usr/local/bin/crawlgate squid-helper
  acl robots external crawlgate
  http_access allow robots
  http_access deny all

Squid asks about every request, as it keeps no answers (ttl=0): each request has its own decision and record. Without an
answer no request is allowed. The slashes in the format matter: without them Squid does not say which octets it encoded. Do not write http_access deny !robots: Squid skips that line when no answer comes.";

fn span(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| "a time is written 500ms, 60s or 5m".to_owned())
}

/// Answers Squid's lines until its input ends.
pub(super) fn run(args: &SquidHelperArgs, config: Option<&Path>) -> Result<ExitCode, Failure> {
    let instance = instance(args, config)?;
    let service = Service::new(&instance, args.client.as_deref(), args.timeout)?;
    let channels = match args.concurrency {
        0 => Channels::None,
        _ => Channels::Numbered,
    };
    let at_once = args.concurrency.clamp(1, Semaphore::MAX_PERMITS);
    // Each direction has a thread: a pipe is read and written without a runtime. Neither holds more than a few lines.
    let (to_ask, lines) = mpsc::channel(1);
    let (answers, to_write) = mpsc::channel(at_once.min(1024));
    let runtime = small_runtime()?;
    thread::spawn(move || read_lines(io::stdin().lock(), &to_ask));
    let writer = thread::spawn(move || write_lines(io::stdout().lock(), to_write));
    let answered = answer_lines(Arc::new(service), channels, at_once, lines, answers);
    runtime.block_on(answered);
    let written = writer.join().map_err(|_| "the answers cannot be written")?;
    // Squid has ended, or soon will.
    written.map_err(|error| format!("Squid takes no answers: {error}"))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the way to the instance: from the arguments, or else from the configuration that they or `$CRAWLGATE_CONFIG` name.
/// Squid starts the helper in any directory, so no other configuration is searched for.
fn instance(args: &SquidHelperArgs, config: Option<&Path>) -> Result<Instance, Failure> {
    let Some(path) = Config::named_file(config) else {
        return Ok(Instance {
            url: args.url.as_deref().unwrap_or(DEFAULT_INSTANCE).to_owned(),
            server_name: None,
            token_file: args.token_file.clone(),
            roots: args.ca.iter().cloned().collect(),
        });
    };
    let admin = Config::load(Some(&path))?.admin;
    let (url, server_name) = match &args.url {
        Some(url) => (url.clone(), None),
        None => {
            let address = admin.address.ok_or_else(|| {
                let path = path.display();
                format!("{path}: [admin] address is \"\", so the instance answers no questions")
            })?;
            let scheme = admin.cert.as_ref().map_or("http", |_| "https");
            let url = format!("{scheme}://{}", reached_at(address));
            // A certificate is for a name, and the helper reaches the instance by its address.
            (url, admin.hosts.first().cloned())
        }
    };
    Ok(Instance {
        url,
        server_name,
        token_file: args.token_file.clone().or(admin.token_file),
        roots: args.ca.clone().or(admin.cert).into_iter().collect(),
    })
}

/// Returns the address of a listener as seen from its own machine.
fn reached_at(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// Answers each line, at most `at_once` of them at a time.
async fn answer_lines(
    service: Arc<Service>,
    channels: Channels,
    at_once: usize,
    mut lines: mpsc::Receiver<Vec<u8>>,
    answers: mpsc::Sender<Answer>,
) {
    let slots = Arc::new(Semaphore::new(at_once));
    let mut under_way = JoinSet::new();
    while let Some(line) = lines.recv().await {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            break;
        };
        while under_way.try_join_next().is_some() {}
        if answers.is_closed() {
            break;
        }
        let (service, answers) = (Arc::clone(&service), answers.clone());
        under_way.spawn(async move {
            let Line { channel, lookup } = Line::read(&line, channels);
            let outcome = match lookup {
                Ok(lookup) => service.ask(&lookup).await,
                Err(unclear) => unclear,
            };
            let sent = answers.send(Answer { channel, outcome }).await;
            drop(slot);
            sent
        });
    }
    while under_way.join_next().await.is_some() {}
}

/// Passes lines on until the input ends.
fn read_lines(mut input: impl BufRead, to_ask: &mpsc::Sender<Vec<u8>>) {
    loop {
        let mut line = Vec::new();
        let mut limited = input.by_ref().take(LONGEST_LINE);
        match limited.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) if line.last() == Some(&b'\n') => {}
            // The line is too long, or the input ends within it: the rest may look like a whole request. Its first word
            // by itself is no request, but names the channel for the answer.
            Ok(_) => {
                let word = memchr::memchr(b' ', &line).unwrap_or(line.len());
                line.truncate(word.min(line::CHANNEL_DIGITS));
                if input.skip_until(b'\n').is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
        if to_ask.blocking_send(line).is_err() {
            return;
        }
    }
}

/// Writes answers as they come, several at once if possible.
fn write_lines(mut output: impl io::Write, mut answers: mpsc::Receiver<Answer>) -> io::Result<()> {
    let mut text = Vec::new();
    while let Some(answer) = answers.blocking_recv() {
        text.clear();
        answer.write(&mut text);
        while let Ok(answer) = answers.try_recv() {
            answer.write(&mut text);
        }
        output.write_all(&text)?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn lines(input: &[u8]) -> Vec<Vec<u8>> {
        let (to_ask, mut lines) = mpsc::channel(16);
        read_lines(Cursor::new(input.to_vec()), &to_ask);
        drop(to_ask);
        std::iter::from_fn(|| lines.blocking_recv()).collect()
    }

    #[test]
    fn lines_are_read_one_by_one_and_cut_ones_keep_their_channel() {
        let long = [b"7 http://a.test/ Go".to_vec(), vec![b'x'; 200_000]].concat();
        let endless = vec![b'9'; 200_000];
        let input =
            [b"1 a b\n".as_slice(), &long, b"\n2 c d\n", &endless, b"\n3 http://a.test/ half"]
                .concat();
        let read = lines(&input);
        let expected = [b"1 a b\n".as_slice(), b"7", b"2 c d\n", &[b'9'; 20], b"3"];
        assert_eq!(read, expected);
        for line in [&read[1], &read[4]] {
            let answered = Line::read(line, Channels::Numbered);
            assert!(answered.channel.is_some() && answered.lookup.is_err());
            let answered = Line::read(line, Channels::None);
            assert!(answered.lookup.is_err(), "{answered:?}");
        }
    }

    #[test]
    fn all_answers_are_written_before_the_end() {
        let (answers, to_write) = mpsc::channel(16);
        for channel in ["1", "0"] {
            let answer = Answer {
                channel: Some(channel.into()),
                outcome: line::Outcome::Undecided("it is away".to_owned()),
            };
            answers.blocking_send(answer).unwrap();
        }
        drop(answers);
        let mut written = Vec::new();
        write_lines(&mut written, to_write).unwrap();
        assert_eq!(
            String::from_utf8(written).unwrap(),
            "1 BH message=\"it is away\"\n0 BH message=\"it is away\"\n"
        );
    }
}
