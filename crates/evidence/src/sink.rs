//! Destinations of lines.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::AsFd,
    time::Duration,
};

use crawlgate_system::clock::Moment;

/// Takes whole lines, in order. Used by one thread.
pub(super) trait Sink: Send {
    /// Writes `lines`. After a failure the caller tries again with the octets after [`Stopped::written`].
    fn write(&mut self, lines: &[u8], now: Moment) -> Result<(), Stopped>;

    /// Makes written lines outlive a power cut, as far as the sink can.
    fn sync(&mut self) -> io::Result<()>;

    /// Returns the sink's name for messages.
    fn name(&self) -> String;
}

/// A write that failed.
#[derive(Debug)]
pub(super) struct Stopped {
    /// Octets from the start that are written for good.
    pub(super) written: usize,
    /// The failure of the rest.
    pub(super) error: io::Error,
}

/// Standard output, or another stream (a pipe, a terminal, a device). A stream takes nothing back, so after a failure
/// it continues at the very octet.
#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    name: String,
}

impl Stream {
    pub(super) fn new(file: File, name: String) -> Self {
        Self { file, name }
    }

    /// Opens standard output by a second descriptor: the standard library's buffer would hide how much was written.
    pub(super) fn stdout() -> io::Result<Self> {
        let descriptor = io::stdout().as_fd().try_clone_to_owned()?;
        Ok(Self::new(File::from(descriptor), "standard output".to_owned()))
    }
}

impl Sink for Stream {
    fn write(&mut self, lines: &[u8], _now: Moment) -> Result<(), Stopped> {
        const MAX_RETRIES: u32 = 100; // times 10 ms: a slow reader is no failure yet
        let (mut rest, mut waited) = (lines, 0);
        while !rest.is_empty() {
            let error = match self.file.write(rest) {
                Ok(0) => io::ErrorKind::WriteZero.into(),
                Ok(count) => {
                    rest = rest.get(count..).unwrap_or_default();
                    waited = 0;
                    continue;
                }
                Err(error) => error,
            };
            match error.kind() {
                io::ErrorKind::Interrupted => {}
                // Another program on the same pipe has made it non-blocking.
                io::ErrorKind::WouldBlock if waited < MAX_RETRIES => {
                    waited += 1;
                    std::thread::sleep(Duration::from_millis(10));
                }
                _ => {
                    let written = lines.len() - rest.len();
                    return Err(Stopped { written, error });
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_stops_the_write_and_says_so() {
        let file = File::options().write(true).open("/dev/full").unwrap();
        let mut stream = Stream::new(file, "/dev/full".to_owned());
        let stopped = stream.write(b"{}\n", Moment::default()).unwrap_err();
        assert_eq!(stopped.written, 0);
        assert_eq!(stopped.error.kind(), io::ErrorKind::StorageFull);
    }

    #[test]
    fn a_pipe_receives_lines_until_its_reader_is_gone() {
        let (mut reader, writer) = io::pipe().unwrap();
        let mut stream =
            Stream::new(File::from(std::os::fd::OwnedFd::from(writer)), "pipe".to_owned());
        stream.write(b"{}\n", Moment::default()).unwrap();
        let mut got = [0; 3];
        io::Read::read_exact(&mut reader, &mut got).unwrap();
        assert_eq!(&got, b"{}\n");
        drop(reader);
        let stopped = stream.write(b"{}\n", Moment::default()).unwrap_err();
        assert_eq!(stopped.error.kind(), io::ErrorKind::BrokenPipe);
    }
}
