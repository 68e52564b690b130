"""Checks Ed25519 signatures (RFC 8032, section 5.1), for verify-evidence.py beside this folder."""
import functools
import hashlib

PRIME, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME


def add(p, q):
    """Adds two points of the curve."""
    product = D * p[0] * q[0] * p[1] * q[1]
    x = (p[0] * q[1] + p[1] * q[0]) * pow(1 + product, -1, PRIME)
    y = (p[1] * q[1] + p[0] * q[0]) * pow(1 - product, -1, PRIME)
    return x % PRIME, y % PRIME


def times(number, point):
    """Multiplies a point by a number."""
    total = (0, 1)
    while number:
        if number & 1:
            total = add(total, point)
        number, point = number >> 1, add(point, point)
    return total


def point_of(octets):
    """Reads a point of the curve."""
    y = int.from_bytes(octets, "little") & 2**255 - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if x * x % PRIME != square:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    if y >= PRIME or x * x % PRIME != square:
        raise ValueError("a public key that is no point")
    return (x if x & 1 == octets[31] >> 7 else PRIME - x), y


BASE = point_of((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))


@functools.lru_cache(None)
def is_signed(public, message, signature):
    """Tells whether the key has signed the message."""
    if len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % ORDER
    x, y = point_of(public)
    x, y = add(times(s % ORDER, BASE), times(k, (PRIME - x, y)))
    return s < ORDER and (y | (x & 1) << 255).to_bytes(32, "little") == r
