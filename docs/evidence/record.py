"""Derives the record from an entry, for verify-evidence.py beside this folder.

docs/evidence-files.md describes the keys of an entry and of the objects that it names.
"""
import re
from hashlib import sha256

from .cbor import decode
from .text import bounded
from .value import KINDS, element, given, number, stamp, typed

# Each field: its name in the record, its key in the entry, and its kind. A kind is one of KINDS,
# another form, or the words that the numbers from 0 stand for. Behind a kind stands a bound: the
# octets of a text in the record, or the largest number. "!" means that the field must be there.
FORMS = {
    "record": """
        mode 3 enforce/report, verdict 4 allow/deny/defer, reason 5 text!, policy 6 hex,
        user_agent 12 octets:1024, method 13 text!, via 17 plain/intercepted/tunnel/decide,
        opaque 18 flag, rule 19 rule, override 20 override, robots 21 robots, hold_ms 22 ms,
        pace 23 pace, upstream 24 address, status 25 number:65535, bytes_in 26 count,
        bytes_out 27 count, duration_ms 28 ms, error 29 text, version 32 text,
        upstream_version 33 text, reading 34 octets:2048, usage 31 json, detail 36 extra:1024,
        signed 37 signed, exempt 39 exempt""",
    "signed": "as 0 text!, keyid 1 text!, created 2 number!",
    "exempt": "from 0 text!, reason 1 text!:4096",
    "agent": "source 10 none/client/config/user_agent, mismatch 11 flag",
    "client": "address 7 address!, name 8 text",
    "rule": "group 0 token!, text 1 octets!:4096, line 2 number!:4294967295",
    "pace": "interval_ms 0 micros!, source 1 text!, clamped 2 either!",
    "override": """
        id 0 text!, origin 1 text!:1024, pattern 2 text!:4096, action 3 allow/deny/allow_usage,
        by 4 text!:4096, reason 5 text!:4096, until 6 time, instance 8 extra""",
    "robots": """
        final_url 1 octets:4096, state 2 text!, status 3 number:65535, fetched_at 4 time,
        sha256 5 hex, bytes 6 number, truncated 7 flag, fresh_until 8 time,
        unreachable 9 outage, identity 10 text, user_agent 11 text:1024""",
    "outage": """
        since 0 time!, cause 1 text!, answers 2 flag, attempts 3 count:4294967295,
        next_attempt 4 time!, last_failure 5 time""",
}
FURTHER = {"robots": {0}, "override": {7}}  # keys of the objects that are no field
PARTS = ("record", "client", "agent")  # the forms of which each has some keys of the entry
ABSENT, EXTRA = {"count": 0, "flag": False, "ms": 0.0}, ("extra", "json", "signed", "exempt")
PORTS, BASE_32 = {"http": 80, "https": 443, "ftp": 21}, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
CUTTABLE = {8, 9, 12, 13, 15, 16, 19, 29, 34, 36}  # the keys of what an entry may have cut
STRANGERS = ("unauthenticated", "unknown_client")  # the reasons for which less is kept


def fields(form, values, cuts, bodies):
    """Derives the fields of a form from a map of CBOR. `cuts` counts octets cut off by key."""
    derived, keys = {}, {*FURTHER.get(form, ())}
    for row in FORMS[form].split(","):
        name, key, kind = row.split()
        kind, _, most = kind.partition(":")
        key, most, is_needed, kind = int(key), int(most or 0), "!" in kind, kind.rstrip("!")
        value = values.get(key)
        keys.add(key)
        if value is None and not is_needed:
            empty = kind.split("/")[0] if "/" in kind else ABSENT.get(kind)
            derived.update({} if kind in EXTRA else {name: empty})
        elif "/" in kind:
            derived[name] = kind.split("/")[given(number(value))]
        elif kind in KINDS:
            derived[name] = KINDS[kind](value, most, cuts.get(key, 0))
        elif kind == "signed" and isinstance(value, int):
            derived[name] = {("left", "unsignable")[given(number(value)) - 1]: True}
        else:
            inner = decode(bodies[value]) if isinstance(value, bytes) else value
            inner = dict(enumerate(inner)) if isinstance(inner, list) else inner
            derived[name] = fields(kind, inner, {1: cuts.get(key, 0)}, bodies)
    if form not in PARTS and not values.keys() <= keys:
        raise ValueError("an unknown key")
    return derived


