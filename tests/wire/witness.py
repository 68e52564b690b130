"""A witness (c2sp.org/tlog-witness) made of tlog-scales. Prints its port and vkey, then reads the vkey of the log."""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from tlog_scales.signing import NoteSignature, Vkey
from tlog_scales.tlog import Checkpoint, ConsistencyProof
from tlog_scales.utils import b64dec, sha256

key = Ed25519PrivateKey.generate()
ours = Vkey("witness.test/scales", None, 4, key.public_key().public_bytes_raw())
log = None
latest = (0, sha256(b""))
lock = threading.Lock()


def cosigned(checkpoint: Checkpoint) -> str:
    now = int(time.time())
    message = f"cosignature/v1\ntime {now}\n{checkpoint.serialize_body()}"
    signature = now.to_bytes(8, "big") + key.sign(message.encode())
    return NoteSignature.from_vkey_signature(ours, signature).serialize() + "\n"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status: int, text: str = "", kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_POST(self) -> None:
        global latest
        question = self.rfile.read(int(self.headers["Content-Length"])).decode()
        head, text = question.split("\n\n", 1)
        first, *path = head.split("\n")
        old, checkpoint = int(first.removeprefix("old ")), Checkpoint.from_text(text)
        with lock:
            if log is None or checkpoint.origin != log.name:
                return self.answer(404)
            try:
                checkpoint.verify(log)
            except Exception:
                return self.answer(403)
            if old != latest[0]:
                return self.answer(409, f"{latest[0]}\n", "text/x.tlog.size")
            try:
                if old > 0:
                    proof = ConsistencyProof(old, checkpoint.size, [b64dec(line) for line in path])
                    proof.check(latest[1], checkpoint.root_hash)
            except Exception as error:
                return self.answer(422, f"{error}\n")
            latest = (checkpoint.size, checkpoint.root_hash)
            self.answer(200, cosigned(checkpoint))

    def log_message(self, *_: object) -> None:
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], ours.serialize(), flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
log = Vkey.from_string(sys.stdin.readline().strip())
sys.stdin.read()
