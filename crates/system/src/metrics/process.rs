//! The system's figures of this process, read from `/proc` at each scrape. The names are those of all Prometheus
//! clients.

use std::fmt;
use std::fs;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Collector, Unit, show};

/// Clock ticks per second in `/proc`: the same on every architecture that Linux runs this on.
const TICKS: f64 = 100.0;

/// Shows the system's figures. Missing ones are left out.
#[derive(Debug)]
pub struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut put = |name: &str, help: &str, unit: Option<Unit>, metric: &dyn EncodeMetric| {
            show(&mut encoder, name, help, unit.as_ref(), metric)
        };
        if let Some(stat) = Stat::read() {
            let cpu = ConstCounter::new(stat.cpu);
            put("process_cpu", "CPU time spent", Some(Unit::Seconds), &cpu)?;
            if let Some(boot) = boot_time() {
                let start = ConstGauge::new(boot + stat.started);
                let help = "When the process started, since the Unix epoch";
                put("process_start_time", help, Some(Unit::Seconds), &start)?;
            }
        }
        if let Some(status) = Status::read() {
            let threads = ConstGauge::new(status.threads);
            put("process_threads", "Threads", None, &threads)?;
            let space = ConstGauge::new(status.virtual_bytes);
            let help = "Address space in use";
            put("process_virtual_memory", help, Some(Unit::Bytes), &space)?;
            let resident = ConstGauge::new(status.resident_bytes);
            let help = "Memory in use";
            put("process_resident_memory", help, Some(Unit::Bytes), &resident)?;
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of the descriptors is the directory that is being read.
            let open = i64::try_from(open.count()).unwrap_or(i64::MAX) - 1;
            let open = ConstGauge::new(open);
            put("process_open_fds", "Open descriptors", None, &open)?;
        }
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = ConstGauge::new(limit.unwrap_or(u64::MAX));
        put("process_max_fds", "Descriptors that may be open", None, &limit)
    }
}

/// The shown figures of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    /// Seconds.
    cpu: f64,
    /// Seconds from the system's start.
    started: f64,
}

impl Stat {
    fn read() -> Option<Stat> {
        Stat::parse(&fs::read_to_string("/proc/self/stat").ok()?)
    }

    fn parse(text: &str) -> Option<Stat> {
        // The name comes second, in parentheses, and may contain anything.
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        // proc_pid_stat(5) counts fields from 1, and the one after the name is the third.
        let seconds = |number: usize| Some(fields.get(number - 3)?.parse::<f64>().ok()? / TICKS);
        Some(Stat { cpu: seconds(14)? + seconds(15)?, started: seconds(22)? })
    }
}

/// The shown figures of `/proc/self/status`.
#[derive(Debug, PartialEq)]
struct Status {
    threads: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

impl Status {
    fn read() -> Option<Status> {
        Status::parse(&fs::read_to_string("/proc/self/status").ok()?)
    }

    fn parse(text: &str) -> Option<Status> {
        let number = |field: &str| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
            value.trim().trim_end_matches(" kB").parse::<u64>().ok()
        };
        Some(Status {
            threads: number("Threads")?,
            virtual_bytes: number("VmSize")?.checked_mul(1024)?,
            resident_bytes: number("VmRSS")?.checked_mul(1024)?,
        })
    }
}

/// Returns the system's start, in seconds since the Unix epoch.
fn boot_time() -> Option<f64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_and_spaces_moves_no_field() {
        let text = "7 (a ) (b) S 1 7 7 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 9 0 1234 4096000 25 1844674\n";
        let expected = Stat { cpu: 3.0, started: 12.34 };
        assert_eq!(Stat::parse(text), Some(expected));
        for broken in ["", "7 (a", "7 (a) S 1"] {
            assert_eq!(Stat::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn this_process_is_alive_and_young() {
        let stat = Stat::read().expect("/proc");
        let status = Status::read().expect("/proc");
        assert!(status.threads > 0 && status.resident_bytes > 0, "{status:?}");
        let started = boot_time().expect("/proc/stat") + stat.started;
        let now = crate::clock::Clock::system().now().as_millis() as f64 / 1e3;
        // The system's start is known to the second.
        assert!((-2.0..86_400.0).contains(&(now - started)), "{started}");
    }
}
