"""Writes the texts of a record, for verify-evidence.py beside this folder.

A record bounds each text by the octets that it takes in JSON, escapes included. A longer text is
cut, and says by how much: the entry alone tells which text is cut in the record, and where.
"""
import re

MARK = 32  # room for the longest "…[+N bytes]"
MISLEADING = re.compile(  # the characters that a record spells as \uNNNN
    "[\0-\x1f\x7f-\xa0\xad\u034f\u061c\u070f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0"
    "\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]")


def read(octets):
    """Reads characters, and each octet that is not UTF-8 as half a character."""
    return octets.decode("utf-8", "surrogateescape")


def show(octets):
    """Writes octets as the record has them."""
    return re.sub("[\udc80-\udcff]", lambda one: "\\x%02X" % (ord(one[0]) - 0xDC00), read(octets))


def widths(one):
    """Counts the octets of a character: in JSON, and before."""
    own = len(one.encode("utf-8", "surrogateescape"))
    if "\udc80" <= one <= "\udcff":
        return len(r"\\xNN"), own
    if MISLEADING.match(one):
        return 6 * len(one.encode("utf-16-le")) // 2, own
    return (2 if one in '"\\' else own), own


def bounded(octets, most, cut=0):
    """Writes a text within its bound, and the number of octets left out. `cut` were cut before."""
    used = taken = with_mark = 0
    for one in read(octets):
        wide, own = widths(one)
        used, taken = used + wide, taken + own
        if used + MARK <= most:
            with_mark = taken
        if used > most:
            break
    kept = with_mark if cut or used > most else taken
    left_out = cut + len(octets) - kept
    return show(octets[:kept]) + (f"…[+{left_out} bytes]" if left_out else ""), left_out
