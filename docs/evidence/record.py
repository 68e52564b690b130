"""Derives the record from an entry, for verify-evidence.py beside this folder.

docs/evidence-files.md describes the keys of an entry and of the objects that it names.
"""
import codecs
import ipaddress
import json
import re
from datetime import datetime, timedelta
from hashlib import sha256

from .cbor import decode

# Each field: its name in the record, its key in the entry, and its kind. A kind is one of KINDS,
# another form, or the words that the numbers from 0 stand for.
FORMS = {
    "record": """
        mode 3 enforce/report, verdict 4 allow/deny/defer, reason 5 text, policy 6 hex,
        user_agent 12 text, method 13 text, via 17 plain/intercepted/tunnel/decide,
        opaque 18 flag, rule 19 rule, override 20 override, robots 21 robots, hold_ms 22 ms,
        pace 23 pace, upstream 24 address, status 25 number, bytes_in 26 count,
        bytes_out 27 count, duration_ms 28 ms, error 29 text, version 32 text,
        upstream_version 33 text, reading 34 text, usage 31 json, detail 36 extra,
        signed 37 signed, exempt 39 exempt""",
    "signed": "as 0 text, keyid 1 text, created 2 number", "exempt": "from 0 text, reason 1 text",
    "agent": "source 10 none/client/config/user_agent, mismatch 11 flag",
    "client": "address 7 address, name 8 text",
    "rule": "group 0 text, text 1 text, line 2 number",
    "pace": "interval_ms 0 ms, source 1 text, clamped 2 flag",
    "override": """
        id 0 text, origin 1 text, pattern 2 text, action 3 allow/deny/allow_usage, by 4 text,
        reason 5 text, until 6 time, instance 8 extra""",
    "robots": """
        final_url 1 text, state 2 text, status 3 number, fetched_at 4 time, sha256 5 hex,
        bytes 6 number, truncated 7 flag, fresh_until 8 time, unreachable 9 outage,
        identity 10 text, user_agent 11 text""",
    "outage": """
        since 0 time, cause 1 text, answers 2 flag, attempts 3 count, next_attempt 4 time,
        last_failure 5 time""",
}
PORTS, BASE_32 = {"http": 80, "https": 443, "ftp": 21}, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def escape(error):
    """Writes octets that are not UTF-8."""
    octets = error.object[error.start:error.end]
    return "".join("\\x%02X" % octet for octet in octets), error.end


def show(octets):
    """Writes octets as the record has them."""
    return octets.decode("utf-8", "escape")


codecs.register_error("escape", escape)


def text(value, cut=0):
    """Returns the octets of a text, and the number of those that are cut off."""
    if isinstance(value, list):
        value, cut = value
    return value.encode() if isinstance(value, str) else value, cut


def stamp(millis):
    """Writes milliseconds since 1970."""
    time = datetime(1970, 1, 1) + timedelta(milliseconds=millis)
    return time.isoformat("T", "milliseconds") + "Z"


def address(pair):
    """Writes an address and a port."""
    ip, port = ipaddress.ip_address(pair[0]), pair[1]
    if ip.version == 4:
        return f"{ip}:{port}"
    return f"[::ffff:{ip.ipv4_mapped}]:{port}" if ip.ipv4_mapped else f"[{ip}]:{port}"


KINDS = {
    "text": text, "json": json.loads,
    "hex": bytes.hex, "time": stamp,
    "address": address,
    "ms": lambda micros: micros / 1000,
    **dict.fromkeys(["number", "count", "flag"], lambda value: value),
}
ABSENT, EXTRA = {"count": 0, "flag": False, "ms": 0.0}, ("extra", "json", "signed", "exempt")


def fields(form, values, cuts, bodies):
    """Derives the fields of a form from a map of CBOR. `cuts` counts octets cut off by key."""
    derived = {}
    for row in FORMS[form].split(","):
        name, key, kind = row.split()
        value = values.get(int(key))
        if "/" in kind:
            derived[name] = kind.split("/")[value or 0]
        elif value is None:
            derived.update({} if kind in EXTRA else {name: ABSENT.get(kind)})
        elif kind in ("text", "extra"):  # a record leaves out EXTRA fields without a value
            derived[name] = text(value, cuts.get(int(key), 0))
        elif kind in KINDS:
            derived[name] = KINDS[kind](value)
        elif kind == "signed" and isinstance(value, int):
            derived[name] = {("left", "unsignable")[value - 1]: True}
        else:
            inner = decode(bodies[value]) if isinstance(value, bytes) else value
            inner = dict(enumerate(inner)) if isinstance(inner, list) else inner
            derived[name] = fields(kind, inner, {1: cuts.get(int(key), 0)}, bodies)
    return derived


def record_of(entry, bodies, found):
    """Derives the record of a decision. `found` is the one of the file, which may cut the URL."""
    cuts, origin, number = entry.get(30, {}), entry.get(14, ""), int.from_bytes(entry[1], "big")
    time = number >> 80  # in milliseconds
    record = fields("record", entry, cuts, bodies)
    record["id"] = "".join(BASE_32[number >> shift & 31] for shift in range(125, -1, -5))
    record["time"], record["decided_at"] = stamp(time), stamp(time + entry.get(2, 0))
    record |= {name: fields(name, entry, cuts, bodies) for name in ("client", "agent")}
    more = [f"…[+{cuts[9]}]"] if 9 in cuts else []
    record["agent"]["chain"] = [text(token) for token in entry.get(9, [])] + more
    url = origin.encode() + entry[15] if 15 in entry else entry.get(16, b"")
    record["url"] = url, (cut := cuts.get(15, 0) + cuts.get(16, 0))
    if cut or found["url"] != show(url):
        record["url_sha256"] = entry.get(35, sha256(url).digest()).hex()
    scheme, host, port = re.fullmatch("(?:(.*?)://)?(.*?)(?::([0-9]+))?", origin).groups("")
    record["scheme"], record["host"] = scheme, text(host)
    record["port"] = int(port or PORTS.get(scheme, 0))
    for key, of, path in (21, "robots", "/robots.txt"), (38, "tdmrep", "/.well-known/tdmrep.json"):
        if basis := key in entry and decode(bodies[entry[key]]):
            derived = fields("robots", basis, {}, bodies) | {"url": text(basis[0] + path)}
            derived["age_s"] = max(0, time - basis[4]) // 1000 if 4 in basis else None
            (record["usage"] if key == 38 else record)[of] = derived
    return record


def is_same(found, want):
    """Compares a value of the file with the derived one."""
    if isinstance(want, tuple):  # the record may leave out the end of a text, and say by how much
        octets, cut = want
        kept, more = re.fullmatch(r"(.*?)(?:…\[\+([1-9][0-9]*) bytes\])?", found, re.S).groups(0)
        is_cut = 0 <= (left := len(octets) + cut - int(more)) <= len(octets)
        return is_cut and kept == show(octets[:left]) or cut == 0 and found == show(octets)
    if isinstance(want, list):
        is_long = isinstance(found, list) and len(found) == len(want)
        return is_long and all(map(is_same, found, want))
    if isinstance(want, dict):
        return found.keys() == want.keys() and all(is_same(found[key], want[key]) for key in want)
    return found == want and type(found) is type(want)