def url_of(entry, origin, cut, most):
    """Derives the URL, and the SHA-256 of one that the record cuts."""
    url, path = typed(entry.get(15, entry.get(16, b"")), bytes), 15 in entry
    is_path = 14 in entry and url[:1] in (b"", b"/", b"?")
    if path and not is_path or 35 in entry and not cut:
        raise ValueError("a path that follows no origin, or the digest of a URL that is whole")
    octets = origin.encode() + url if path else url
    shown, left_out = bounded(octets, most, cut)
    whole = entry.get(35, sha256(octets).digest())
    return {"url": shown} | ({"url_sha256": whole.hex()} if left_out else {})


def record_of(entry, bodies):
    """Derives the record of a decision."""
    identifier, cuts = int.from_bytes(entry[1], "big"), entry.get(30, {})
    origin = typed(entry.get(14, ""), str)
    is_right = all(map(number, cuts.values())) and cuts.keys() <= CUTTABLE
    if not is_right or 30 in entry and not cuts or not cuts.keys() - {9} <= entry.keys():
        raise ValueError("a cut of nothing")
    if len(typed(entry[1], bytes)) != 16 or not typed(entry.get(2, 1), int):
        raise ValueError("an identifier of another length, or a default that is written")
    time, is_strange = identifier >> 80, entry[5] in STRANGERS  # in milliseconds
    record = fields("record", entry, cuts, bodies)
    record["id"] = "".join(BASE_32[identifier >> shift & 31] for shift in range(125, -1, -5))
    record["time"], record["decided_at"] = stamp(time), stamp(time + entry.get(2, 0))
    record |= {name: fields(name, entry, cuts, bodies) for name in ("client", "agent")}
    chain, more = entry.get(9, []), cuts.get(9, 0)
    if (9 in entry) != bool(chain or more):
        raise ValueError("a chain of no tokens")
    more += max(0, len(chain) - 32)
    tokens = [element(token) for token in chain]
    record["agent"]["chain"] = tokens[:32] + ([f"…[+{more}]"] if more else [])
    if is_strange and 12 in entry:
        record["user_agent"] = bounded(entry[12], 512, cuts.get(12, 0))[0]
    most, cut = (512 if is_strange else 2048), cuts.get(15, 0) + cuts.get(16, 0)
    record |= url_of(entry, origin, cut, most)
    scheme, host, port = re.fullmatch("(?:(.*?)://)?(.*?)(?::([0-9]+))?", origin).groups("")
    record["scheme"], record["host"] = scheme, bounded(host.encode(), 1024)[0]
    record["port"] = int(port or PORTS.get(scheme, 0))
    for key, of, path in (21, "robots", "/robots.txt"), (38, "tdmrep", "/.well-known/tdmrep.json"):
        if basis := key in entry and decode(bodies[entry[key]]):
            url = bounded((typed(basis[0], str) + path).encode(), 1024)[0]
            derived = fields("robots", basis, {}, bodies) | {"url": url}
            derived["age_s"] = max(0, time - basis[4]) // 1000 if 4 in basis else None
            (record["usage"] if key == 38 else record)[of] = derived
    return record


def is_same(found, want):
    """Compares a value of the file with the derived one."""
    if isinstance(want, list):
        is_long = isinstance(found, list) and len(found) == len(want)
        return is_long and all(map(is_same, found, want))
    if isinstance(want, dict):
        is_map = isinstance(found, dict) and found.keys() == want.keys()
        return is_map and all(is_same(found[key], want[key]) for key in want)
    return found == want and type(found) is type(want)
