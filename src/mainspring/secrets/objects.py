"""The objects of sealed tenants: encrypted before they reach their place, and opened for those who may see them.

    <mark><number of the key, 16 bytes><salt, 32 bytes> and pieces, each a MiB of the object (the last one less) and 16 bytes more

Each object has a key of its own, made of its salt and of a key of its tenant. That one is kept as a secret of the tenant, which
no job can name: so it is sealed with the master key, rotated with all others, and goes with its tenant. A piece is bound to
tenant, job, name, its number, and whether it is the last one: moved, in another order, or cut short, an object does not open.
Memory is bounded. What was stored before its tenant was sealed has no mark, and is read as it is.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Final

from mainspring.core.secret import OBJECT_KEY
from mainspring.errors import MainspringError, SecretsError
from mainspring.objects.place import Data, ObjectPlace
from mainspring.secrets import envelope
from mainspring.secrets.keys import KEY_BYTES
from mainspring.secrets.sealing import Sealing
from mainspring.secrets.vault import Vault
from mainspring.store.service import SecretRecord, Secrets

PIECE: Final = 1_048_576

_MARK: Final = b"\x93mainspring-sealed-object-1\n\x00"
_NUMBER_BYTES: Final = 16
_SALT_BYTES: Final = 32
_HEAD: Final = len(_MARK) + _NUMBER_BYTES + _SALT_BYTES
_SEALED_PIECE: Final = PIECE + 16


class SealedObjects:
    """One for a process, over its place. Made in the event loop in which it is used."""

    def __init__(self, place: ObjectPlace, store: Secrets, sealing: Sealing, vault: Vault) -> None:
        self.find, self.delete = place.find, place.delete
        self._place = place
        self._store = store
        self._sealing = sealing
        self._vault = vault
        self._sealers: dict[str, str] = {}  # by tenant, the name of the key that seals
        self._choosing = asyncio.Lock()

    async def put(self, tenant: str, job: bytes, name: str, data: Data) -> None:
        """As `ObjectPlace.put`; `SecretsError` where its tenant is sealed and there are no keys here."""
        await self._sealing.look()
        if tenant in self._sealing.tenants:
            data = await self._sealed(tenant, job, name, data)
        await self._place.put(job, name, data)

    async def get(self, tenant: str, job: bytes, name: str) -> AsyncGenerator[bytes, None]:
        """As `ObjectPlace.get`; `SecretsError` where it is not what was sealed for this place, perhaps after some pieces."""
        async with aclosing(self._place.get(job, name)) as stored:
            first = await anext(stored, b"")
            if not first.startswith(_MARK):
                yield first
                async for piece in stored:
                    yield piece
                return
            cipher = await self._opener(tenant, job, name, first[:_HEAD])
            async with aclosing(_pieces(first[_HEAD:], stored, _SEALED_PIECE)) as pieces:
                async for number, last, piece in pieces:
                    yield cipher.open(number, last, piece)

    async def read(self, tenant: str, job: bytes, name: str) -> bytes:
        """All of a small one."""
        return b"".join([piece async for piece in self.get(tenant, job, name)])

    async def _sealed(self, tenant: str, job: bytes, name: str, data: Data) -> Data:
        key = await self._sealer(tenant)
        head = _MARK + bytes.fromhex(key.removeprefix(OBJECT_KEY)) + secrets.token_bytes(_SALT_BYTES)
        cipher = _Cipher(await self._key(tenant, key), head, tenant, job, name)
        if isinstance(data, bytes) and len(data) <= PIECE:
            return head + cipher.seal(0, True, data)
        return _sealing(head, cipher, _source(data))

    async def _opener(self, tenant: str, job: bytes, name: str, head: bytes) -> "_Cipher":
        if len(head) < _HEAD:
            raise SecretsError(envelope.BROKEN)
        number = head[len(_MARK) : len(_MARK) + _NUMBER_BYTES]
        return _Cipher(await self._key(tenant, OBJECT_KEY + number.hex()), head, tenant, job, name)

    async def _key(self, tenant: str, name: str) -> bytes:
        opened = (await self._vault.open([(tenant, name)]))[tenant, name]
        if isinstance(opened, MainspringError):
            raise SecretsError(f"the key of the objects of tenant {tenant!r} cannot be had: {opened}")
        return bytes.fromhex(opened)

    async def _sealer(self, tenant: str) -> str:
        """Two nodes may make one each at the same time: both are kept, and both open."""
        async with self._choosing:
            if tenant not in self._sealers:
                known = [
                    each.name for each in await self._store.list_secrets(tenant) if each.name.startswith(OBJECT_KEY)
                ]
                self._sealers[tenant] = known[0] if known else await self._make_key(tenant)
            return self._sealers[tenant]

    async def _make_key(self, tenant: str) -> str:
        name = OBJECT_KEY + secrets.token_hex(_NUMBER_BYTES)
        key, sealed = self._vault.seal(tenant, name, secrets.token_hex(KEY_BYTES))
        now = time.time_ns() // 1000
        record = SecretRecord(tenant=tenant, name=name, key=key, sealed=sealed, changed_at=now, changed_by="mainspring")
        await self._store.put_secrets([record])
        return name


class _Cipher:
    """Seals and opens the pieces of one object."""

    def __init__(self, key: bytes, head: bytes, tenant: str, job: bytes, name: str) -> None:
        own = hashlib.blake2b(head, key=key, digest_size=KEY_BYTES, person=b"objects").digest()
        self._cipher = envelope.cipher(own)
        self._bound = envelope.Place("object", tenant, job.hex(), name).encoded()

    def seal(self, number: int, last: bool, piece: bytes) -> bytes:
        sealed: bytes = self._cipher.encrypt(_nonce(number, last), piece, self._bound)
        return sealed

    def open(self, number: int, last: bool, sealed: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            piece: bytes = self._cipher.decrypt(_nonce(number, last), sealed, self._bound)
            return piece
        except (InvalidTag, ValueError):
            raise SecretsError(envelope.BROKEN) from None


def _nonce(number: int, last: bool) -> bytes:
    """Never twice with the same key: each object has its own, and each of its pieces a number."""
    return bytes([last]) + number.to_bytes(11)


async def _sealing(head: bytes, cipher: _Cipher, data: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield head
    async for piece in _pieces(b"", data, PIECE):
        yield cipher.seal(*piece)


async def _pieces(first: bytes, rest: AsyncIterable[bytes], size: int) -> AsyncGenerator[tuple[int, bool, bytes], None]:
    """The same bytes in pieces of this size: their numbers, and whether they are the last. There is always a last one."""
    held, number = bytearray(), 0
    async for more in _chained(first, rest):
        held += more
        while len(held) > size:
            yield number, False, bytes(held[:size])
            del held[:size]
            number += 1
    yield number, True, bytes(held)


async def _chained(first: bytes, rest: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for each in rest:
        yield each


def _source(data: Data) -> AsyncIterable[bytes]:
    """A piece at a time, also of what is in memory: sealing all of it at once would take long."""
    if isinstance(data, bytes):
        return _cut(data)
    return _read(data) if isinstance(data, Path) else data


async def _cut(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), PIECE):
        yield data[start : start + PIECE]
        await asyncio.sleep(0)


async def _read(path: Path) -> AsyncIterator[bytes]:
    with await asyncio.to_thread(path.open, "rb") as file:
        while piece := await asyncio.to_thread(file.read, PIECE):
            yield piece
