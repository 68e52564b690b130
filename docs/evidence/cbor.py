"""Reads CBOR (RFC 8949), the types that entries have, for verify-evidence.py beside this folder."""
import io

MOST = 65_535  # octets of an entry, or of an object that it names


def decode(data):
    """Reads an entry or an object, all of it: one map."""
    if len(data) > MOST:
        raise ValueError("an entry or an object that is too long")
    octets = io.BytesIO(data)
    item = read_item(octets)
    if octets.read(1) or not isinstance(item, dict):
        raise ValueError("octets after the end of CBOR, or no map")
    return item


def take(octets, count):
    """Takes so many octets."""
    taken = octets.read(count)
    if len(taken) != count:
        raise ValueError("CBOR that is cut")
    return taken


def read_item(octets):
    """Reads one item with all that it holds. There is one form for each."""
    major, number = divmod(take(octets, 1)[0], 32)
    if major == 7 and number in (20, 21):
        return number == 21
    if number > 27 or major > 5:
        raise ValueError("CBOR of another form")
    if number > 23:
        length = 1 << number - 24
        number = int.from_bytes(take(octets, length), "big")
        if number < (24 if length == 1 else 1 << 4 * length):
            raise ValueError("a number that is not in its shortest form")
    if major < 2:
        return ~number if major else number
    if major < 4:
        return take(octets, number).decode() if major == 3 else take(octets, number)
    items = [read_item(octets) for _ in range(number * (major - 3))]
    if major == 4:
        return items
    if items[::2] != sorted(set(items[::2])):
        raise ValueError("CBOR with keys in disorder")
    return dict(zip(items[::2], items[1::2]))
