"""The peers of the program under test: origins, crawlers, and the corpus that their exchanges are written into."""

import base64
import contextlib
import gzip
import http.client
import json
import os
import pathlib
import re
import shlex
import signal
import socket
import ssl
import subprocess
import threading
import time

import masks
import wire as table

PATIENCE = 20  # seconds that a single step may take


class Failure(Exception):
    """The reason why a run cannot go on, in words for the person who started it."""


def until(what, find):
    """Waits until `find` returns something true, and returns it."""
    end = time.monotonic() + PATIENCE
    while not (found := find()):
        if time.monotonic() > end:
            raise Failure(f"waited {PATIENCE} s in vain for {what}")
        time.sleep(0.005)
    return found


class Corpus:
    """A directory of texts. What differs between two runs of one program has a word in its place.

    An id becomes `<id N>`, N by its first appearance: the texts still show where the same id returns.
    """

    def __init__(self, directory):
        self.directory, self.ids, self.exact = pathlib.Path(directory), {}, {}
        self.directory.mkdir(parents=True)

    def masked(self, text, name):
        for known, word in self.exact.items():
            text = re.sub(rf"((?<![\w.])|(?<=%3A)){re.escape(known)}(?!\w)", word, text)
        for pattern, word in masks.EVERYWHERE + ([] if name in masks.FIXED else masks.MASKS):
            text = re.sub(pattern, word, text)
        if name in masks.FIXED:
            return text
        return re.sub(masks.ID, lambda id: f"<id {self.ids.setdefault(id[0], len(self.ids) + 1)}>", text)

    def add(self, name, title, *parts):
        """Appends an entry to the text `name`."""
        with open(self.directory / f"{name}.txt", "a", encoding="utf-8") as file:
            file.write(self.masked("\n".join([f"=== {title}", *(part.removesuffix("\n") for part in parts), "\n"]), name))


def readable(octets):
    """Returns octets as text: compact JSON is laid out, control octets are spelt out."""
    text = octets.decode("utf-8", "backslashreplace")
    text = re.sub(r"base64,([A-Za-z0-9+/=]{200,})", lambda data: "base64,\n" + readable(base64.b64decode(data[1])), text)
    if text.startswith("<!doctype"):
        text = re.sub(r"(?<=>)(?=<(?:li|tr|td|th|dt|dd|p|a|div|section|option|label|h\d|rect|text|line)\b)", "\n", text)
    lines = text.split("\n") if text.count("\n{") else [text]
    for place, line in enumerate(lines):
        with contextlib.suppress(ValueError):
            value = json.loads(line, parse_float=lambda digits: f"\0{digits}\0")
            shown = [json.dumps(value, ensure_ascii=False, **form) for form in ({"separators": (",", ":")}, {"indent": 1})]
            compact, laid_out = (re.sub(r'"\\u0000([^"]*)\\u0000"', r"\1", text) for text in shown)
            # Laid out only if that hides nothing: the same value, written compactly, is the same octets.
            if isinstance(value, (dict, list)) and compact == line.rstrip("\n"):
                lines[place] = laid_out
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda c: f"\\x{ord(c[0]):02x}", "\n".join(lines).replace("\r", "\\r"))


