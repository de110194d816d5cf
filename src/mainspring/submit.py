"""Submit: validate -> analyse -> place -> insert.

Drafts arrive validated (the function's annotations, the options); here they are grouped by what they share, get their ids, and
go to the store in batches. Acknowledged means durable: `submit` answers after the commit.
"""

import asyncio
import random
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from mainspring.core.draft import Draft, Placed, claim_of, place
from mainspring.core.job import Claim, NewJobs
from mainspring.core.lane import Lane
from mainspring.core.options import claims
from mainspring.core.partition import SLOTS, make_id, slot_for
from mainspring.core.timer import Micros
from mainspring.errors import ConflictError, StoreUnavailableError
from mainspring.runtime.clock import Clock
from mainspring.secrets.sealing import Sealing
from mainspring.store.contract import Inserted, Jobs
from mainspring.store.service import Tenants

CHUNK = 2000  # jobs in one transaction: enough to be fast, few enough that nobody waits long
IN_FLIGHT = 3


class SubmitStore(Jobs, Tenants, Protocol):
    """What submits need of a store."""


class Submitter:
    """Turns drafts into jobs."""

    def __init__(self, store: SubmitStore, clock: Clock, sealing: Sealing | None = None) -> None:
        """`sealing`: what keeps jobs of sealed tenants secret; without one (so without keys) they are refused."""
        self._store = store
        self._sealing = sealing or Sealing(store, None)
        self._clock = clock

    async def insert(self, drafts: Sequence[Draft]) -> list[Inserted]:
        """One answer per draft, in order; a key that belongs to a different job is one."""
        return await (self._insert(drafts) if len(drafts) <= CHUNK else self._insert_many(drafts))

    async def submit(self, drafts: Sequence[Draft]) -> list[Inserted]:
        """The same, but a key that belongs to a different job is a `ConflictError`; the rest is submitted."""
        return without_conflicts(drafts, await self.insert(drafts))

    async def submit_within(
        self, connection: object, drafts: Sequence[Draft], *, blocking: bool = False
    ) -> list[Inserted]:
        """The same inside a transaction that the caller has open: acknowledged and durable when he commits it."""
        if not blocking:  # who has no event loop takes what was known last
            await self._sealing.look()
        answers: list[Inserted] = []
        for start in range(0, len(drafts), CHUNK):
            batches, lanes = group(drafts[start : start + CHUNK], self._clock.now())
            sealed = self._sealing.seal_jobs(batches)
            for batch in await self._store.insert_within(connection, sealed, lanes, blocking=blocking):
                answers += batch
        return without_conflicts(drafts, answers)

    async def _insert_many(self, drafts: Sequence[Draft]) -> list[Inserted]:
        """While one chunk commits, the next ones are made."""
        answers: list[Inserted] = []
        flying: deque[asyncio.Task[list[Inserted]]] = deque()
        try:
            for start in range(0, len(drafts), CHUNK):
                flying.append(asyncio.create_task(self._insert(drafts[start : start + CHUNK])))
                await asyncio.sleep(0)
                if len(flying) >= IN_FLIGHT:
                    answers += await flying.popleft()
            while flying:
                answers += await flying.popleft()
        except StoreUnavailableError as error:
            await asyncio.gather(*flying, return_exceptions=True)
            accepted = f"{len(answers)} of {len(drafts)} jobs were accepted before"
            raise StoreUnavailableError(f"{error} ({accepted})") from error
        return answers

    async def _insert(self, drafts: Sequence[Draft]) -> list[Inserted]:
        batches, lanes = group(drafts, self._clock.now())
        await self._sealing.look()
        answers = await self._store.insert_jobs(self._sealing.seal_jobs(batches), lanes)
        return [answer for batch in answers for answer in batch]


def without_conflicts(drafts: Sequence[Draft], answers: Sequence[Inserted]) -> list[Inserted]:
    """The answers, where none of them is a conflict."""
    for draft, answer in zip(drafts, answers, strict=True):
        if answer.conflict:
            key = draft.options.key
            raise ConflictError(
                f"key: {key!r} belongs to a job with another kind, other arguments or other secrets; use another key"
            )
    return list(answers)


def group(drafts: Sequence[Draft], now: Micros) -> tuple[list[NewJobs], list[Lane]]:
    """Neighbours that share kind and options become one batch; a job with a claim is a batch of its own."""
    batches: list[NewJobs] = []
    lanes: dict[int, Lane] = {}
    for run in _runs(drafts):
        first = run[0]
        placed = place(first.kind, first.options, now)
        lanes[placed.template.lane] = placed.lane
        claimed = claims(first.options)
        for part in [[draft] for draft in run] if claimed else [run]:
            claim = claim_of(part[0], now) if claimed else None
            ids = make_ids(placed, len(part), now, claim)
            batches.append(NewJobs(placed.template, ids, [draft.arguments for draft in part], claim))
    return batches, list(lanes.values())


def make_ids(placed: Placed, count: int, now: Micros, claim: Claim | None = None) -> list[bytes]:
    """Slots are spread evenly over a batch and ascend with it: jobs that run one after the other lie side by side in the store.
    Jobs that may have the same claim share its slot: whoever keeps the slot decides between them."""
    unix_ms, bits = now // 1000, random.getrandbits
    slot = placed.slot if claim is None else slot_for("key", placed.template.tenant, claim.key)
    if slot is not None:
        return [make_id(unix_ms, slot, bits(62)) for _ in range(count)]
    start = bits(12)
    return [make_id(unix_ms, (start + place * SLOTS) // count, bits(62)) for place in range(count)]


def _runs(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    run: list[Draft] = []
    for draft in drafts:
        if run and (draft.options is not run[0].options or draft.kind != run[0].kind):
            yield run
            run = []
        run.append(draft)
    if run:
        yield run
