"""The token of a GitHub App: a signed statement of who we are (a JWT with RS256), exchanged for a token of an hour.

The signature is RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017), which is one modular power of the key's own numbers. A
library for it would weigh more than all other code that ships; tests compare the result with one.
"""

import json
from base64 import b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha256

from nodefleet.errors import MisconfiguredError

LASTS = timedelta(minutes=9)  # GitHub takes ten at most
_SKEW = timedelta(seconds=60)  # GitHub's advice: clocks differ
_DIGEST_INFO = bytes.fromhex("3031300d060960864801650304020105000420")  # of SHA-256, in DER
_INTEGER, _OCTETS, _SEQUENCE = 0x02, 0x04, 0x30
_PKCS1_NUMBERS = 9  # version, n, e, d, p, q, …
_NOT_A_KEY = "private_key is no RSA key in PEM form: store the file that GitHub gave, line ends as \\n"


def app_token(app_id: str, private_key: str, now: datetime) -> str:
    """The JWT that proves to GitHub that we hold the App's key."""
    claims = {"iat": int((now - _SKEW).timestamp()), "exp": int((now + LASTS).timestamp()), "iss": app_id}
    signed = b".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, claims))
    return (signed + b"." + _encode(_sign(signed, *_numbers(private_key)))).decode()


def _encode(content: bytes) -> bytes:
    return urlsafe_b64encode(content).rstrip(b"=")


def _sign(content: bytes, modulus: int, exponent: int) -> bytes:
    size = (modulus.bit_length() + 7) // 8
    digest = _DIGEST_INFO + sha256(content).digest()
    padded = b"\x00\x01" + b"\xff" * (size - len(digest) - 3) + b"\x00" + digest
    return pow(int.from_bytes(padded, "big"), exponent, modulus).to_bytes(size, "big")


def _numbers(pem: str) -> tuple[int, int]:
    """Modulus and private exponent, of PKCS#1 (as GitHub gives it) or PKCS#8."""
    lines = [line for line in pem.replace("\\n", "\n").splitlines() if line and not line.startswith("-----")]
    try:
        ((_, key),) = _parts(b64decode("".join(lines), validate=True))
        fields = list(_parts(key))
        inner = next((content for tag, content in fields if tag == _OCTETS), None)
        if inner is not None:
            ((_, key),) = _parts(inner)
            fields = list(_parts(key))
    except (Base64Error, ValueError, IndexError):
        raise MisconfiguredError(_NOT_A_KEY) from None
    numbers = [int.from_bytes(content, "big") for tag, content in fields if tag == _INTEGER]
    if len(numbers) < _PKCS1_NUMBERS:
        raise MisconfiguredError(_NOT_A_KEY)
    return numbers[1], numbers[3]


def _parts(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Tag and content of each element."""
    at = 0
    while at < len(der):
        tag, length, at = der[at], der[at + 1], at + 2
        if length & 0x80:
            size = length & 0x7F
            length, at = int.from_bytes(der[at : at + size], "big"), at + size
        if at + length > len(der) or tag not in (_INTEGER, _OCTETS, _SEQUENCE):
            raise ValueError("not DER")
        yield tag, der[at : at + length]
        at += length
