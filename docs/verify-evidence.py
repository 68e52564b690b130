#!/usr/bin/env python3
"""Verifies an evidence file of crawlgate: verify-evidence.py FILE VKEY [--witness VKEY]...
VKEY, the key of the log, must come from another source than the file. docs/evidence-files.md describes the file. Exits
0 if every record is proven, else 1. Needs Python 3.9 or newer, nothing else, and is short, so that you can read it.
"""
import base64, codecs, functools, hashlib, io, ipaddress, json, re, sys
from datetime import datetime, timedelta
from decimal import Decimal
def need(holds, why, result=None):
    if holds: return result
    raise ValueError(why)
def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()
def b64(text):
    octets = base64.b64decode(text)
    return need(base64.b64encode(octets).decode() == text, "base64 that is not canonical", octets)

# Signatures: Ed25519 (RFC 8032, section 5.1) over notes (c2sp.org/signed-note, c2sp.org/tlog-cosignature).
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
def add(p, q):
    t = D * p[0] * q[0] * p[1] * q[1]
    return (p[0] * q[1] + p[1] * q[0]) * pow(1 + t, -1, P) % P, (p[1] * q[1] + p[0] * q[0]) * pow(1 - t, -1, P) % P
def times(n, p): return add(times(n // 2, add(p, p)), p if n & 1 else (0, 1)) if n else (0, 1)
def point(octets):
    y = int.from_bytes(octets, "little") & 2**255 - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square: x = x * pow(2, (P - 1) // 4, P) % P
    need(y < P and x * x % P == square, "a public key that is no point")
    return (x if x & 1 == octets[31] >> 7 else P - x), y
BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
@functools.lru_cache(None)
def is_signed(public, message, signature):
    r, s, (x, y) = signature[:32], int.from_bytes(signature[32:], "little"), point(public)
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L
    x, y = add(times(s % L, BASE), times(k, (P - x, y)))
    return len(signature) == 64 and s < L and (y | (x & 1) << 255).to_bytes(32, "little") == r
def vkey(text):  # reads name+id+base64; returns name, id, kind and public key
    name, number, key = text.split("+", 2)
    key, is_right = b64(key), number == sha(name.encode(), b"\n", b64(key))[:4].hex()
    return need(is_right and len(key) == 33, "a malformed vkey", (name, bytes.fromhex(number), key[0], key[1:]))
def signed_at(text, lines, name, number, kind, public):  # checks a signature of a note; returns a cosignature's time
    found = [b64(line[len(name) + 3:]) for line in lines.split("\n") if line.startswith(f"— {name} ")]
    found = [octets[4:] for octets in found if octets[:4] == number] or need(False, f"{name} has not signed it")
    time, signature = (0, found[0]) if kind == 1 else (int.from_bytes(found[0][:8], "big"), found[0][8:])
    signed = (text if kind == 1 else f"cosignature/v1\ntime {time}\n{text}").encode()
    return need(is_signed(public, signed, signature), f"the signature of {name} does not hold", stamp(time * 1000))

# The path from an entry to the root of the tree (RFC 9162, section 2.1.3), and entries in CBOR (RFC 8949).
def root_of(leaf, index, size, path):
    if size < 2: return need(index == 0 and size == 1 and not path, "a path that is too long", leaf)
    left = 1 << (size - 1).bit_length() - 1
    if index < left: return sha(b"\1", root_of(leaf, index, left, path[:-1]), path[-1])
    return sha(b"\1", path[-1], root_of(leaf, index - left, size - left, path[:-1]))
def cbor(octets):
    def take(count): return need(len(found := octets.read(count)) == count, "CBOR that is cut", found)
    major, number = divmod(take(1)[0], 32)
    if major == 7: return number == 21
    if number > 23: number = int.from_bytes(take(need(number < 28, "CBOR of another form", 1 << number - 24)), "big")
    if major < 2: return ~number if major else number
    if major < 4: return take(number).decode() if major == 3 else take(number)
    items = [cbor(octets) for _ in range(number * (major - 3))]
    need(major == 4 or items[::2] == sorted({*items[::2]}), "CBOR with keys in disorder")
    return items if major == 4 else dict(zip(items[::2], items[1::2]))
def whole(data):
    item = cbor(octets := io.BytesIO(data))
    return need(not octets.read(1), "octets after the end of CBOR", item)

# The record as the entry has it: a field is a value, or (octets, number of octets cut off) for a text of others.
codecs.register_error("show", lambda e: ("".join("\\x%02X" % octet for octet in e.object[e.start:e.end]), e.end))
def show(octets): return octets.decode("utf-8", "show")
def text(value, cut=0):
    value, cut = value if isinstance(value, list) else (value, cut)
    return None if value is None else (value.encode() if isinstance(value, str) else value, cut)
def same(found, want):
    if isinstance(want, tuple):  # the record may leave out the end of a text, and say by how much
        kept, more = re.fullmatch(r"(.*?)(?:…\[\+([1-9][0-9]*) bytes\])?", found, re.S).groups(0)
        left = len(want[0]) + want[1] - int(more)
        return 0 <= left <= len(want[0]) and kept == show(want[0][:left]) or want[1] == 0 and found == show(want[0])
    if isinstance(want, list): return type(found) is list and len(found) == len(want) and all(map(same, found, want))
    if isinstance(want, dict): return found.keys() == want.keys() and all(same(found[one], want[one]) for one in want)
    return found == want and isinstance(found, bool) == isinstance(want, bool)
def stamp(ms, _=0):
    return ms if ms is None else (datetime(1970, 1, 1) + timedelta(0, 0, 0, ms)).isoformat("T", "milliseconds") + "Z"
def address(octets, port):
    ip = ipaddress.ip_address(octets)
    mapped = ip.version == 6 and ip.ipv4_mapped
    return f"{ip}:{port}" if ip.version == 4 else f"[::ffff:{mapped}]:{port}" if mapped else f"[{ip}]:{port}"
KINDS = {"text": text, "time": stamp, "ms": lambda us, _: Decimal(us or 0) / 1000, "number": lambda number, _: number,
    "count": lambda number, _: number or 0, "flag": lambda flag, _: flag or False,
    "hex": lambda octets, _: octets and octets.hex(), "address": lambda pair, _: pair and address(*pair)}
FORMS = {"record": """mode 3 enforce/report, verdict 4 allow/deny/defer, reason 5 text, policy 6 hex, rule 19 rule,
    user_agent 12 text, method 13 text, via 17 plain/intercepted/tunnel/decide, opaque 18 flag, override 20 override,
    robots 21 robots, hold_ms 22 ms, pace 23 pace, upstream 24 address, status 25 number, bytes_in 26 count,
    bytes_out 27 count, duration_ms 28 ms, error 29 text, version 32 text, upstream_version 33 text, reading 34 text""",
    "agent": "source 10 none/client/config/user_agent, mismatch 11 flag", "client": "address 7 address, name 8 text",
    "rule": "group 0 text, text 1 text, line 2 number", "pace": "interval_ms 0 ms, source 1 text, clamped 2 flag",
    "override": "id 0 text, origin 1 text, pattern 2 text, action 3 allow/deny, by 4 text, reason 5 text, until 6 time",
    "robots": """final_url 1 text, state 2 text, status 3 number, fetched_at 4 time, sha256 5 hex, bytes 6 number,
    truncated 7 flag, fresh_until 8 time, unreachable 9 outage, identity 10 text, user_agent 11 text""", "outage":
    "since 0 time, cause 1 text, answers 2 flag, attempts 3 count, next_attempt 4 time, last_failure 5 time"}
def field(kind, value, cut, bodies):  # a kind is one of KINDS, another form, or the words for 0, 1, …
    if kind in KINDS: return KINDS[kind](value, cut)
    if kind not in FORMS: return kind.split("/")[value or 0]
    if isinstance(value, bytes): value = whole(bodies[value])
    return value and fields(kind, dict(enumerate(value)) if isinstance(value, list) else value, {1: cut}, bodies)
def fields(form, e, cuts, bodies):
    rows = [row.split() for row in FORMS[form].split(",")]
    return {name: field(kind, e.get(int(key)), cuts.get(int(key), 0), bodies) for name, key, kind in rows}
def record_of(e, bodies, found):
    cuts, origin, number = e.get(30, {}), e.get(14, ""), int.from_bytes(e[1], "big")
    url, cut = origin.encode() + e[15] if 15 in e else e.get(16, b""), cuts.get(15, 0) + cuts.get(16, 0)
    scheme, host, port = re.fullmatch("(?:(.*?)://)?(.*?)(?::([0-9]+))?", origin).groups("")
    time, chain = number >> 80, [text(token) for token in e.get(9, [])] + ["…[+%d]" % cuts.get(9, 0)] * (9 in cuts)
    want = {**fields("record", e, cuts, bodies), "time": stamp(time), "decided_at": stamp(time + e.get(2, 0)),
        "id": "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[number >> shift & 31] for shift in range(125, -1, -5)),
        "client": fields("client", e, cuts, bodies), "agent": {**fields("agent", e, cuts, bodies), "chain": chain},
        "url": text(url, cut), "scheme": scheme, "host": text(host),
        "port": int(port or {"http": 80, "https": 443, "ftp": 21}.get(scheme, 0))}
    if 36 in e: want["detail"] = text(e[36], cuts.get(36, 0))
    if cut or found["url"] != show(url): want["url_sha256"] = e.get(35, sha(url)).hex()
    if basis := 21 in e and whole(bodies[e[21]]):
        want["robots"]["url"] = text(basis[0] + "/robots.txt")
        want["robots"]["age_s"] = max(0, time - basis[4]) // 1000 if 4 in basis else None
    return want
def placed(part, keys, witnesses=()):  # checks the path and the signatures of an entry; returns it, its index, …
    form = r"c2sp\.org/tlog-proof@v1\nindex (0|[1-9][0-9]*)\n((?:.+\n)*)\n((?:.+\n)+)\n((?:.+\n)+)"
    entry, match = b64(part["entry"]), re.fullmatch(form, part["proof"])
    index, path, signed, lines = need(match, "a malformed proof", match).groups()
    name, size, root = signed.split("\n")[:3]
    log = [key for first, key in keys if first <= int(size)][-1]  # the key that had to sign at this size
    seen = [(key[0], signed_at(signed, lines, *key)) for key in (log, *witnesses)][1:]
    need(name == log[0], "the checkpoint is of another log")
    is_there = root_of(sha(b"\0", entry), int(index), int(size), [b64(one) for one in path.split()]) == b64(root)
    return need(is_there, "the path leads to another checkpoint", whole(entry)), int(index), int(size), name, seen
def keys_of(log, rotations):  # returns the keys of the log, each with the size from which on it must sign
    keys = []
    for one in rotations:  # an entry under the signatures of both keys proves the new one
        need(one.keys() == {"entry", "proof"}, "missing or unknown fields")
        e = whole(b64(one["entry"]))
        need(e.get(0) == 9, "the entry names no new key")
        old, new = vkey(e[58]), vkey(e[52])
        need(not keys or keys[-1][1] == old, "a new key replaces another one than the key before it")
        for key in (old, new): index = placed(one, [(0, key)])[1]
        keys = [*(keys or [(0, old)]), (index + 1, new)]
    return need(not keys or log in [key for _, key in keys], "the key is none of this log", keys or [(0, log)])
def prove(part, keys, witnesses, bodies):  # proves one record; returns the sentences about it
    need(part.keys() == {"record", "entry", "proof", "objects", "robots"}, "missing or unknown fields")
    record, robots = part["record"], part["robots"]
    e, index, size, name, seen = placed(part, keys, witnesses)
    need({*e} <= {*range(1, 31), *range(32, 37)}, "it is no decision, and this program compares decisions alone")
    need(all(key == 2 or e[key] >= 0 for key in e if type(e[key]) is int), "an entry with a number below 0")
    for one in part["objects"] + [robots] * bool(robots):
        body = one["body"].encode() if "body" in one else b64(one["body_base64"])
        key = {"terms": 6, "override": 20, "basis": 21}[one["kind"]] if one is not robots else None
        is_named = one["sha256"] == sha(body).hex() and (one is robots or e.get(key) == sha(body))
        bodies[sha(body)] = need(is_named and len(one) == 2 + bool(key), "a body that is altered or needless", body)
    need(all(e[key] in bodies for key in (6, 20, 21) if key in e), "an object that the record rests on is missing")
    want = record_of(e, bodies, record)
    wrong = want.keys() ^ record.keys() or {name for name in want if not same(record[name], want[name])}
    need(not wrong, "the record is not what the entry says: " + ", ".join(sorted(wrong)))
    file = want["robots"] and want["robots"]["sha256"]
    is_there = robots["sha256"] == file if robots else not file or bytes.fromhex(file) in bodies
    need(is_there, "the robots.txt that the record rests on is missing, or another one is there")
    told = [f"Proven: entry {index} (counted from 0) of the log {name} is this record.",
        f"The key of the log has signed its {size} entries.",
        *("The witness %s saw these entries at %s." % one for one in seen),
        f"At {want['time']}, by the log's own clock, {want['client']['address']} asked for {record['url']}.",
        f"The decision was: {want['verdict']}, {record['reason']}{' (report mode)' * e.get(3, 0)}."]
    if 19 in e: told += [f"It rests on the rule \"{record['rule']['text']}\", line {e[19][2]} of the robots.txt."]
    if file: told += [f"That is {record['robots']['url']} of {want['robots']['fetched_at']}, SHA-256 {file}."]
    if file and 19 in e:
        told += [f"Its line {e[19][2]}: " + re.split("\r\n|\r|\n", show(bodies[bytes.fromhex(file)]))[e[19][2] - 1]]
    return "\n".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in one) for one in told)

def once(pairs): return need(len(dict(pairs)) == len(pairs), "a field that stands there twice", dict(pairs))
def verify(data, log, witnesses=()):  # proves all records of a file; returns the sentences about each
    log, witnesses, data, parts, bodies, at = vkey(log), [vkey(one) for one in witnesses], data.decode(), [], {}, 0
    need(log[2] == 1 and all(one[2] == 4 for one in witnesses), "a key of another kind: that of the log comes first")
    while at < len(data):
        part, at = json.JSONDecoder(object_pairs_hook=once, parse_float=Decimal).raw_decode(data, at)
        parts, at = [*parts, part], re.compile(r"[ \t\r\n]*").match(data, at).end()
    header = {name: parts[0].pop(name) for name in ("format", "log", "vkey", "made_by")} if parts else {}
    keys = keys_of(log, parts[0].pop("rotations", []) if parts else [])
    need(len(parts) > 1 or parts and parts[0], "there is no record in the file")
    need(header["format"] == "crawlgate-evidence@1", "another format")
    need(vkey(header["vkey"])[0] == header["log"] == log[0], "the file is of another log")
    need(len(parts) == 1 or not parts[0], "something follows the record")
    return [prove(part, keys, witnesses, bodies) for part in parts if part]
FAILURES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)
if __name__ == "__main__":
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0 or {*sys.argv[3::2]} - {"--witness"}: sys.exit(__doc__)
    try: print("\n\n".join(verify(open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[4::2])))
    except FAILURES as error: sys.exit(f"Not proven: {error if isinstance(error, ValueError) else repr(error)}")
