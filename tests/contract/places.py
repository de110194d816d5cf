"""Limits over many databases: what is counted over all shards is counted in one store.

A place under a limit is a job in that store, which runs from `take` to `give_back`, in the session that asked for it. So what
the contract says of attempts holds for places: they are counted and taken in one transaction, taken once, fenced by their
session, and rescued when it has ended. The limit is never exceeded, because a place is taken before the job is assigned, and
given back after its attempt has ended; a process that dies between the two only leaves a place to the rescue.

A place is named after the job and the attempt that it is for, so that an outcome of an old attempt cannot give back a newer
one's.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from mainspring.core.draft import place
from mainspring.core.job import NewJobs
from mainspring.core.lifecycle import LIVE, State
from mainspring.core.options import parse_options
from mainspring.store.contract import Assigned, Change, Pick, Ready, Settlement, Store


class Places:
    """The places of all limits, in a store that has nothing else."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def take(self, picks: Sequence[Pick]) -> list[Assigned]:
        """What these picks may go on to assign (`won`), what they may not, and why; all of it where there is no limit."""
        limited = [pick for pick in picks if pick.limits]
        answers = iter(await self._take(limited) if limited else [])
        return [next(answers) if pick.limits else Assigned(pick.jobs) for pick in picks]

    async def _take(self, picks: list[Pick]) -> list[Assigned]:
        ready = await self._make({_name(job): job.job for pick in picks for job in pick.jobs})
        # Whose the session is, is asked where the jobs are: here nobody adopts it.
        wanted = [structs.replace(pick, jobs=[ready[_name(job)] for job in pick.jobs], node=None) for pick in picks]
        answers = await self._store.assign_jobs(wanted)
        return [_meant(pick, answer) for pick, answer in zip(picks, answers, strict=True)]

    async def _make(self, jobs: dict[bytes, bytes]) -> dict[bytes, Ready]:
        """New places, old ones that were given back, and those that others have: then the assignment is lost."""
        ids = list(jobs)
        placed = place("place", parse_options(tenant="places"), self._store.clock.now())
        batch = NewJobs(placed.template, ids, [b'"%s"' % job.hex().encode() for job in jobs.values()])
        await self._store.insert_jobs([batch], [placed.lane])
        await self._store.change_jobs([Change(id_, replay=True) for id_ in ids])
        records = zip(ids, await self._store.read_jobs(ids), strict=True)
        gone = Ready(0, b"", 0, 0)  # pruned just now: nobody has it, and nobody gets it this time
        return {id_: gone if r is None else Ready(r.rank, id_, r.attempt, r.lane) for id_, r in records}

    async def give_back(self, session: bytes, attempts: Sequence[tuple[bytes, int]]) -> None:
        """Free the places that this session has for these attempts; most attempts have none."""
        records = await self._store.read_jobs([name_of(job, attempt) for job, attempt in attempts])
        taken = [record for record in records if record is not None and record.state in LIVE]
        if taken:
            ends = [Settlement(record.id, record.attempt, State.CANCELLED) for record in taken]
            await self._store.settle_attempts(session, ends)


def _meant(pick: Pick, answer: Assigned) -> Assigned:
    """An answer about places as one about the jobs they are for."""
    won, held = (Counter(place.job for place in places) for places in (answer.won, answer.held))
    meant = Assigned([], [], [], answer.held_until)
    for job in pick.jobs:
        name = _name(job)
        (meant.won if won[name] > 0 else meant.held if held[name] > 0 else meant.lost).append(job)
        won[name] -= 1
    return meant


def _name(job: Ready) -> bytes:
    return name_of(job.job, job.attempt + 1)


def name_of(job: bytes, attempt: int) -> bytes:
    return hashlib.blake2b(job + attempt.to_bytes(8, "big"), digest_size=16).digest()
