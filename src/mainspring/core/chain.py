"""The hash chain of audit records. Pure.

A record's `digest` is the SHA-256 of its content; its `hash` ties tenant, number, time and digest to the hash before it. So a
record that was changed, removed or put between others shows; and because the hash needs the digest only, the content of an
erased tenant can go while the chain stays verifiable.
"""

import hashlib

from mainspring.core.timer import Micros

FIRST = bytes(32)  # what the first record is tied to


def digest_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def link(before: bytes, tenant: str, number: int, at: Micros, digest: bytes) -> bytes:
    """The hash of a record behind the one whose hash is `before`."""
    name = tenant.encode()
    sizes = len(name).to_bytes(4, "big") + number.to_bytes(8, "big") + at.to_bytes(8, "big")
    return hashlib.sha256(before + sizes + name + digest).digest()
