"""Proves that a log has an entry, for verify-evidence.py beside this folder."""
import base64
import re
from hashlib import sha256

from .cbor import decode
from .ed25519 import is_signed
from .record import stamp


def need(condition, message):
    """Goes on if the condition holds."""
    if not condition:
        raise ValueError(message)


def octets_of(text):
    """Reads base64."""
    octets = base64.b64decode(text)
    need(base64.b64encode(octets).decode() == text, "base64 that is not canonical")
    return octets


def read_key(text, kind):
    """Reads a vkey (c2sp.org/signed-note): name, kind, four octets that name the key, the key."""
    parts = text.split("+", 2)
    need(len(parts) == 3, f"{text!r} is no key: a key is a name, an id and base64, with + between")
    name, number, key = parts
    octets = octets_of(key)
    is_right = number == sha256(name.encode() + b"\n" + octets).hexdigest()[:8]
    need(is_right and len(octets) == 33, "a malformed vkey")
    need(octets[0] == kind, "a key of another kind: that of the log comes first")
    return name, kind, bytes.fromhex(number), octets[1:]


def signed_at(text, signatures, key):
    """Checks a signature of a checkpoint; returns the time of a cosignature, else 0."""
    name, kind, number, public = key
    begin = f"— {name} "
    found = [octets_of(line[len(begin):]) for line in signatures if line.startswith(begin)]
    found = [octets[4:] for octets in found if octets[:4] == number]
    need(found, f"{name} has not signed it")
    time, signature = 0, found[0]
    if kind == 4:  # c2sp.org/tlog-cosignature
        time, signature = int.from_bytes(signature[:8], "big"), signature[8:]
        text = f"cosignature/v1\ntime {time}\n{text}"
    need(is_signed(public, text.encode(), signature), f"the signature of {name} does not hold")
    return time


def root_of(leaf, index, size, path):
    """Returns the root of the tree to which a path leads (RFC 9162, section 2.1.3)."""
    if size < 2:
        need(index == 0 and size == 1 and not path, "a path that is too long")
        return leaf
    left = 1 << (size - 1).bit_length() - 1
    if index < left:
        pair = root_of(leaf, index, left, path[:-1]) + path[-1]
    else:
        pair = path[-1] + root_of(leaf, index - left, size - left, path[:-1])
    return sha256(b"\1" + pair).digest()


def locate(part, keys, witnesses=()):
    """Checks that the log has an entry (c2sp.org/tlog-proof). Returns it, and its index."""
    form = r"c2sp\.org/tlog-proof@v1\nindex (0|[1-9][0-9]*)\n((?:.+\n)*)\n((?:.+\n)+)\n((?:.+\n)+)"
    match = re.fullmatch(form, part["proof"])
    need(match, "a malformed proof")
    index, path, checkpoint, signatures = match.groups()
    index, path, signatures = int(index), path.split(), signatures.split("\n")
    name, size, root = checkpoint.split("\n")[:3]
    key = [key for first, key in keys if first <= int(size)][-1]
    need(name == key[0], "the checkpoint is of another log")
    signed_at(checkpoint, signatures, key)
    told = [f"The key of the log has signed its {size} entries."]
    for witness in witnesses:
        time = stamp(signed_at(checkpoint, signatures, witness) * 1000)
        told.append(f"The witness {witness[0]} saw these entries at {time}.")
    entry = octets_of(part["entry"])
    leaf, path = sha256(b"\0" + entry).digest(), [octets_of(one) for one in path]
    is_there = root_of(leaf, index, int(size), path) == octets_of(root)
    need(is_there, "the path leads to another checkpoint")
    return decode(entry), index, told


def keys_of(log, rotations):
    """Returns the keys of the log, each with the size from which on it must sign."""
    keys = []
    for one in rotations:  # an entry under the signatures of both keys proves the new one
        need(one.keys() == {"entry", "proof"}, "missing or unknown fields")
        entry = decode(octets_of(one["entry"]))
        need(entry.get(0) == 9, "the entry names no new key")
        old, new = read_key(entry[58], 1), read_key(entry[52], 1)
        need(not keys or keys[-1][1] == old, "a new key replaces another one than the key before")
        _, index, _ = locate(one, [(0, old)])
        locate(one, [(0, new)])
        keys = [*(keys or [(0, old)]), (index + 1, new)]
    need(not keys or log in [key for _, key in keys], "the key is none of this log")
    return keys or [(0, log)]
