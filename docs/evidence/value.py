"""Writes the values of a record, for verify-evidence.py beside this folder.

An entry has each value in one form: of one type, within a bound, and never a default.
"""
import ipaddress
import json
from datetime import datetime, timedelta

from .text import bounded

LARGEST = 2**64 - 1


def typed(value, kind):
    """Returns a value if it is of a type."""
    if type(value) is not kind:
        raise ValueError("a value of another type")
    return value


def number(value, most=LARGEST):
    """Returns a whole number from 0 up to a bound."""
    if not 0 <= typed(value, int) <= most:
        raise ValueError("a number out of range")
    return value


def given(value):
    """Returns a value that is no default: an entry leaves those out."""
    if not value:
        raise ValueError("a default that is written")
    return value


def digest(value):
    """Writes a SHA-256."""
    if len(typed(value, bytes)) != 32:
        raise ValueError("a digest of another length")
    return value.hex()


def stamp(millis):
    """Writes milliseconds since 1970."""
    time = datetime(1970, 1, 1) + timedelta(milliseconds=millis)
    return time.isoformat("T", "milliseconds") + "Z"


def address(pair):
    """Writes an address and a port."""
    octets, port = pair
    ip, port = ipaddress.ip_address(typed(octets, bytes)), number(port, 65_535)
    if ip.version == 4:
        return f"{ip}:{port}"
    return f"[::ffff:{ip.ipv4_mapped}]:{port}" if ip.ipv4_mapped else f"[{ip}]:{port}"


def element(value):
    """Writes a text, or a list of one and the number of octets cut off."""
    kept, cut = (value[0], given(number(value[1]))) if isinstance(value, list) else (value, 0)
    if isinstance(value, list) and len(value) != 2:
        raise ValueError("a text of another form")
    return bounded(typed(kept, str).encode(), 256, cut)[0]


KINDS = {  # from a value, its bound (0: the usual one), and the number of octets cut off
    "text": lambda value, most, cut: bounded(typed(value, str).encode(), most or 256, cut)[0],
    "octets": lambda value, most, cut: bounded(typed(value, bytes), most, cut)[0],
    "token": lambda value, *_: element(value),
    "json": lambda value, *_: json.loads(typed(value, str)),
    "hex": lambda value, *_: digest(value),
    "time": lambda value, *_: stamp(number(value)),
    "address": lambda value, *_: address(value),
    "number": lambda value, most, _: number(value, most or LARGEST),
    "count": lambda value, most, _: given(number(value, most or LARGEST)),
    "micros": lambda value, *_: number(value) / 1000,
    "ms": lambda value, *_: given(number(value)) / 1000,
    "flag": lambda value, *_: given(typed(value, bool)),
    "either": lambda value, *_: typed(value, bool),
}
KINDS["extra"] = KINDS["text"]
