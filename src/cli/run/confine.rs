//! `run --confine`: the command, and all that it starts, opens TCP connections to the proxy and nowhere else.
//!
//! Landlock needs no privilege and binds a thread and what descends from it, for good. So a thread of its own is
//! restricted, and the command is started from there: no code runs between fork and exec, and nothing else of this
//! process is restricted.
//!
//! What this leaves open, and `--confine=net` closes: a rule of Landlock names a port, not an address, so a server
//! elsewhere that listens on the proxy's port (the kernel picks it for each run) could be connected to; and connect(2)
//! on TCP is all that is judged, so UDP (DNS, QUIC), Multipath TCP and the Fast Open of sendto(2) are not.

use std::{error::Error, fmt, io, thread};

use landlock::{
    AccessNet, CompatLevel, Compatible as _, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// Why the kernel does not confine a command.
#[derive(Debug)]
pub struct Refusal {
    /// What was asked of the kernel.
    what: &'static str,
    /// What it said.
    why: Box<dyn Error + Send + Sync>,
    /// What to do about it.
    hint: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, why, hint } = self;
        write!(f, "{what}: {why}; {hint}")
    }
}

impl Error for Refusal {}

impl Refusal {
    pub(super) fn new(
        what: &'static str,
        why: impl Into<Box<dyn Error + Send + Sync>>,
        hint: &'static str,
    ) -> Self {
        Self {
            what,
            why: why.into(),
            hint,
        }
    }
}

/// Starts `command` so that it reaches `port` and no other by TCP.
///
/// # Errors
///
/// The outer one where the kernel does not confine it, the inner one where it cannot be started. Nothing runs then.
pub(super) fn spawn(command: &mut Command, port: u16) -> Result<io::Result<Child>, Refusal> {
    // The child is watched by the runtime, which a thread of our own does not know of.
    let runtime = Handle::current();
    thread::scope(|scope| {
        let restricted = scope.spawn(|| {
            let _runtime = runtime.enter();
            restrict(port)?;
            Ok(command.spawn())
        });
        restricted.join().unwrap_or_else(|_| {
            Err(refused("its thread panicked")) // it has said why
        })
    })
}

/// Restricts the calling thread, and the processes that it starts from now on.
fn restrict(port: u16) -> Result<(), Refusal> {
    let restricted = || -> Result<_, RulesetError> {
        Ruleset::default()
            // All or nothing: a kernel that cannot do it is an error.
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessNet::ConnectTcp)?
            .create()?
            .add_rule(NetPort::new(port, AccessNet::ConnectTcp))?
            .restrict_self()
    };
    match restricted() {
        Ok(status) if status.ruleset == RulesetStatus::FullyEnforced => Ok(()),
        Ok(_) => Err(refused("it is enforced in part only")),
        Err(error) => Err(refused(error)),
    }
}

fn refused(why: impl Into<Box<dyn Error + Send + Sync>>) -> Refusal {
    Refusal::new(
        "the kernel does not confine it with Landlock",
        why,
        "Landlock's network rules take Linux 6.7 with \"landlock\" among its security modules (`lsm=`), and at most 16 \
         layers; --confine=net takes user namespaces instead",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most rulesets that one process can be under, landlock(7).
    const LAYERS: usize = 16;

    #[tokio::test]
    async fn where_the_kernel_refuses_nothing_is_started() {
        let directory = tempfile::tempdir().unwrap();
        let trace = directory.path().join("trace");
        let runtime = Handle::current();
        // A thread of its own, whose restrictions end with it.
        let refusal = thread::scope(|scope| {
            let layered = scope.spawn(|| {
                let _runtime = runtime.enter();
                for _ in 0..LAYERS {
                    // A kernel without Landlock refuses the first one, and all the more what comes.
                    let _ = restrict(1);
                }
                let mut command = Command::new("touch");
                spawn(command.arg(&trace), 1)
            });
            layered.join().unwrap().unwrap_err().to_string()
        });
        assert!(
            refusal.starts_with("the kernel does not confine it with Landlock: ")
                && refusal.contains("--confine=net"),
            "{refusal}"
        );
        assert!(!trace.exists(), "the command ran");
    }
}