class Stream:
    """A connection that is read message by message."""

    def __init__(self, sock):
        self.sock, self.buffer, self.is_over = sock, b"", False
        sock.settimeout(PATIENCE)

    def more(self):
        try:
            octets = self.sock.recv(65536)
        except socket.timeout:
            raise Failure(f"waited {PATIENCE} s in vain for a peer to send more than {self.buffer[-200:]!r}") from None
        except (ConnectionError, ssl.SSLError):
            octets = b""
        self.is_over = not octets
        self.buffer += octets
        return bool(octets)

    def take(self, count):
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def line(self, end=b"\r\n"):
        while end not in self.buffer and self.more():
            pass
        return self.take(self.buffer.find(end) + len(end) if end in self.buffer else len(self.buffer))

    def exactly(self, count):
        while len(self.buffer) < count and self.more():
            pass
        return self.take(count)

    def rest(self):
        while self.more():
            pass
        return self.take(len(self.buffer))

    def message(self, answers=None):
        """Returns the next message as text, a response if it `answers` a method; chunks are joined, their borders mean nothing."""
        head = self.line(b"\r\n\r\n")
        if not head:
            return ""
        fields = dict(re.findall(rb"\r\n([^:\r]+): *([^\r]*)", head.lower()))
        status = int((re.match(rb"HTTP/\d\.\d (\d{3})", head) or [0, 0])[1])
        parts = [head.decode("utf-8", "backslashreplace").replace("\r\n", "\n").rstrip("\n")]
        if answers and (answers == "HEAD" or status < 200 or status in (204, 304) or answers == "CONNECT" and status < 300):
            body = b""
        elif b"chunked" in fields.get(b"transfer-encoding", b""):
            body = b""
            while size := int(re.match(rb"[0-9a-f]*", self.line().lower())[0] or b"0", 16):
                body += self.exactly(size)
                self.exactly(2)
            while (trailer := self.line()) not in (b"\r\n", b""):
                parts.append(f"(trailer) {trailer.decode('latin-1').rstrip()}")
        elif b"content-length" in fields or not answers:
            body = self.exactly(int(fields.get(b"content-length", 0)))
            if self.is_over and len(body) < int(fields.get(b"content-length", 0)):
                parts.append("(the body is cut)")
        else:
            body = self.rest()
        if answers and (fields.get(b"connection") == b"close" or self.is_over):
            self.rest()
            parts.append("(the connection is closed)")
        if body:
            parts += ["", readable(body)]
        if answers and 100 <= status < 200 and status != 101:
            parts.append(self.message(answers))
        return "\n".join(parts)


class Origins:
    """The origins, `NAME.test`, of one http and one https port. They answer from tables and keep what they receive."""

    def __init__(self, directory):
        self.received, self.busy, self.lock = [], 0, threading.Lock()
        self.certificate, key = directory / "origin.pem", directory / "origin.key"
        names = ",".join(f"DNS:{name}.test" for name in table.ROBOTS)
        made = ["req", "-x509", "-newkey", "ed25519", "-set_serial", "1", "-nodes", "-days", "3", "-subj", "/CN=origins",
                "-addext", f"subjectAltName={names}", "-keyout", str(key), "-out", str(self.certificate)]
        try:
            subprocess.run(["openssl", *made], check=True, capture_output=True)
        except FileNotFoundError:
            raise Failure("openssl is missing: it makes the certificate of the https origin") from None
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)
        self.ports = {scheme: self.listen(scheme) for scheme in ("http", "https")}

    def listen(self, scheme):
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, args=(listener, scheme), daemon=True).start()
        return listener.getsockname()[1]

    def accept(self, listener, scheme):
        while True:
            sock, _ = listener.accept()
            threading.Thread(target=self.serve, args=(sock, scheme), daemon=True).start()

    def serve(self, sock, scheme):
        with contextlib.suppress(OSError, ValueError, Failure), sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = Stream(self.context.wrap_socket(sock, server_side=True) if scheme == "https" else sock)
            stream.sock.settimeout(None)
            while stream.more():
                with self.lock:
                    self.busy += 1
                try:
                    message = stream.message()
                    with self.lock:
                        self.received.append(f"--- {scheme}\n{message}")
                    answer = self.answer(message)
                    stream.sock.sendall(answer)
                finally:
                    with self.lock:
                        self.busy -= 1
                if answer.startswith(b"HTTP/1.1 101"):
                    stream.rest()
                if not answer or b"\r\nConnection: close\r\n" in answer:
                    break

    def answer(self, message):
        method, target = message.split(" ")[:2]
        name = (re.search(r"(?mi)^host: (\w+)\.test", message) or ["", "site"])[1]
        if target == "/robots.txt":
            status, fields, text = table.ROBOTS[name]
            if not status:
                return b""
            body = text.encode()
            if "Content-Encoding: gzip" in fields:
                body = gzip.compress(body, mtime=0)
            head = [f"HTTP/1.1 {status} {http.client.responses[status]}", *fields, f"Content-Length: {len(body)}", "", ""]
            return "\r\n".join(head).encode() + body
        answer = table.PAGES.get(target, table.ECHO).encode()
        return b"" if answer == b"close" else answer.split(b"\r\n\r\n")[0] + b"\r\n\r\n" if method == "HEAD" else answer

    def taken(self):
        """Returns what the origins have received since the last call."""
        until("the origins to be idle", lambda: not self.busy)
        with self.lock:
            taken, self.received = self.received, []
        return taken


