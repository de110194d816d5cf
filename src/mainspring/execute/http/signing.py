"""The signature by which a receiver knows that a request is ours, and fresh. Pure.

    Mainspring-Signature: t=<seconds since 1970>,v1=<hexadecimal>

v1 is the HMAC-SHA256, with the secret's UTF-8 bytes as its key, of four lines joined by a line feed, with none at the end: the
same t; the method; the path with its query, as sent; the SHA-256 of the body in hexadecimal. A receiver makes the same text,
compares in constant time, and refuses a t that is too long ago.
"""

import hashlib
import hmac

HEADER = "Mainspring-Signature"


def signature(key: str, at_s: int, method: str, path: str, body: bytes) -> str:
    """The header's value."""
    text = "\n".join([str(at_s), method, path, hashlib.sha256(body).hexdigest()])
    return f"t={at_s},v1={hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()}"
