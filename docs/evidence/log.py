"""Proves that a log has an entry, for verify-evidence.py beside this folder."""
import base64
import re
from hashlib import sha256

from .cbor import MOST, decode
from .ed25519 import is_signed
from .value import stamp

# Bounds: octets of a proof, hashes of a path, signatures, an index or a size, new keys.
PROOF, PATH, SIGNATURES, SIZE, ROTATIONS = 1_000_000, 63, 100, 2**63 - 1, 256


def need(condition, message):
    """Goes on if the condition holds."""
    if not condition:
        raise ValueError(message)


def octets_of(text, most=None):
    """Reads base64, of at most so many octets."""
    need(most is None or len(text) <= (most + 2) // 3 * 4, "octets that are too many")
    octets = base64.b64decode(text)
    need(base64.b64encode(octets).decode() == text, "base64 that is not canonical")
    return octets


def hash_of(text):
    """Reads a hash."""
    octets = octets_of(text, 32)
    need(len(octets) == 32, "a hash of another length")
    return octets


def number_of(text):
    """Reads an index or a size."""
    need(re.fullmatch("0|[1-9][0-9]{0,18}", text), "a number of another form")
    need(int(text) <= SIZE, "a number that is too large")
    return int(text)


def is_name(text):
    """Tells whether a text is a name: not empty, no white space, no plus, no control character."""
    return re.fullmatch(r"[^\s+\0-\x1f]+", text) is not None


def read_key(text, kind):
    """Reads a vkey (c2sp.org/signed-note): name, kind, four octets that name the key, the key."""
    parts = text.split("+", 2)
    need(len(parts) == 3, f"{text!r} is no key: a key is a name, an id and base64, with + between")
    name, number, key = parts
    octets = octets_of(key, 33)
    is_right = number == sha256(name.encode() + b"\n" + octets).hexdigest()[:8]
    need(is_right and is_name(name) and len(octets) == 33, "a malformed vkey")
    need(octets[0] == kind, "a key of another kind: that of the log comes first")
    return name, kind, bytes.fromhex(number), octets[1:]


def signature_of(line):
    """Reads a line of a checkpoint: the name, the four octets that name the key, the signature."""
    match = re.fullmatch("— ([^ ]+) ([A-Za-z0-9+/=]+)", line)
    need(match and is_name(match[1]), "a malformed signature")
    octets = octets_of(match[2])
    need(len(octets) > 4, "a signature that is too short")
    return match[1], octets[:4], octets[4:]


def signed_at(text, signatures, key):
    """Checks all signatures of a key. Returns the time of each cosignature, else 0."""
    name, kind, number, public = key
    times = []
    for signature in [one for *of, one in signatures if of == [name, number]]:
        time, signed = 0, text
        if kind == 4:  # c2sp.org/tlog-cosignature
            time, signature = int.from_bytes(signature[:8], "big"), signature[8:]
            signed = f"cosignature/v1\ntime {time}\n{text}"
        is_right = is_signed(public, signed.encode(), signature)
        need(is_right, f"the signature of {name} does not hold")
        times.append(time)
    return times


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


def parse(part):
    """Reads an entry and its proof (c2sp.org/tlog-proof). Checks their form and bounds alone."""
    form = r"c2sp\.org/tlog-proof@v1\nindex (.+)\n((?:.+\n)*)\n((?:.+\n)+)\n((?:.+\n)+)"
    need(len(part["proof"].encode()) <= PROOF, "a proof that is too long")
    match = re.fullmatch(form, part["proof"])
    need(match and not re.search("[\0-\x09\x0b-\x1f]", part["proof"]), "a malformed proof")
    index, path, text, signatures = match.groups()
    path, signatures = path.split("\n")[:-1], signatures.split("\n")[:-1]
    need(len(path) <= PATH and len(signatures) <= SIGNATURES, "a proof with too many lines")
    name, size, root = text.split("\n")[:3]
    need(is_name(name), "the checkpoint has no name")
    proof = number_of(index), [*map(hash_of, path)], name, number_of(size), hash_of(root)
    return octets_of(part["entry"], MOST), proof, text, [*map(signature_of, signatures)]


def locate(parsed, keys, witnesses=()):
    """Checks that the log has an entry. Each key counts below a size; one must have signed."""
    entry, (index, path, name, size, root), text, signatures = parsed
    counting = [key for key, limit in keys if size < limit]
    signed = [key for key in counting if signed_at(text, signatures, key)]
    need(signed, f"{name} has not signed it")
    need(name in [key[0] for key in signed], "the checkpoint is of another log")
    told = [f"The key of the log has signed its {size} entries."]
    for witness in witnesses:
        times = signed_at(text, signatures, witness)
        need(times, f"{witness[0]} has not signed it")
        told.append(f"The witness {witness[0]} saw these entries at {stamp(times[0] * 1000)}.")
    is_there = root_of(sha256(b"\0" + entry).digest(), index, size, path) == root
    need(is_there, "the path leads to another checkpoint")
    return decode(entry), index, told


def keys_of(log, rotations):
    """Returns the keys of the log, each with the size from which on it counts no more."""
    need(len(rotations) <= ROTATIONS, "new keys that are too many")
    changes = []
    for one in rotations:  # an entry under the signatures of both keys proves the new one
        need(one.keys() == {"entry", "proof"}, "missing or unknown fields")
        parsed = parse(one)
        entry = decode(parsed[0])
        need(entry.get(0) == 9, "the entry names no new key")
        old, new = read_key(entry[58], 1), read_key(entry[52], 1)
        need(old != new and old[0] == new[0], "a new key that is none of the log")
        need(not changes or changes[-1][1] == old, "a new key replaces another one than the last")
        changes.append((old, new, parsed))
    limits = {}
    for old, new, parsed in reversed(changes):
        _, index, _ = locate(parsed, [(old, SIZE + 1)])
        locate(parsed, [(new, SIZE + 1)])
        limit = limits.setdefault(new, SIZE + 1)
        limits[old] = min(index + 1, limit, limits.get(old, SIZE + 1))
    return [*limits.items()] if log in limits else [(log, SIZE + 1)]
