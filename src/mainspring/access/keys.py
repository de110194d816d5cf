"""Keys: how they look, how they are made, and what they are compared with.

    msk_<id>_<secret>

`id` is public: 12 characters of base32 by which the key is found and shown. `secret` is 256 random bits. Only the SHA-256 of
the whole text is stored: a secret of that size needs no slow hash, and nobody who reads the store gets a key from it. Whatever
is wrong with a key, whoever uses it hears the same sentence.

`Keyring` knows the keys in use for a few seconds without asking the store. A revoked key is refused at once on the server that
revoked it and wherever the hint arrives, and within `FRESH_S` everywhere. What is not a key costs nothing; an id that nobody has
costs one query however often it is repeated, and ids that are tried at the same time share one. Both memories are bounded, and
apart: trying ids does not push out the keys in use.
"""

import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from mainspring.access.gathering import Gathering
from mainspring.access.roles import Role
from mainspring.core.timer import Micros
from mainspring.errors import UnknownKeyError
from mainspring.runtime.clock import Clock
from mainspring.store.contract import Hint
from mainspring.store.service import ALL_TENANTS, KeyRecord, Keys

FRESH_S = 5.0
MOST = 10_000  # keys in use, and unknown ids, that are remembered
_IDS_PER_QUERY = 500

_ID_LENGTH = 12
_SECRET_BYTES = 32
_ID = re.compile(r"[a-z2-7]{12}")
_KEY = re.compile(r"msk_([a-z2-7]{12})_[A-Za-z0-9_-]{43}")
_SECRETS = re.compile(rb"(msk_[a-z2-7]{12}_)[A-Za-z0-9_-]{43}")
_ROLES = frozenset(Role)


class Caller(Struct, frozen=True):
    """Who asks, as the key says. `tenant`: ALL_TENANTS where it may act for each."""

    key: str
    name: str
    role: Role
    tenant: str
    requests_per_s: float | None = None

    @property
    def everywhere(self) -> bool:
        """May it act for every tenant?"""
        return self.tenant == ALL_TENANTS


def make_key(
    name: str,
    role: Role,
    tenant: str,
    *,
    now: Micros,
    created_by: str,
    expires_at: Micros | None = None,
    requests_per_s: float | None = None,
    id: str | None = None,
) -> tuple[str, KeyRecord]:
    """A new key: its text, which is shown once, and what is stored of it."""
    id = id or base64.b32encode(secrets.token_bytes(8)).decode().lower()[:_ID_LENGTH]
    text = f"msk_{id}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    record = KeyRecord(
        id=id,
        digest=digest_of(text),
        name=name,
        role=role,
        tenant=tenant,
        created_at=now,
        created_by=created_by,
        requests_per_s=requests_per_s,
        expires_at=expires_at,
    )
    return text, record


def parse_key(text: object) -> str:
    """The id in a key's text."""
    match = _KEY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise unknown_key()
    return match[1]


def is_key_id(text: str) -> bool:
    """Could this be the id of a key?"""
    return _ID.fullmatch(text) is not None


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def caller_of(record: KeyRecord | None, text: str, now: Micros) -> Caller:
    """Who the bearer of this text is, if the record is that of his key and the key is good now."""
    if record is None or not hmac.compare_digest(record.digest, digest_of(text)) or not is_good(record, now):
        raise unknown_key()
    return Caller(record.id, record.name, Role(record.role), record.tenant, record.requests_per_s)


def is_good(record: KeyRecord, now: Micros) -> bool:
    """Neither revoked nor expired, and of a role that this version knows."""
    expired = record.expires_at is not None and record.expires_at <= now
    return record.revoked_at is None and not expired and record.role in _ROLES


def unknown_key() -> UnknownKeyError:
    return UnknownKeyError("the key is not known here, was revoked or has expired; ask an administrator for another")


def without_secrets(data: bytes) -> bytes:
    """The same with the secret part of every key left out."""
    return _SECRETS.sub(rb"\1...", data) if b"msk_" in data else data


class KeyStore(Keys, Protocol):
    """What the keyring needs of a store."""

    @property
    def clock(self) -> Clock: ...

    def subscribe(self, listener: Callable[[Hint], None]) -> Callable[[], None]: ...


class Keyring:
    """Tells callers by their keys. `monotonic`: the seconds that freshness is counted in."""

    def __init__(self, store: KeyStore, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, KeyRecord]] = {}
        self._unknown: dict[str, float] = {}
        self._generation = 0
        self._reading = Gathering(self._read, _IDS_PER_QUERY)
        self.close = store.subscribe(self._hear)

    async def identify(self, text: str) -> Caller:
        """Who bears this text; `UnknownKeyError` where it is no key, or none that is good now by the store's clock."""
        record = await self._find(parse_key(text))
        return caller_of(record, text, self._store.clock.now())

    async def _find(self, id: str) -> KeyRecord | None:
        now = self._monotonic()
        read_at, record = self._known.get(id, (float("-inf"), None))
        if now - read_at < FRESH_S:
            return record
        if now - self._unknown.get(id, float("-inf")) < FRESH_S:
            return None
        generation = self._generation
        record = await self._reading.ask(id)
        if generation == self._generation:  # else it may have been revoked after it was read
            self._remember(id, record, now)
        return record

    def _remember(self, id: str, record: KeyRecord | None, now: float) -> None:
        self._known.pop(id, None)
        self._unknown.pop(id, None)
        if record is None:
            self._unknown[id] = now
        else:
            self._known[id] = (now, record)
        for memory in (self._known, self._unknown):
            if len(memory) > MOST:
                del memory[next(iter(memory))]

    async def _read(self, ids: Sequence[str]) -> Sequence[KeyRecord | None]:
        distinct = list(dict.fromkeys(ids))
        found = dict(zip(distinct, await self._store.read_keys(distinct), strict=True))
        return [found[id] for id in ids]

    def _hear(self, hint: Hint) -> None:
        if hint.topic == "key":
            self._generation += 1
            self._known.clear()
            self._unknown.clear()
