"""Verifies HTTP Message Signatures (RFC 9421) with another program's implementation.

Reads a JSON document from standard input: {"keys": {keyid: x}, "messages": [...]}. A message is a request (method, url,
headers), or a response to one (request, status, headers, body). Prints one line for each: the covered components, or
"no: " and the reason.
"""

import base64
import json
import sys
from types import SimpleNamespace

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import (
    HTTPMessageVerifier,
    HTTPSignatureKeyResolver,
    algorithms,
)
from http_message_signatures.structures import CaseInsensitiveDict

document = json.load(sys.stdin)


class Keys(HTTPSignatureKeyResolver):
    def resolve_public_key(self, key_id):
        x = document["keys"][key_id]
        octets = base64.urlsafe_b64decode(x + "=" * (-len(x) % 4))
        return Ed25519PublicKey.from_public_bytes(octets)


def request(of):
    return SimpleNamespace(
        method=of["method"],
        url=of["url"],
        headers=CaseInsensitiveDict(of["headers"]),
    )


for message in document["messages"]:
    verifier = HTTPMessageVerifier(
        signature_algorithm=algorithms.ED25519, key_resolver=Keys()
    )
    try:
        if "request" in message:
            given = SimpleNamespace(
                status_code=message["status"],
                headers=CaseInsensitiveDict(message["headers"]),
                request=request(message["request"]),
            )
            results = verifier.verify(
                given,
                expect_tag="http-message-signatures-directory",
                body=message["body"].encode(),
            )
        else:
            results = verifier.verify(request(message), expect_tag="web-bot-auth")
        covered = [
            [name for name in result.covered_components if "params" not in name]
            for result in results
        ]
        print("; ".join(" ".join(names) for names in covered))
    except Exception as error:
        print(f"no: {error!r}")
