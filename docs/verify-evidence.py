#!/usr/bin/env python3
"""Verifies an evidence file of crawlgate: verify-evidence.py FILE VKEY [--witness VKEY]...
VKEY, the key of the log, must come from another source than the file. docs/evidence.md describes the file. Exits 0 if
every record in it is proven, else 1. Needs Python 3.9 or newer, nothing else, and is short, so that you can read it.
"""
import base64, codecs, functools, hashlib, ipaddress, json, re, sys
from datetime import datetime, timedelta
from decimal import Decimal
def need(holds, why):
    if not holds: raise ValueError(why)
def b64(text):
    octets = base64.b64decode(text, validate=True)
    need(base64.b64encode(octets).decode() == text, "base64 that is not canonical")
    return octets
def sha(*parts): return hashlib.sha256(b"".join(parts)).digest()

# Ed25519, RFC 8032 section 5.1.
P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
def add(p, q):
    t = D * p[0] * q[0] * p[1] * q[1]
    return (p[0] * q[1] + p[1] * q[0]) * pow(1 + t, -1, P) % P, (p[1] * q[1] + p[0] * q[0]) * pow(1 - t, -1, P) % P
def times(number, p):
    if number == 0: return 0, 1
    half = times(number // 2, add(p, p))
    return add(half, p) if number & 1 else half
def point(octets):
    y = int.from_bytes(octets, "little") & 2**255 - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P: x = x * pow(2, (P - 1) // 4, P) % P
    need(y < P and (x * x - square) % P == 0, "a public key that is no point")
    return (x if x & 1 == octets[31] >> 7 else P - x), y
BASE = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
@functools.lru_cache(None)
def is_signed(public, message, signature):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % L
    x, y = point(public)
    x, y = add(times(s, BASE), times(k, (P - x, y)))
    return len(signature) == 64 and s < L and (y | (x & 1) << 255).to_bytes(32, "little") == r
def vkey(text):
    """Reads `name+id+base64`. Returns name, id with kind, public key."""
    name, number, key = text.split("+", 2)
    key = b64(key)
    need(len(key) == 33 and key[0] in (1, 4) and number == sha(name.encode(), b"\n", key)[:4].hex(), "a malformed vkey")
    return name, bytes.fromhex(number), key[0], key[1:]
def signed_at(text, lines, key):
    """Checks the signature of a key over a note. Returns the time of a cosignature."""
    name, number, kind, public = key
    found = [b64(line[len(name) + 3:]) for line in lines if line.startswith("— %s " % name)]
    found = [octets[4:] for octets in found if octets[:4] == number]
    need(found, "%s has not signed the checkpoint" % name)
    if kind == 1:
        need(is_signed(public, text.encode(), found[0]), "the signature of %s does not hold" % name)
        return None
    time = int.from_bytes(found[0][:8], "big")
    message = "cosignature/v1\ntime %d\n%s" % (time, text)
    need(is_signed(public, message.encode(), found[0][8:]), "the cosignature of %s does not hold" % name)
    return stamp(time * 1000)
def root_of(leaf, index, size, path):
    """Walks from a leaf to the root: RFC 9162, section 2.1.3.2."""
    need(index < size, "an index beyond the log")
    place, last = index, size - 1
    for sibling in path:
        need(last > 0, "a path that is too long")
        if place & 1 or place == last:
            leaf = sha(b"\1", sibling, leaf)
            while place and not place & 1: place, last = place >> 1, last >> 1
        else:
            leaf = sha(b"\1", leaf, sibling)
        place, last = place >> 1, last >> 1
    need(last == 0, "a path that is too short")
    return leaf
def cbor(data, at=0):
    """Reads an item of CBOR (RFC 8949). Returns it and its end."""
    major, number, at = data[at] >> 5, data[at] & 31, at + 1
    if number > 23:
        need(number < 28, "CBOR of an unknown form")
        at, number = at + (1 << number - 24), int.from_bytes(data[at:at + (1 << number - 24)], "big")
    if major < 2: return (~number if major else number), at
    if major < 4:
        need(at + number <= len(data), "CBOR that is cut")
        return (data[at:at + number].decode() if major == 3 else data[at:at + number]), at + number
    if major == 7: return number == 21, at
    items = []
    for _ in range(number * (major - 3)):
        item, at = cbor(data, at)
        items.append(item)
    need(major == 4 or items[::2] == sorted({*items[::2]}), "CBOR with keys in disorder")
    return (items if major == 4 else dict(zip(items[::2], items[1::2]))), at
def whole(data):
    item, end = cbor(data)
    need(end == len(data), "octets after the end of CBOR")
    return item

# Each field of the record as it must be: a value, or a function that compares the text of the file.
codecs.register_error("show", lambda e: ("".join("\\x%02X" % octet for octet in e.object[e.start:e.end]), e.end))
def text(value, cut=0):
    """The text of foreign octets. The record may leave out their end, and the entry did if `cut` is not 0."""
    value, cut = value if isinstance(value, list) else (value, cut)
    octets = value.encode() if isinstance(value, str) else value
    def is_same(found):
        if cut == 0 and found == octets.decode("utf-8", "show"): return True
        kept, _, more = found.rpartition("…[+")
        left = len(octets) + cut - int(more[:-7]) if re.fullmatch(r"[1-9][0-9]* bytes\]", more) else -1
        return 0 <= left <= len(octets) and kept == octets[:left].decode("utf-8", "show")
    return None if value is None else is_same
def same(found, want):
    if callable(want): return isinstance(found, str) and want(found)
    if isinstance(want, list):
        return isinstance(found, list) and len(found) == len(want) and all(map(same, found, want))
    if isinstance(want, dict): return isinstance(found, dict) and found.keys() == want.keys() and all(
        same(found[name], want[name]) for name in want)
    return found == want and isinstance(found, bool) == isinstance(want, bool)
def stamp(ms):
    return None if ms is None else (datetime(1970, 1, 1) + timedelta(0, 0, 0, ms)).isoformat("T", "milliseconds") + "Z"
def hexed(octets): return octets and octets.hex()
def ms(us): return Decimal(us) / 1000
def address(pair):
    if pair is None: return None
    ip = ipaddress.ip_address(pair[0])
    if ip.version == 4: return "%s:%d" % (ip, pair[1])
    return "[%s]:%d" % ("::ffff:%s" % ip.ipv4_mapped if ip.ipv4_mapped else ip, pair[1])
def record_of(e, bodies, found):
    """Derives the record of a decision from its entry."""
    cuts, origin, number = e.get(30, {}), e.get(14, ""), int.from_bytes(e[1], "big")
    time = number >> 80
    def of(key): return text(e.get(key), cuts.get(key, 0))
    url, cut = origin.encode() + e[15] if 15 in e else e.get(16, b""), cuts.get(15, 0) + cuts.get(16, 0)
    scheme, authority = origin.split("://") if origin else ("", "")
    host, port = re.fullmatch("(.*?)(?::([0-9]+))?", authority).groups()
    want = {"time": stamp(time), "decided_at": stamp(time + e.get(2, 0)), "reason": of(5), "policy": hexed(e.get(6)),
        "id": "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[number >> shift & 31] for shift in range(125, -1, -5)),
        "mode": ("enforce", "report")[e.get(3, 0)], "verdict": ("allow", "deny", "defer")[e.get(4, 0)],
        "client": {"address": address(e[7]), "name": of(8)}, "agent": {"mismatch": e.get(11, False),
            "chain": [text(token) for token in e.get(9, [])] + ["…[+%d]" % cuts.get(9, 0)] * (9 in cuts),
            "source": ("none", "client", "config", "user_agent")[e.get(10, 0)]},
        "user_agent": of(12), "method": of(13), "version": of(32), "url": text(url, cut), "scheme": text(scheme),
        "host": text(host), "port": int(port or {"http": 80, "https": 443, "ftp": 21}.get(scheme, 0)),
        "via": ("plain", "intercepted", "tunnel", "decide")[e.get(17, 0)], "opaque": e.get(18, False), "rule": None,
        "reading": of(34), "override": None, "robots": None, "hold_ms": ms(e.get(22, 0)), "pace": None,
        "upstream": address(e.get(24)), "upstream_version": of(33), "status": e.get(25), "bytes_in": e.get(26, 0),
        "bytes_out": e.get(27, 0), "duration_ms": ms(e.get(28, 0)), "error": of(29)}
    if 36 in e: want["detail"] = of(36)
    if cut or found["url"] != url.decode("utf-8", "show"): want["url_sha256"] = hexed(e.get(35, sha(url)))
    if 19 in e: want["rule"] = {"group": text(e[19][0]), "text": text(e[19][1], cuts.get(19, 0)), "line": e[19][2]}
    if 23 in e: want["pace"] = {"interval_ms": ms(e[23][0]), "source": text(e[23][1]), "clamped": e[23][2]}
    if 20 in e:
        o = whole(bodies[e[20]])
        names = {"id": 0, "origin": 1, "pattern": 2, "by": 4, "reason": 5}
        named = {name: text(o.get(key, "")) for name, key in names.items()}
        want["override"] = {**named, "action": ("allow", "deny")[o.get(3, 0)], "until": stamp(o.get(6))}
    if 21 in e:
        b = whole(bodies[e[21]])
        o, fetched = b.get(9), b.get(4)
        want["robots"] = {"url": text(b[0] + "/robots.txt"), "final_url": text(b.get(1)), "state": text(b[2]),
            "status": b.get(3), "identity": text(b.get(10)), "user_agent": text(b.get(11)), "sha256": hexed(b.get(5)),
            "fetched_at": stamp(fetched), "age_s": None if fetched is None else max(0, time - fetched) // 1000,
            "bytes": b.get(6), "truncated": b.get(7, False), "fresh_until": stamp(b.get(8)), "unreachable": o and {
                "since": stamp(o[0]), "last_failure": stamp(o.get(5)), "cause": text(o[1]), "answers": o.get(2, False),
                "attempts": o.get(3, 0), "next_attempt": stamp(o[4])}}
    return want
def prove(part, log, witnesses, bodies):
    """Proves one record. Returns the sentences about it."""
    need(part.keys() == {"record", "entry", "proof", "objects", "robots"}, "missing or unknown fields")
    record, entry, robots = part["record"], b64(part["entry"]), part["robots"]
    e, (head, _, note) = whole(entry), part["proof"].partition("\n\n")
    form, index, *path = head.split("\n")
    signed, _, lines = note.rpartition("\n\n")
    need(form == "c2sp.org/tlog-proof@v1" and re.fullmatch("index (0|[1-9][0-9]*)", index), "a malformed proof")
    need(lines.endswith("\n"), "a malformed checkpoint")
    signed_at(signed + "\n", lines.split("\n"), log)
    name, size, root = signed.split("\n")[:3]
    index, size = int(index[6:]), int(size)
    need(name == log[0], "the checkpoint is of another log")
    need(root_of(sha(b"\0", entry), index, size, map(b64, path)) == b64(root), "the path leads to another checkpoint")
    seen = [(one[0], signed_at(signed + "\n", lines.split("\n"), one)) for one in witnesses]
    need(0 not in e, "the record is no decision, and this program compares decisions alone")
    need({*e} <= {*range(1, 31), *range(32, 37)}, "an entry with unknown keys")
    need(not any(type(e[key]) is int and e[key] < 0 for key in e if key != 2), "an entry with a number below 0")
    for one in part["objects"] + ([robots] if robots else []):
        body = one["body"].encode() if "body" in one else b64(one["body_base64"])
        kind = {"kind"} - ({"kind"} if one is robots else set())
        need(one.keys() == {"sha256", "body" if "body" in one else "body_base64"} | kind, "missing or unknown fields")
        need(sha(body).hex() == one["sha256"], "a body has another SHA-256")
        key = None if one is robots else {"terms": 6, "override": 20, "basis": 21}[one["kind"]]
        need(key is None or e.get(key) == sha(body), "a needless body")
        bodies[sha(body)] = body
    need(all(e[key] in bodies for key in (6, 20, 21) if key in e), "an object that the record rests on is missing")
    want = record_of(e, bodies, record)
    wrong = want.keys() ^ record.keys() or {name for name in want if not same(record[name], want[name])}
    need(not wrong, "the record is not what the entry says: " + ", ".join(sorted(wrong)))
    file = want["robots"] and want["robots"]["sha256"]
    need(not robots or robots["sha256"] == file, "a needless robots.txt")
    need(not file or bytes.fromhex(file) in bodies, "the robots.txt that the record rests on is missing")
    told = ["Proven: entry %d (counted from 0) of the log %s is this record." % (index, name),
        "The key of the log has signed its %d entries." % size,
        *("The witness %s saw these entries at %s." % one for one in seen),
        "At %s, by the log's own clock, %s asked for %s." % (want["time"], want["client"]["address"], record["url"]),
        "The decision was: %s, %s%s." % (want["verdict"], record["reason"], " (report mode)" * e.get(3, 0))]
    if record["rule"]:
        told += ["It rests on the rule \"%s\", line %d of the robots.txt." % (record["rule"]["text"], e[19][2])]
    if file:
        lines = re.split("\r\n|\r|\n", bodies[bytes.fromhex(file)].decode("utf-8", "show"))
        told += ["That is %s of %s, SHA-256 %s." % (record["robots"]["url"], want["robots"]["fetched_at"], file)]
        told += ["Its line %d: %s" % (e[19][2], lines[e[19][2] - 1])] if 19 in e else []
    return "\n".join("".join(c if c.isprintable() else ascii(c)[1:-1] for c in one) for one in told)
def once(pairs):
    need(len(dict(pairs)) == len(pairs), "a field that stands there twice")
    return dict(pairs)
def verify(data, log, witnesses=()):
    """Proves all records of a file. Returns the sentences about each."""
    log, witnesses, bodies, told, data, at = vkey(log), [vkey(one) for one in witnesses], {}, [], data.decode(), 0
    need(log[2] == 1 and all(one[2] == 4 for one in witnesses), "a key of another kind: that of the log comes first")
    decoder, header = json.JSONDecoder(object_pairs_hook=once, parse_float=Decimal), None
    while (at := re.compile(r"[ \t\r\n]*").match(data, at).end()) < len(data):
        part, at = decoder.raw_decode(data, at)
        if header is None:
            header = {name: part.pop(name) for name in ("format", "log", "vkey", "made_by")}
            need(header["format"] == "crawlgate-evidence@1", "another format")
            need(vkey(header["vkey"])[0] == header["log"] == log[0], "the file is of another log")
            header["is_one"] = bool(part)
            if not part: continue
        else: need(not header["is_one"], "something follows the record")
        told.append(prove(part, log, witnesses, bodies))
    need(told, "there is no record in the file")
    return told
FAILURES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError)
if __name__ == "__main__":
    if len(sys.argv) < 3 or len(sys.argv) % 2 == 0 or {*sys.argv[3::2]} - {"--witness"}: sys.exit(__doc__)
    try: print("\n\n".join(verify(open(sys.argv[1], "rb").read(), sys.argv[2], sys.argv[4::2])))
    except (ValueError, OSError) as error: sys.exit("Not proven: %s" % error)
    except FAILURES as error: sys.exit("Not proven: the file is malformed: %r" % error)
