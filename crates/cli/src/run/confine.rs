//! `run --confine`: the command and its children open TCP connections to the proxy and nowhere else.
//!
//! Two means of the kernel take no privilege and restrict a thread and its children, for good. So a new thread is
//! restricted, and starts the command: no code runs between fork and exec, and the rest of this process stays
//! unrestricted.
//!
//! - Landlock lets connect(2) lead only to the proxy's port. It knows TCP only.
//! - A filter of system calls leaves the command no other socket than TCP, Unix and netlink ones, and no way around
//!   connect(2): no UDP (DNS, QUIC), no Multipath TCP, no raw packets, no Fast Open of sendto(2), no `io_uring`.
//!
//! One gap remains, which `--confine=net` closes. A rule of Landlock names a port, not an address, so the command could
//! connect to a server elsewhere on the proxy's port (the kernel picks it for each run).

use std::collections::BTreeMap;
use std::env::consts::ARCH;
use std::{fmt, io, thread};

use landlock::{
    AccessNet, CompatLevel, Compatible as _, NetPort, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};
use nix::libc;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Is,
    SeccompCondition, SeccompFilter, SeccompRule,
};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;

/// The reason why the kernel does not confine a command, and the way out.
pub(super) type Refusal = String;

/// Starts `command` so that it reaches `port` by TCP, and nothing else.
///
/// # Errors
///
/// The outer one if the kernel does not confine the command, the inner one if it cannot be started. Nothing runs then.
pub(super) fn spawn(command: &mut Command, port: u16) -> Result<io::Result<Child>, Refusal> {
    // The runtime watches the child, and the new thread has no runtime.
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
        Ok(status) if status.ruleset == RulesetStatus::FullyEnforced => {}
        Ok(_) => return Err(refused("it is enforced in part only")),
        Err(error) => return Err(refused(error)),
    }
    let filter = filter().map_err(unfiltered)?;
    seccompiler::apply_filter(&filter).map_err(unfiltered)
}

/// Returns the filter of system calls. It ends a program that calls the kernel as another architecture (a 32-bit one).
fn filter() -> Result<BpfProgram, BackendError> {
    let is = |argument, operator, value: i32| {
        SeccompCondition::new(argument, Length::Dword, operator, u64::from(value.cast_unsigned()))
    };
    let bits = |mask: i32| Is::MaskedEq(u64::from(mask.cast_unsigned()));
    let mut sockets = vec![SeccompRule::new(
        [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
            .into_iter()
            .map(|family| is(0, Is::Ne, family))
            .collect::<Result<_, _>>()?,
    )?];
    for family in [libc::AF_INET, libc::AF_INET6] {
        // The kind is in the lowest four bits; SOCK_STREAM has only the lowest of them.
        let other_kinds =
            [(1, 0), (2, 2), (4, 4), (8, 8)].map(|(bit, value)| is(1, bits(bit), value));
        for kind in other_kinds {
            sockets.push(SeccompRule::new(vec![is(0, Is::Eq, family)?, kind?])?);
        }
        sockets.push(SeccompRule::new(vec![
            is(0, Is::Eq, family)?,
            is(2, Is::Ne, 0)?,
            is(2, Is::Ne, libc::IPPROTO_TCP)?,
        ])?);
    }
    let fast_open = |flags| -> Result<_, BackendError> {
        let condition = is(flags, bits(libc::MSG_FASTOPEN), libc::MSG_FASTOPEN)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    let mut forbidden = BTreeMap::from([
        (libc::SYS_socket, sockets),
        (libc::SYS_sendto, fast_open(3)?),
        (libc::SYS_sendmsg, fast_open(2)?),
        (libc::SYS_sendmmsg, fast_open(3)?),
        // Its operations are no system calls.
        (libc::SYS_io_uring_setup, Vec::new()),
    ]);
    // x86-64 has a second way to number the same calls.
    #[cfg(target_arch = "x86_64")]
    {
        const X32: libc::c_long = 0x4000_0000;
        let again: Vec<_> =
            forbidden.iter().map(|(call, rules)| (call | X32, rules.clone())).collect();
        forbidden.extend(again);
    }
    let denied = SeccompAction::Errno(libc::EACCES.cast_unsigned());
    SeccompFilter::new(forbidden, SeccompAction::Allow, denied, ARCH.try_into()?)?.try_into()
}

fn unfiltered(why: impl fmt::Display) -> Refusal {
    format!(
        "the kernel does not confine it with a filter of system calls: {why}; that takes seccomp, and x86-64, ARM64 or 64-bit \
         RISC-V; --confine=net takes user namespaces instead"
    )
}

fn refused(why: impl fmt::Display) -> Refusal {
    format!(
        "the kernel does not confine it with Landlock: {why}; Landlock's network rules take Linux 6.7 with \"landlock\" \
         among its security modules (`lsm=`), and at most 16 layers; --confine=net takes user namespaces instead"
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
        // A separate thread: its restrictions end with it.
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
            layered.join().unwrap().unwrap_err()
        });
        let start = "the kernel does not confine it with Landlock: ";
        let is_told = refusal.starts_with(start) && refusal.contains("--confine=net");
        assert!(is_told, "{refusal}");
        assert!(!trace.exists(), "the command ran");
    }
}
