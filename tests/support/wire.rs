//! A client that sends exactly the octets of a test, and reads the answers without validation.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::{Head, PATIENCE, Response, pki};

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

/// One connection.
pub(crate) struct Wire {
    stream: BufReader<Box<dyn Stream>>,
    socket: TcpStream,
}

impl Wire {
    /// Connects. Any operation that takes longer than [`PATIENCE`] fails.
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_nodelay(true).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.set_write_timeout(Some(PATIENCE)).unwrap();
        Self { stream: BufReader::new(Box::new(socket.try_clone().unwrap())), socket }
    }

    /// Lets the kernel keep few received octets: the rest waits at the peer.
    pub(crate) fn receive_little(&self) {
        rustix::net::sockopt::set_socket_recv_buffer_size(&self.socket, 4096).unwrap();
    }

    /// Sends these octets. A peer that has already closed is no error: its answer shows the reason.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        drop(self.try_send(bytes));
        self
    }

    /// Works like [`Wire::send`], but fails if the peer has closed.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref())?;
        stream.flush()
    }

    /// Reads one response to a request with this method.
    #[track_caller]
    pub(crate) fn response(&mut self, method: &str) -> Response {
        match Response::read(&mut self.stream, method) {
            Ok(Some(response)) => response,
            Ok(None) => panic!("the connection was closed without a response"),
            Err(why) => panic!("no response: {why}"),
        }
    }

    /// Reads the heads of one response and leaves its body unread.
    #[track_caller]
    pub(crate) fn response_head(&mut self) -> Response {
        Response::read_head(&mut self.stream)
            .unwrap()
            .expect("the connection was closed without a response")
    }

    /// Reads one interim response.
    #[track_caller]
    pub(crate) fn interim(&mut self) -> Head {
        let head = Head::read(&mut self.stream)
            .unwrap()
            .expect("the connection was closed without a response");
        assert!(head.word(1).starts_with('1'), "a final response came first: {}", head.text());
        head
    }

    /// Sends a request and reads its response.
    #[track_caller]
    pub(crate) fn exchange(&mut self, request: impl AsRef<[u8]>) -> Response {
        let method = String::from_utf8_lossy(request.as_ref())
            .split(' ')
            .next()
            .unwrap_or_default()
            .to_owned();
        self.send(request);
        self.response(&method)
    }

    /// GETs a URL in absolute-form.
    #[track_caller]
    pub(crate) fn get(&mut self, url: &str) -> Response {
        self.ask(url).response("GET")
    }

    /// GETs a URL in absolute-form and asserts that the origin answers, with the page that it has for each path.
    #[track_caller]
    pub(crate) fn passes(&mut self, url: &str) {
        self.get(url).is_page(url);
    }

    /// Asks for a URL in absolute-form; the response is still to be read.
    pub(crate) fn ask(&mut self, url: &str) -> &mut Self {
        let authority = url.split('/').nth(2).unwrap();
        self.send(format!(
            "GET {url} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n\r\n"
        ))
    }

    /// GETs a path in origin-form, for use inside a tunnel.
    #[track_caller]
    pub(crate) fn get_inside(&mut self, host: &str, path: &str) -> Response {
        self.exchange(format!(
            "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: TestBot/1.0\r\n\r\n"
        ))
    }

    /// GETs a path in origin-form, and asserts that the origin answers with its page.
    #[track_caller]
    pub(crate) fn passes_inside(&mut self, host: &str, path: &str) {
        self.get_inside(host, path).is_origins(200, &format!("page {path}"));
    }

    /// Sends a CONNECT and reads its answer.
    #[track_caller]
    pub(crate) fn tunnel(&mut self, authority: &str) -> Response {
        self.exchange(format!(
            "CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: TestBot/1.0\r\n\r\n"
        ))
    }

    /// Makes a TLS handshake on this connection that trusts only this CA.
    #[track_caller]
    pub(crate) fn tls(self, host: &str, ca_pem: &str) -> Self {
        self.try_tls(host, ca_pem).expect("the TLS handshake failed")
    }

    /// Works like [`Wire::tls`], but may fail.
    pub(crate) fn try_tls(self, host: &str, ca_pem: &str) -> std::io::Result<Self> {
        self.handshake(host, pki::client_config(ca_pem))
    }

    /// Makes a TLS handshake that trusts any certificate, so that the server name can be false.
    pub(crate) fn tls_as(self, sni: &str) -> std::io::Result<Self> {
        self.handshake(sni, pki::credulous_config())
    }

    /// Makes a TLS handshake with this configuration.
    pub(crate) fn handshake(self, host: &str, config: Arc<ClientConfig>) -> std::io::Result<Self> {
        assert!(self.stream.buffer().is_empty(), "octets before the handshake");
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).unwrap();
        let connection = ClientConnection::new(config, name).unwrap();
        let mut tls = StreamOwned::new(connection, self.socket.try_clone()?);
        while tls.conn.is_handshaking() {
            tls.conn.complete_io(&mut tls.sock)?;
        }
        Ok(Self { stream: BufReader::new(Box::new(tls)), socket: self.socket })
    }

    /// Reads exactly this many octets.
    #[track_caller]
    pub(crate) fn read(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads exactly this many octets. `None` if the connection ended before.
    pub(crate) fn try_read(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).ok().map(|()| bytes)
    }

    /// Discards everything until the peer closes; returns the number of octets.
    pub(crate) fn drain(&mut self) -> u64 {
        let mut buffer = vec![0; 64 * 1024];
        let mut total = 0;
        while let Ok(count @ 1..) = self.stream.read(&mut buffer) {
            total += count as u64;
        }
        total
    }

    /// Reads until the peer closes, cleanly or not.
    pub(crate) fn read_all(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        // Octets that came before an error count all the same.
        drop(self.stream.read_to_end(&mut all));
        all
    }

    /// Tells whether the peer has ended the connection, cleanly or not, without sending anything more.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        match self.stream.read(&mut byte) {
            Ok(count) => count == 0,
            Err(why) => {
                !matches!(why.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            }
        }
    }

    /// Returns a second writer for this connection, which must not use TLS.
    pub(crate) fn sender(&self) -> impl Write + Send + 'static {
        self.socket.try_clone().unwrap()
    }

    /// Closes the sending side. A peer that has already closed is no error.
    pub(crate) fn half_close(&mut self) {
        drop(self.socket.shutdown(Shutdown::Write));
    }
}
