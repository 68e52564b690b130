//! `run --confine=net`: the command gets a separate network with only the proxy in it.
//!
//! A socket stays in the network namespace of its creation. So a separate process makes the namespace and the proxy's
//! socket, hands the socket over to the proxy and then becomes the command; the proxy accepts inside and dials outside.
//! A user namespace lets an ordinary user do so, and takes all privileges outside from the command. It requires a
//! process with one thread, so the program starts itself.
//!
//! One gap remains: Unix sockets in the file system, by which the command may reach other programs of the same user.

use std::{
    ffi::OsString,
    fs, io,
    io::{IoSlice, IoSliceMut},
    mem::MaybeUninit,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    os::{
        fd::AsFd as _,
        unix::{fs::PermissionsExt as _, net::UnixStream, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use clap::Args;
use nix::sched::{CloneFlags, unshare};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg,
};
use tempfile::TempDir;
use tokio::io::Interest;
use tokio::net::UnixListener;

use super::child::SpawnError;
use super::confine::Refusal;
use crate::{Failure, terminal};

/// The proxy's address inside: no other socket is there, so any port is free. The same port outside counts as the proxy
/// itself and is not dialled, so this port is one without a common service.
pub(super) const INSIDE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9309);

/// The file, in a directory that only this user may enter, at which the socket is handed over.
const HANDOVER: &str = "handover.sock";

/// The name of the hidden subcommand that makes the namespace.
const SUBCOMMAND: &str = "confined";

/// Arguments of the process that makes the namespace.
#[derive(Args, Clone, Debug)]
pub struct ConfinedArgs {
    /// The path where the proxy waits for its socket
    handover: PathBuf,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// The proxy's side of the hand-over: waits for the socket.
#[derive(Debug)]
pub(super) struct Handover {
    listener: UnixListener,
    directory: TempDir,
}

impl Handover {
    /// Listens in a directory that only this user may enter.
    pub(super) fn listen() -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("crawlgate-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?;
        let listener = UnixListener::bind(directory.path().join(HANDOVER))?;
        Ok(Self { listener, directory })
    }

    /// Returns the program and its arguments that make the namespace and then become `command`.
    pub(super) fn wrap(&self, command: Vec<OsString>) -> Vec<OsString> {
        let own = [
            // The running program, even if its file was replaced meanwhile.
            "/proc/self/exe".into(),
            SUBCOMMAND.into(),
            self.directory.path().join(HANDOVER).into(),
            "--".into(),
        ];
        own.into_iter().chain(command).collect()
    }

    /// Waits for the socket. Accepts one process, then removes the directory.
    pub(super) async fn receive(self) -> io::Result<TcpListener> {
        let (stream, _) = self.listener.accept().await?;
        drop(self.listener);
        drop(self.directory);
        stream
            .async_io(Interest::READABLE, || {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                let mut octet = [0];
                let into = &mut [IoSliceMut::new(&mut octet)];
                recvmsg(stream.as_fd(), into, &mut control, RecvFlags::CMSG_CLOEXEC)?;
                let mut sockets = control.drain().filter_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
                    _ => None,
                });
                let socket = sockets.next().ok_or(io::ErrorKind::UnexpectedEof)?;
                Ok(TcpListener::from(socket))
            })
            .await
    }
}

/// Makes the namespaces, hands the socket over and becomes the command. Returns only on failure.
pub(crate) fn run(args: &ConfinedArgs) -> Result<ExitCode, Failure> {
    let (program, arguments) = args.command.split_first().ok_or("no command")?;
    let name = program.display();
    enter().map_err(|refusal| format!("{name} was not started: {refusal}"))?;
    hand_over(&args.handover).map_err(|error| {
        format!("{name} was not started: the proxy cannot listen in its namespace: {error}")
    })?;
    let error = Command::new(program).args(arguments).exec();
    let error = SpawnError::of_program(program, &error);
    terminal::tell(&error);
    Ok(ExitCode::from(error.exit_code()))
}

/// Moves this process, which must have one thread, into a new user and a new network namespace.
fn enter() -> Result<(), Refusal> {
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET).map_err(refused)?;
    // Files keep their owners: this user and group map to themselves (user_namespaces(7)).
    let maps = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{0} {0} 1", user.as_raw())),
        ("gid_map", format!("{0} {0} 1", group.as_raw())),
    ];
    for (file, map) in maps {
        fs::write(Path::new("/proc/self").join(file), map).map_err(refused)?;
    }
    raise_loopback().map_err(refused)
}

fn refused(error: impl Into<io::Error>) -> Refusal {
    format!(
        "the kernel does not give it a network of its own: {}; it needs user namespaces, which sysctl \
         user.max_user_namespaces, kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns can \
         forbid; --confine takes Landlock instead",
        error.into()
    )
}

/// Raises the loopback interface, the only one of a new network namespace, by one message to the kernel (rtnetlink(7)):
/// the ioctl for it cannot be called safely, and a library for it depends on an executor.
fn raise_loopback() -> io::Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 1 | 4;
    const LOOPBACK: i32 = 1; // always the first one
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    message.extend(32_u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    message.extend([0; 8]); // sequence, port
    message.extend([0; 4]); // family, padding, type
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes()); // flags
    message.extend(UP.to_ne_bytes()); // which of them change
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // NETLINK_ROUTE, which is 0
    )?;
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 64];
    let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // A header of 16 octets, then the error: 0, or the negative of an errno.
    let error = answer.get(..length).and_then(|answer| answer.get(16..20));
    let error = error.and_then(|octets| octets.try_into().ok());
    match error.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(error) => Err(io::Error::from_raw_os_error(-error)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Listens inside and gives the socket to the proxy. Crawlers may connect from now on: until the proxy accepts, they
/// wait.
fn hand_over(path: &Path) -> io::Result<()> {
    let listener = TcpListener::bind(INSIDE)?;
    let stream = UnixStream::connect(path)?;
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let sockets = [listener.as_fd()];
    control.push(SendAncillaryMessage::ScmRights(&sockets));
    sendmsg(&stream, &[IoSlice::new(&[0])], &mut control, SendFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_is_handed_over_where_only_this_user_may_enter() {
        let handover = Handover::listen().unwrap();
        let place = handover.directory.path().to_owned();
        let mode = fs::metadata(&place).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o700);
        let words = handover.wrap(Vec::new());
        let path = Path::new(words.get(2).unwrap());
        assert_eq!(path.parent(), Some(&*place));
        // The other side waits for nothing.
        let sent = UnixStream::connect(path).unwrap();
        drop(sent);
        handover.receive().await.unwrap_err();
        assert!(!place.exists());
    }
}
