#!/usr/bin/env python3
"""Verifies an evidence file of crawlgate: verify-evidence.py FILE VKEY [--witness VKEY]...

VKEY, the key of the log, must come from another source than the file. docs/evidence-files.md
describes the file. Exits 0 if every record is proven, else 1. Needs Python 3.9 or newer and the
folder evidence beside it, nothing else. All its files are short, so that you can read them.
"""
import json
import re
import sys
from hashlib import sha256

from evidence.cbor import decode
from evidence.log import keys_of, locate, need, octets_of, parse, read_key
from evidence.record import is_same, record_of
from evidence.text import show

FAILURES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
OBJECTS = {"terms": [6], "override": [20], "basis": [21, 38]}  # the keys that name them
FILES = {"robots": 21, "tdmrep": 38}  # the fields with a file, and the keys of their bases
DECISION = {*range(1, 40)}  # the keys of a decision


def keep_bodies(part, entry, bodies):
    """Checks the objects and the files of a record by the SHA-256 that name them."""
    named = [(one, [entry.get(key) for key in OBJECTS[one["kind"]]], 3) for one in part["objects"]]
    for one in [part[name] for name in FILES if part.get(name) is not None]:
        named.append((one, [bytes.fromhex(one["sha256"])], 2))
    for one, digests, length in named:
        body = one["body"].encode() if "body" in one else octets_of(one["body_base64"])
        digest = sha256(body).digest()
        is_right = digest in digests and one["sha256"] == digest.hex()
        need(is_right and len(one) == length, "a body that is altered or needless")
        bodies[digest] = body
    is_complete = all(entry[key] in bodies for key in sum(OBJECTS.values(), []) if key in entry)
    need(is_complete, "an object that the record rests on is missing")


def file_of(name, part, entry, bodies):
    """Returns a file that a decision rests on, and its SHA-256 in hexadecimal digits."""
    digest = decode(bodies[entry[FILES[name]]]).get(5) if FILES[name] in entry else None
    digits = digest.hex() if digest else None
    given = part[name]["sha256"] if part.get(name) is not None else digits
    is_there = given == digits and (digest is None or digest in bodies)
    need(is_there, f"the {name} that the record rests on is missing, or another one is there")
    return bodies.get(digest), digits


def prove(part, keys, witnesses, bodies):
    """Proves one record. Returns the sentences about it."""
    fields = part.keys() - {"tdmrep"}
    need(fields == {"record", "entry", "proof", "objects", "robots"}, "unknown fields")
    is_right = type(part["objects"]) is list and part.get("tdmrep", {}) is not None
    need(is_right, "objects is no list, or tdmrep is null")
    entry, index, signed = locate(parse(part), keys, witnesses)
    is_decision = entry.keys() <= DECISION
    need(is_decision, "it is no decision, and this program compares decisions alone")
    keep_bodies(part, entry, bodies)
    robots, digest = file_of("robots", part, entry, bodies)
    tdmrep, of_tdmrep = file_of("tdmrep", part, entry, bodies)

    record = part["record"]
    derived = record_of(entry, bodies)
    wrong = derived.keys() ^ record.keys()
    wrong = wrong or {name for name in record if not is_same(record[name], derived[name])}
    need(not wrong, "the record is not what the entry says: " + ", ".join(sorted(wrong)))

    log, mode = keys[0][0][0], " (report mode)" if record["mode"] == "report" else ""
    told = [f"Proven: entry {index} (counted from 0) of the log {log} is this record.", *signed]
    who = record["client"]["address"]
    told.append(f"At {record['time']}, by the log's own clock, {who} asked for {record['url']}.")
    told.append(f"The decision was: {record['verdict']}, {record['reason']}{mode}.")
    if 19 in entry:
        rule, line = record["rule"]["text"], record["rule"]["line"]
        told.append(f"It rests on the rule \"{rule}\", line {line} of the robots.txt.")
    if robots is not None:
        basis = record["robots"]
        told.append(f"That is {basis['url']} of {basis['fetched_at']}, SHA-256 {digest}.")
    if robots is not None and 19 in entry:
        lines = re.split("\r\n|\r|\n", show(robots))
        told.append(f"Its line {line}: {lines[line - 1]}")
    if tdmrep is not None:
        told.append(f"Its tdmrep.json is {record['usage']['tdmrep']['url']}, SHA-256 {of_tdmrep}.")
    return "\n".join(map(printable, told))


def printable(text):
    """Escapes what a terminal would obey."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def once(pairs):
    """Refuses an object of JSON that has a field twice."""
    need(len(dict(pairs)) == len(pairs), "a field that stands there twice")
    return dict(pairs)


def whole(digits):
    """Reads a whole number. Others are floats, and never the same as a whole one."""
    return float(digits) if digits == "-0" or len(digits) > 20 else int(digits)


def parts_of(data):
    """Reads the objects of JSON in a file, one after another."""
    decoder = json.JSONDecoder(object_pairs_hook=once, parse_int=whole)
    text, space = data.decode(), re.compile(r"[ \t\r\n]*")
    at = space.match(text).end()
    while at < len(text):
        part, at = decoder.raw_decode(text, at)
        yield part
        at = space.match(text, at).end()


def verify(data, log, witnesses=()):
    """Proves all records of a file. Returns the sentences about each."""
    log, witnesses = read_key(log, 1), [read_key(one, 4) for one in witnesses]
    parts = parts_of(data)
    first = next(parts, None)
    need(first, "there is no record in the file")
    header = {name: first.pop(name) for name in ("format", "log", "vkey", "made_by")}
    made_by, rotations = header["made_by"], first.pop("rotations", [])
    is_right = type(made_by) is str and not re.search("[\ud800-\udfff]", made_by)
    need(is_right and type(rotations) is list, "made_by is no text, or rotations no list")
    keys = keys_of(log, rotations)
    need(header["format"] == "crawlgate-evidence@1", "another format")
    is_same_log = read_key(header["vkey"], 1)[0] == header["log"] == log[0]
    need(is_same_log, "the file is of another log")
    bodies, others = {}, parts if not first else [first]
    told = [prove(part, keys, witnesses, bodies) for part in others]
    need(told, "there is no record in the file")
    need(next(parts, parts) is parts, "something follows the record")
    return told


def main():
    """Verifies the file that the command line names."""
    _, *arguments = sys.argv
    if len(arguments) < 2 or len(arguments) % 2 or set(arguments[2::2]) - {"--witness"}:
        sys.exit(__doc__)
    try:
        with open(arguments[0], "rb") as file:
            print("\n\n".join(verify(file.read(), arguments[1], arguments[3::2])))
    except OSError as error:
        sys.exit(f"Not proven: {arguments[0]}: {error.strerror}")
    except FAILURES as error:
        sys.exit(f"Not proven: {error if isinstance(error, ValueError) else repr(error)}")


if __name__ == "__main__":
    main()
