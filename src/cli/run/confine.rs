//! `run --confine`: the command and its children open TCP connections to the proxy and nowhere else.
//!
//! Landlock needs no privilege and restricts a thread and its children, for good. So a thread of its own is restricted,
//! and starts the command: no code runs between fork and exec, and the rest of this process stays unrestricted.
//!
//! Two gaps remain, which `--confine=net` closes. A rule of Landlock names a port, not an address, so the command could
//! connect to a server elsewhere on the proxy's port (the kernel picks it for each run). And Landlock judges only
//! connect(2) on TCP, not UDP (DNS, QUIC), Multipath TCP and the Fast Open of sendto(2).

use std::{error::Error, fmt, io, thread};

use landlock::{
    AccessNet, CompatLevel, Compatible as _, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// The reason why the kernel does not confine a command.
#[derive(Debug)]
pub struct Refusal {
    /// The request to the kernel.
    what: &'static str,
    /// The kernel's error.
    why: Box<dyn Error + Send + Sync>,
    /// The way out.
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
/// The outer one if the kernel does not confine the command, the inner one if it cannot be started. Nothing runs then.
pub(super) fn spawn(command: &mut Command, port: u16) -> Result<io::Result<Child>, Refusal> {
    // The runtime watches the child, and the new thread has no runtime of its own.
    let runtime = Handle::current();
    thread::scope(|scope| {
        let restricted = scope.spawn(|| {
            let _runtime = runtime.enter();
            restrict(port)?;
            Ok(command.spawn())
        });
        restricted.join().unwrap_or_else(|_| {
            Err(refused("its thread panicked")) // the panic message is printed
        })
    })
}

/// Restricts the calling thread, and the processes that it starts from now on.
fn restrict(port: u16) -> Result<(), Refusal> {
    let restricted = || -> Result<_, RulesetError> {
        Ruleset::default()
            // All or nothing: a kernel without support is an error.
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
                    // A kernel without Landlock refuses the first one, and all later ones.
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
