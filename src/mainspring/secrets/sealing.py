"""Sealed tenants: the arguments and results of their jobs, encrypted before they are stored and opened for those who may see them.

Which tenants are sealed is known from the store: read once, again after each hint, and now and then in case one was lost. What was
stored before its tenant was sealed stays as it is, and is read as such. Digests of keys and of unique jobs are made of plain
arguments.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import structs

from mainspring.core.job import NewJobs
from mainspring.secrets.envelope import Place, is_sealed, seal, unseal
from mainspring.secrets.keys import MasterKeys
from mainspring.store.contract import Hint
from mainspring.store.service import Tenants

Field = Literal["arguments", "result"]

_FRESH_S = 10.0


class Sealing:
    """One for a process, over its store. Made in the event loop in which it is used."""

    def __init__(
        self, store: Tenants, keys: MasterKeys | None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.tenants: frozenset[str] = frozenset()
        self._keys = keys
        self._store = store
        self._monotonic = monotonic
        self._until_s = 0.0
        self._looking = asyncio.Lock()
        self._heard = False
        self._look_again: asyncio.Task[None] | None = None

    def hear(self, hint: Hint) -> None:
        """Looks at once, for those who cannot wait for a look (`submit_within` without an event loop)."""
        if hint.topic == "tenant":
            self._heard, self._until_s = True, 0.0
            if self._look_again is None or self._look_again.done():
                self._look_again = asyncio.get_running_loop().create_task(self._look_quietly())

    async def look(self) -> None:
        """Know which tenants are sealed."""
        if self._monotonic() < self._until_s:
            return
        async with self._looking:
            if self._monotonic() < self._until_s:
                return
            self._heard, until_s = False, self._monotonic() + _FRESH_S
            self.tenants = frozenset(tenant.name for tenant in await self._store.list_tenants() if tenant.sealed)
            if not self._heard:
                self._until_s = until_s

    def close(self) -> None:
        if self._look_again is not None:
            self._look_again.cancel()

    def seal_jobs(self, batches: Sequence[NewJobs]) -> list[NewJobs]:
        """With their arguments as they are stored."""
        return [self._seal_batch(batch) if batch.template.tenant in self.tenants else batch for batch in batches]

    def seal(self, tenant: str, job: bytes, field: Field, data: bytes) -> bytes:
        """As it is stored."""
        return seal(self._keys, _place(tenant, job, field), data) if tenant in self.tenants else data

    def open(self, tenant: str, job: bytes, field: Field, data: bytes) -> bytes:
        """As it was given; `SecretsError` where it is not what was sealed for this job."""
        return unseal(self._keys, _place(tenant, job, field), data) if is_sealed(data) else data

    def _seal_batch(self, batch: NewJobs) -> NewJobs:
        tenant = batch.template.tenant
        pairs = zip(batch.ids, batch.arguments, strict=True)
        return structs.replace(batch, arguments=[self.seal(tenant, job, "arguments", data) for job, data in pairs])

    async def _look_quietly(self) -> None:
        try:
            await self.look()
        except Exception:  # whoever needs to know looks himself, and is told
            self._until_s = 0.0


def _place(tenant: str, job: bytes, field: Field) -> Place:
    return Place("job", tenant, job.hex(), field)