class Gate:
    """The program under test in a directory, with a configuration, and with facts that fill the inputs."""

    def __init__(self, program, directory, origins, corpus):
        self.program, self.directory, self.origins, self.corpus = program, directory, origins, corpus
        self.name, self.process, self.said = directory.name, None, directory / "said.txt"
        (directory / "home").mkdir(parents=True)
        self.facts, self.credentials, self.tunnel_fields = {}, [], []
        for scheme, port in origins.ports.items() if origins else ():
            for host in table.ROBOTS:
                self.facts[host if scheme == "http" else f"{host}_s"] = f"{host}.test:{port}"
            self.facts[scheme] = str(port)

    def filled(self, text):
        return re.sub(r"\{(\w+)\}", lambda word: self.facts.get(word[1], word[0]), text)

    def configure(self, config):
        (self.directory / "config.toml").write_text(self.filled(config))

    def environment(self):
        return {"PATH": os.environ["PATH"], "HOME": str(self.directory / "home"), "LANG": "C.UTF-8", "TZ": "UTC", "USER": "ada",
                "CRAWLGATE_CONFIG": "config.toml"}

    def command(self, words, stdin=b"", more=()):
        """Runs a command to its end: returns its code, standard output and standard error."""
        try:
            done = subprocess.run(["crawlgate", *words], executable=self.program, cwd=self.directory, input=stdin, capture_output=True,
                                  env={**self.environment(), **dict(more)}, timeout=3 * PATIENCE, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"`crawlgate {shlex.join(words)}` does not end within {3 * PATIENCE} s") from None
        return done.returncode, done.stdout, done.stderr

    def tell(self, text, line, stdin=b"", **more):
        """Runs a command line and writes what it says into a text of the corpus; returns its standard output."""
        line = self.filled(line)
        code, out, error = self.command(shlex.split(line), self.filled(stdin.decode()).encode(), more.items())
        error = re.sub(r"(?m)^", "! ", readable(error).rstrip("\n")) if error else ""
        title = " ".join([*(f"{key}={value}" for key, value in more.items()), "crawlgate", line])
        end = "(no newline at the end)" if out and not out.endswith(b"\n") else ""
        self.corpus.add(text, f"$ {title}", *filter(None, [readable(out), end, error, f"({code})"]))
        return out.decode("utf-8", "replace")

    def start(self):
        with open(self.said, "w", encoding="utf-8") as said:
            self.process = subprocess.Popen(["crawlgate", "serve"], executable=self.program, cwd=self.directory, stderr=said,
                                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=self.environment())

        names = ["main", *re.findall(r'\[\[listener\]\]\nname = "(\w+)"', (self.directory / "config.toml").read_text())]

        def places():
            if self.process.poll() is not None:
                raise Failure(f"the gate `{self.name}` ended at once: {self.said.read_text()}")
            found = re.findall(r"listening on (?:\S+:)?(\S+)\n", self.said.read_text())
            return found if len(found) == len(names) else None

        self.places = dict(zip(names, until("the gate to listen", places)))
        self.console, *public = re.findall(r"(?:console|public page): http://127\.0\.0\.1:(\d+)/", self.said.read_text())
        self.public = public[0] if public else None
        self.corpus.exact |= {place: f"<{name}>" for name, place in self.places.items() if place.isdigit()}
        self.corpus.exact |= {self.console: "<console>", **{port: "<public>" for port in public}}
        # The first signature comes a moment after the start; it shall cover the start alone.
        signed = ["sql", "--format", "csv", "SELECT 1 FROM checkpoint"]
        until("the first checkpoint", lambda: b"1\r\n1" in self.command(signed)[1])
        self.facts["console"] = self.console
        self.origins.taken()

    def reload(self, config, answer):
        """Has the gate read another configuration, and waits for its answer."""
        before = self.said.read_text().count(answer)
        self.configure(config)
        self.process.send_signal(signal.SIGHUP)
        until(f"the gate `{self.name}` to say `{answer}` in {self.said}", lambda: self.said.read_text().count(answer) > before)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Failure(f"the gate `{self.name}` did not end within {PATIENCE} s of SIGTERM") from None

    def connect(self, listener="main"):
        place = self.places[listener]
        if not place.isdigit():
            sock = socket.socket(socket.AF_UNIX)
            sock.connect(place)
            return Stream(sock)
        sock = socket.create_connection(("127.0.0.1", int(place)))
        if listener == "secure":
            sock = ssl.create_default_context(cafile=self.directory / "ca.crt").wrap_socket(sock, server_hostname="proxy.test")
        return Stream(sock)

    def tunnel(self, name, parts):
        """Returns a stream inside TLS to `name` through CONNECT, or none if the gate refuses."""
        stream = self.connect()
        authority = self.facts[name + "_s"]
        fields = [f"Host: {authority}", "User-Agent: TestBot/1.0", *self.tunnel_fields, "", ""]
        stream.sock.sendall("\r\n".join([f"CONNECT {authority} HTTP/1.1", *fields]).encode())
        parts.append(stream.message("CONNECT"))
        if not parts[-1].startswith("HTTP/1.1 200"):
            return None
        context = ssl.create_default_context(cafile=self.directory / "ca.crt")
        context.load_verify_locations(self.origins.certificate)
        context.set_alpn_protocols(["http/1.1"])
        inner = Stream(context.wrap_socket(stream.sock, server_hostname=f"{name}.test"))
        parts.append(f"(TLS by {dict(pair[0] for pair in inner.sock.getpeercert()['issuer'])['commonName']}, "
                     f"{inner.sock.version()}, {inner.sock.selected_alpn_protocol()})")
        return inner

    def exchange(self, title, octets, answers=1):
        """Sends raw octets, and writes the answers and what the origins received."""
        octets, parts = self.filled(octets), []
        shown = octets if len(octets) < 3000 else f"{octets[:200]}… ({len(octets)} octets)"
        parts.append(readable(shown.encode("latin-1", "replace")).replace("\\r\n", "\n").strip("\n"))
        parts.append("-->")
        way, name = answers.split() if isinstance(answers, str) else ("at", "main")
        stream = self.tunnel(name, parts) if way == "tls" else self.connect(name)
        methods = re.findall(r"(?m)^([A-Z]+) [^\r\n]+ HTTP/1", octets)
        if stream:
            stream.sock.sendall(octets.encode("latin-1"))
            for method in (methods or ["GET"])[: answers if isinstance(answers, int) else None]:
                parts.append(stream.message(method) or "(the connection is closed without an answer)")
            stream.sock.close()
        until("the exchange to end and to be recorded", self.is_idle)
        self.corpus.add(f"wire-{self.name}", title, *parts, *self.origins.taken())
        return parts[-1]

    def by_curl(self, title, path, *words):
        """Sends a request by HTTP/2, which curl speaks and Python's library does not."""
        line = ["curl", "-q", "-sS", "-i", "--http2", "--noproxy", "", "-x", f"http://127.0.0.1:{self.places['main']}",
                "--suppress-connect-headers", "--cacert", "ca.crt", "-A", "TestBot/1.0", *words, self.filled(path)]
        try:
            done = subprocess.run(line, cwd=self.directory, env=self.environment(), capture_output=True, timeout=PATIENCE,
                                  check=False)
        except FileNotFoundError:
            raise Failure("curl is missing: it sends the requests by HTTP/2") from None
        until("the exchange to end and to be recorded", self.is_idle)
        head, _, body = done.stdout.partition(b"\r\n\r\n")
        answer = [head.decode().replace("\r\n", "\n"), "", readable(body), done.stderr.decode()]
        self.corpus.add(f"wire-{self.name}", f"HTTP/2: {title}", *answer, *self.origins.taken())

    def is_idle(self):
        """Tells whether no exchange is under way, so that the order of records is that of the exchanges."""
        gauges = "downstream_connections|tunnels|requests_in_flight|store_queue_records"
        metrics = self.page("GET", "/metrics", *self.credentials)
        return set(re.findall(rf"(?m)^crawlgate_(?:{gauges})(?:{{.*}})? (\S+)$", metrics)) == {"0"}

    def page(self, method, target, *fields, body="", port=None):
        """Asks the console's address, or another port; returns the answer."""
        port = port or self.console
        body = self.filled(body)
        stream = Stream(socket.create_connection(("127.0.0.1", int(port))))
        lines = [f"{method} {self.filled(target)} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", *fields]
        if body:
            lines.append(f"Content-Length: {len(body)}")
        stream.sock.sendall("\r\n".join([*lines, "", body]).encode())
        return stream.message(method)
