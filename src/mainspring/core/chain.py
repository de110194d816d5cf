"""The hash chain of audit records. Pure.

A record's `digest` is the SHA-256 of its content; its `hash` ties tenant, number, time and digest to the hash before it. So a
record that was changed, removed or put between others shows; and because the hash needs the digest only, the content of an
erased tenant can go while the chain stays verifiable.
"""

import hashlib
from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from mainspring.core.timer import Micros

FIRST = bytes(32)  # what the first record is tied to


def digest_of(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def link(before: bytes, tenant: str, number: int, at: Micros, digest: bytes) -> bytes:
    """The hash of a record behind the one whose hash is `before`."""
    name = tenant.encode()
    sizes = len(name).to_bytes(4, "big") + number.to_bytes(8, "big") + at.to_bytes(8, "big")
    return hashlib.sha256(before + sizes + name + digest).digest()


class Link(Protocol):
    """A record as it is stored; `content` is None after an erasure."""

    @property
    def tenant(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def at(self) -> Micros: ...
    @property
    def content(self) -> bytes | None: ...
    @property
    def digest(self) -> bytes: ...
    @property
    def hash(self) -> bytes: ...


class Checked(Struct, frozen=True):
    """How far a chain was looked at: its last good record and that one's hash, and the number of the first that does not fit."""

    number: int = 0
    hash: bytes = FIRST
    broken_at: int | None = None


def verify(tenant: str, entries: Iterable[Link], *, after: Checked | None = None, erased: bool = False) -> Checked:
    """Go on checking a tenant's chain behind `after`. `erased`: records without content are as they should be.

    A number that is missing is the one that is broken. Records cut off at the end do not show: keep the last hash elsewhere.
    """
    checked = after or Checked()
    for entry in entries:
        if checked.broken_at is not None:
            break
        number = checked.number + 1
        fits = _fits(tenant, number, checked.hash, entry, erased)
        checked = Checked(number, entry.hash) if fits else Checked(checked.number, checked.hash, number)
    return checked


def _fits(tenant: str, number: int, before: bytes, entry: Link, erased: bool) -> bool:
    try:
        if entry.tenant != tenant or entry.number != number:
            return False
        if entry.hash != link(before, tenant, number, entry.at, entry.digest):
            return False
        return erased if entry.content is None else entry.digest == digest_of(entry.content)
    except (TypeError, AttributeError, OverflowError):
        return False  # whoever can write to the database can write values of any type
