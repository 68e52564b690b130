"""Checks Ed25519 signatures (RFC 8032, section 5.1), for verify-evidence.py beside this folder."""
import functools
import hashlib

PRIME, ORDER = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME


def add(p, q):
    """Adds two points of the curve. A point is x, y and xy, each times its last number."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]), (p[1] + p[0]) * (q[1] + q[0])
    c, d = 2 * D * p[2] * q[2], 2 * p[3] * q[3]
    e, f, g, h = (b - a) % PRIME, (d - c) % PRIME, (d + c) % PRIME, (b + a) % PRIME
    return e * f % PRIME, g * h % PRIME, e * h % PRIME, f * g % PRIME


def times(number, point):
    """Multiplies a point by a number."""
    total = (0, 1, 0, 1)
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
    x = x if x & 1 == octets[31] >> 7 else PRIME - x
    return x, y, x * y % PRIME, 1


BASE = point_of((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))


@functools.lru_cache(None)
def is_signed(public, message, signature):
    """Tells whether the key has signed the message."""
    if len(signature) != 64:
        return False
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(r + public + message).digest(), "little") % ORDER
    x, y, xy, z = point_of(public)
    x, y, _, z = add(times(s % ORDER, BASE), times(k, (PRIME - x, y, PRIME - xy, z)))
    x, y = x * pow(z, -1, PRIME) % PRIME, y * pow(z, -1, PRIME) % PRIME
    return s < ORDER and (y | (x & 1) << 255).to_bytes(32, "little") == r
