//! Processes: started on chosen CPUs, measured, ended.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal};

/// Ticks per second in `/proc/PID/stat`, on every Linux that crawlgate is built for.
const TICKS: u32 = 100;

/// A process that ends when this value is dropped.
pub struct Process {
    child: Child,
    /// Parts end when this is closed, so that none outlives a benchmark that was killed.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    has_panicked: Arc<AtomicBool>,
}

impl Process {
    /// Starts another process of this executable.
    pub fn part(words: &[String], cpus: Option<&str>) -> Process {
        let program = std::env::current_exe().unwrap();
        Process::start(program.to_str().unwrap(), words, cpus)
    }

    /// Starts a program, on these CPUs if they are named.
    pub fn start(program: &str, words: &[String], cpus: Option<&str>) -> Process {
        let mut command = match cpus {
            // `taskset` becomes the program, so the process stays the same.
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", cpus, program]);
                command
            }
            None => Command::new(program),
        };
        for (name, _) in std::env::vars() {
            if name.to_ascii_lowercase().ends_with("_proxy") || name == "NOTIFY_SOCKET" {
                command.env_remove(name);
            }
        }
        let mut child = command
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let has_panicked = Arc::<AtomicBool>::default();
        let (said, panicked) = (child.stderr.take().unwrap(), Arc::clone(&has_panicked));
        std::thread::spawn(move || {
            for line in BufReader::new(said).lines().map_while(Result::ok) {
                if line.contains("panicked at") {
                    panicked.store(true, Ordering::SeqCst);
                }
                eprintln!("{line}");
            }
        });
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Process { child, stdin, stdout, has_panicked }
    }

    /// Tells whether the process has reported a panic.
    pub fn has_panicked(&self) -> bool {
        self.has_panicked.load(Ordering::SeqCst)
    }

    /// Returns the next line that the process prints.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "a part has ended early");
        line
    }

    /// Lets a waiting part go on.
    pub fn go(&mut self) {
        self.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
    }

    /// Returns the TCP port on which the process listens, once it does.
    pub fn listening_port(&mut self) -> u16 {
        for _ in 0..500 {
            if let Some(port) = self.find_port() {
                return port;
            }
            if let Some(status) = self.child.try_wait().unwrap() {
                panic!("the program has ended early: {status}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the program does not listen");
    }

    /// Looks for a listening socket (state 0A) of the process in the kernel's table.
    fn find_port(&self) -> Option<u16> {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", self.child.id())).ok()?;
        let sockets: Vec<String> = descriptors
            .filter_map(|entry| {
                fs::read_link(entry.ok()?.path()).ok()?.into_os_string().into_string().ok()
            })
            .filter_map(|link| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned()))
            .collect();
        let table = fs::read_to_string("/proc/net/tcp").ok()?;
        table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, _, "0A", _, _, _, _, _, inode, ..] = fields.as_slice() else {
                return None;
            };
            let ours = sockets.iter().any(|socket| socket == inode);
            ours.then(|| u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok())?
        })
    }

    /// Returns the CPU time so far, user and system.
    pub fn cpu(&self) -> Duration {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks: u32 = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u32>().unwrap())
            .sum();
        Duration::from_secs(1) * ticks / TICKS
    }

    /// Returns the resident memory, in octets.
    pub fn resident(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Returns the number of open descriptors.
    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id())).map_or(0, Iterator::count)
    }

    /// Waits until the process ends.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends the process as a service manager would, and waits.
    pub fn terminate(self) -> ExitStatus {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, Signal::TERM).unwrap();
        self.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ends this process when the one that started it closes its standard input, or ends.
pub fn end_with_parent() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}

/// Returns `(CPUs of the proxy, CPUs of everything else)`; neither with a single CPU or without `taskset`.
pub fn cpu_sets() -> (Option<String>, Option<String>) {
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let pins = Command::new("taskset").arg("-V").stdout(Stdio::null()).status();
    if count < 2 || pins.is_err() {
        return (None, None);
    }
    let last = count - 1;
    (Some(last.to_string()), Some(format!("0-{}", last - 1)))
}
