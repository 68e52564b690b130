//! The servers, each in front of a backend that tells what has arrived.

use std::fs;
use std::path::Path;

use crate::support::peer::{Peer, program};
use crate::support::{Origin, Reply, origin_pem};

/// Octets of a large body.
pub(crate) const LARGE: usize = 10 << 20;

/// The validator of a page.
pub(crate) const ETAG: &str = "\"one\"";

/// A server, and the backend behind it.
pub(crate) struct Server {
    pub(crate) peer: Peer,
    pub(crate) backend: Origin,
}

impl Server {
    /// Starts nginx, which closes each connection in order after some requests.
    pub(crate) fn nginx() -> Option<Server> {
        Server::start("nginx", &["-c"], |port, backend, dir| {
            let dir = dir.display();
            format!(
                r"
daemon off;
pid {dir}/nginx.pid;
error_log stderr warn;
events {{}}
http {{
    access_log off;
    client_body_temp_path {dir}/body;
    proxy_temp_path {dir}/proxy;
    fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi;
    scgi_temp_path {dir}/scgi;
    keepalive_requests 20;
    client_max_body_size 20m;
    server {{
        listen 127.0.0.1:{port} ssl http2;
        ssl_certificate {dir}/server.crt;
        ssl_certificate_key {dir}/server.key;
        location / {{
            proxy_pass http://127.0.0.1:{backend};
            proxy_http_version 1.1;
        }}
        location /trailers {{
            proxy_pass http://127.0.0.1:{backend}/chunked;
            proxy_http_version 1.1;
            add_header Trailer X-Sum;
            add_trailer X-Sum 7;
        }}
    }}
}}
"
            )
        })
    }

    /// Starts nghttpx with these protocols.
    pub(crate) fn nghttpx(protocols: &str) -> Option<Server> {
        Server::start("nghttpx", &["--conf"], |port, backend, dir| {
            let dir = dir.display();
            format!(
                "frontend=127.0.0.1,{port}\n\
                 backend=127.0.0.1,{backend}\n\
                 private-key-file={dir}/server.key\n\
                 certificate-file={dir}/server.crt\n\
                 npn-list={protocols}\n\
                 no-ocsp=yes\n\
                 errorlog-file=/dev/stderr\n"
            )
        })
    }

    fn start(
        name: &str,
        arguments: &[&str],
        configure: impl Fn(u16, u16, &Path) -> String,
    ) -> Option<Server> {
        let program = program(name)?;
        let backend = backend();
        let peer = Peer::start(&program, arguments, |port, dir| {
            let (certificate, key) = origin_pem("site.test");
            fs::write(dir.join("server.crt"), certificate).unwrap();
            fs::write(dir.join("server.key"), key).unwrap();
            configure(port, backend.port(), dir)
        });
        Some(Server { peer, backend })
    }

    /// Returns `site.test:PORT`.
    pub(crate) fn authority(&self) -> String {
        format!("site.test:{}", self.peer.port())
    }

    /// Returns the URL of `path` on the host `site.test`.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.authority())
    }
}

/// Starts the backend. It reads no method by itself, and so is told which requests have answers without a body.
fn backend() -> Origin {
    let large = format!("HTTP/1.1 200 OK\r\nContent-Length: {LARGE}\r\n\r\n");
    let unchanged = format!("HTTP/1.1 304 Not Modified\r\nETag: {ETAG}\r\n\r\n");
    let trailers = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\npage\r\n0\r\nX-Sum: 7\r\n\r\n";
    Origin::http()
        .on_if("/large", |head| head.word(0) == "HEAD", Reply::raw(&large))
        .on("/large", [Reply::raw(large).send(vec![b'x'; LARGE])])
        .on_if(
            "/known",
            |head| head.field("if-none-match").as_deref() == Some(ETAG),
            Reply::raw(unchanged),
        )
        .on("/trailers", [Reply::raw(trailers)])
        .on("/chunked", [Reply::chunked("page")])
        .on("/private", [Reply::ok("not for crawlers")])
        .robots("User-agent: *\nDisallow: /private\n")
}
