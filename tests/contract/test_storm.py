"""Many callers in several stores at once, none of whom knows of the others: I2, I3, I4, I6, I9, I26.

Every caller does random verbs with what he last saw, in batches that overlap with everybody's in any order. Whatever was first, the
tables are sound afterwards, nothing was given or accepted twice, and everything that waits can be brought to its end. The seed is
in the test's name.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from msgspec import json, structs

from contract.scene import FAILURE, START, Scene, make_batch
from mainspring.core.job import Options
from mainspring.core.lane import Lane
from mainspring.core.partition import make_id, partition_of, slot_of
from mainspring.core.timer import SECOND
from mainspring.store.contract import Change, Pick, Ready, Settlement, Store
from mainspring.wire import Progress

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
SEEDS = range(200 if DEEP else 4)
CALLERS, STEPS = 8, 25
STATES = ["completed", "failed", "cancelled", "pending"]


class Caller:
    """One who works on a store of his own with whatever he finds."""

    def __init__(self, storm: "Storm", store: Store, seed: int) -> None:
        self.storm = storm
        self.store = store
        self.scene = Scene(storm.scene.backend, store, storm.scene.clock)
        self.random = random.Random(seed)
        self.now = storm.scene.clock.now
        self.verbs: list[Callable[[], Awaitable[None]]] = [
            *[self.submit] * 4,
            *[self.assign] * 5,
            *[self.settle] * 5,
            *(self.submit_with_key, self.submit_after, self.cancel, self.cancel, self.retry, self.reprioritise),
            *(self.ripen, self.rescue, self.lose_session, self.mark_running, self.fire, self.prune, self.repeat),
            *(self.change, self.submit_as_guest, self.submit_as_guest, self.erase_guest, self.report_progress),
        ]

    async def run(self) -> None:
        for _ in range(STEPS):
            await self.random.choice(self.verbs)()

    def some(self, of: list[bytes], most: int = 6) -> list[bytes]:
        """A few, in any order."""
        return self.random.sample(of, min(len(of), self.random.randint(1, most)))

    # jobs

    async def submit(self) -> None:
        options: dict[str, Any] = self.random.choice(
            [{}, {}, {"delay": 1}, {"start_by": 5}, {"priority": 9}, {"queue": "q"}]
        )
        made = await self.scene.submit(self.random.randint(1, 5), **options)
        self.storm.jobs += made
        self.storm.plain += made

    async def submit_with_key(self) -> None:
        name = self.random.choice("abc")
        (answer,) = await self.scene.insert(key=name)
        assert not answer.conflict
        if not answer.existed:
            self.storm.jobs.append(answer.id)

    async def submit_after(self) -> None:
        """Jobs that wait for others, which may end at the same moment."""
        if not self.storm.jobs:
            return
        parent, *others = self.some(self.storm.jobs[-20:], 3)
        ids = [make_id(self.now() // 1000, slot_of(parent), self.random.getrandbits(62)) for _ in range(2)]
        batch, lane = make_batch(self.now(), ids=ids, arguments=[b"{}"] * 2)
        parents = [parent, *(other for other in others if _half(other) == _half(parent))]
        await self.store.insert_jobs([structs.replace(batch, after=tuple(parents))], [lane])
        self.storm.jobs += batch.ids

    async def repeat(self) -> None:
        """The same insert twice at once, as after an answer that was lost."""
        batch, lane = make_batch(self.now(), arguments=[b"{}"] * 3)
        answers = await asyncio.gather(*(self.store.insert_jobs([batch], [lane]) for _ in range(2)))
        assert answers[0] == answers[1]
        self.storm.jobs += batch.ids

    async def cancel(self) -> None:
        await self.store.cancel_jobs(self.some(self.storm.jobs))

    async def retry(self) -> None:
        await self.store.change_jobs([Change(job, replay=True) for job in self.some(self.storm.jobs)])

    async def reprioritise(self) -> None:
        priority = self.random.randint(1, 10)
        await self.store.change_jobs([Change(job, priority=priority) for job in self.some(self.storm.jobs)])

    async def change(self) -> None:
        """Of what may have started, moved or ended since: everything."""
        lane = Lane("default", self.random.choice("qr"), "work")
        due_at, start_by = (self.now() + self.random.randint(0, 3) * SECOND for _ in range(2))
        options = json.encode(Options(start_by=start_by))
        await self.store.change_jobs(
            [
                Change(
                    job, arguments=b"[]", due_at=due_at, options=options, lane=lane, replay=self.random.random() < 0.3
                )
                for job in self.some(self.storm.plain)
            ]
        )

    async def submit_as_guest(self) -> None:
        made = await self.scene.submit(self.random.randint(1, 5), tenant="guest")
        self.storm.jobs += made
        self.storm.guests.update(made)

    async def erase_guest(self) -> None:
        """Whatever his jobs do at this moment."""
        await self.store.erase_tenant("guest", self.random.randint(1, 20))

    # time

    async def ripen(self) -> None:
        self.storm.scene.clock.advance(0.5)
        await self.scene.ripen()

    async def prune(self) -> None:
        await self.scene.prune(2.0, limit=5)

    # attempts

    async def assign(self) -> None:
        """Of what can be read, some; of what somebody else has read too, some."""
        seen = self.storm.seen = (self.storm.seen + await self.scene.ready())[-60:]
        if not seen:
            return
        picks = []
        for session in self.random.sample(self.storm.sessions, 2):
            chosen = list(dict.fromkeys(self.random.choices(seen, k=4)))
            limited = self.random.random() < 0.3 and not self.storm.guests.intersection(ready.job for ready in chosen)
            picks.append(Pick(session, chosen, (("queue/default/q", ""),) if limited else ()))
        for pick, answer in zip(picks, await self.store.assign_jobs(picks), strict=True):
            assert Counter(answer.won + answer.lost + answer.held) == Counter(pick.jobs)
            for ready in answer.won:
                self.storm.starts[ready.job, ready.attempt + 1] += 1
                self.storm.live.append((pick.session, ready.job, ready.attempt + 1))

    async def settle(self) -> None:
        """Attempts that were live when somebody saw them, of one session."""
        if not self.storm.live:
            return
        session = self.random.choice(self.storm.live)[0]
        mine = [(job, attempt) for of, job, attempt in self.storm.live if of == session]
        chosen = self.random.sample(mine, min(len(mine), 4))
        settlements = [self._settlement(job, attempt) for job, attempt in chosen]
        for (job, attempt), accepted in zip(
            chosen, await self.store.settle_attempts(session, settlements), strict=True
        ):
            self.storm.outcomes[job, attempt] += accepted

    def _settlement(self, job: bytes, attempt: int) -> Settlement:
        state = self.random.choice(STATES)
        failed = state in ("failed", "pending")
        return Settlement(
            job,
            attempt,
            state,
            result=b"1" if state == "completed" else None,
            failure=FAILURE if failed else None,
            due_at=self.now() + self.random.choice([0, SECOND]) if state == "pending" else None,
            reason=None if state in ("completed", "pending") else "error",
            counts="failure" if failed else None,
        )

    async def mark_running(self) -> None:
        await self.store.mark_running([(job, attempt) for _, job, attempt in self.storm.live[-5:]])

    async def report_progress(self) -> None:
        running = [(job, attempt) for _, job, attempt in self.storm.live[-5:]]
        self.random.shuffle(running)
        await self.store.mark_running(running[:2], [Progress(job, attempt, 50.0, "half") for job, attempt in running])

    async def lose_session(self) -> None:
        place, new = self.random.randrange(len(self.storm.sessions)), await self.storm.scene.session()
        lost, self.storm.sessions[place] = self.storm.sessions[place], new
        await self.store.end_sessions([lost])

    async def rescue(self) -> None:
        await self.store.rescue_attempts(10)

    # schedules

    async def fire(self) -> None:
        """Everybody believes that it is his turn."""
        record = await self.scene.schedule("s")
        mode: dict[str, Any] = self.random.choice([{}, {"serial": True}, {"cancel_active": True}])
        step = self.scene.firing(record, [START + record.runs * SECOND], **mode)
        (won,) = await self.store.fire_schedules([step])
        self.storm.fired[record.version] += won
        if won:
            self.storm.jobs += step.jobs[0].ids


def _half(job: bytes) -> int:
    """Jobs that wait for each other are in one database; no more than these two are tested."""
    return partition_of(job, 2)


class Storm:
    """What all callers share, and what came of it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.jobs: list[bytes] = []
        self.plain: list[bytes] = []  # without a key or a schedule
        self.guests: set[bytes] = set()  # of a tenant who is erased again and again
        self.sessions: list[bytes] = []
        self.seen: list[Ready] = []
        self.live: list[tuple[bytes, bytes, int]] = []
        self.starts: Counter[tuple[bytes, int]] = Counter()
        self.outcomes: Counter[tuple[bytes, int]] = Counter()
        self.fired: Counter[int] = Counter()


@pytest.fixture
async def storm(scene: Scene) -> AsyncIterator[tuple[Storm, list[Store]]]:
    made = Storm(scene)
    made.sessions = [await scene.session() for _ in range(4)]
    await scene.limit("queue/default/q", concurrency=2)
    await scene.put_schedule("s")
    others = [await scene.backend.open(scene.clock) for _ in range(2)]
    yield made, [scene.store, *others]
    for other in others:
        await other.close()


@pytest.mark.parametrize("seed", SEEDS)
async def test_i3_i4_i6_i9_whatever_many_callers_do_at_once_nothing_happens_twice_and_everything_can_end(
    storm: tuple[Storm, list[Store]], seed: int
) -> None:
    shared, stores = storm
    scene = shared.scene
    callers = [Caller(shared, stores[n % len(stores)], seed * 1000 + n) for n in range(CALLERS)]
    await asyncio.gather(*(caller.run() for caller in callers))
    scene.check()
    assert max(shared.starts.values()) == 1, "I3/I4: an attempt was given away twice"
    assert max(shared.outcomes.values()) <= 1, "I6: an attempt was settled twice"
    assert all(count <= 1 for count in shared.fired.values()), "I9: one version of a schedule fired twice"
    assert sum(shared.fired.values()) == (await scene.schedule("s")).runs
    await drain(shared)
    waiting = scene.rows("select state, count(*) from job where finished_at is null group by state")
    assert waiting == [], "I26: everything can be brought to its end"


async def drain(storm: Storm) -> None:
    """Workers are lost no more, and every job succeeds."""
    scene = storm.scene
    await scene.store.end_sessions(storm.sessions)
    await scene.store.rescue_attempts(10_000)
    session = await scene.session()
    scene.clock.advance(60)
    while await scene.ripen() or await scene.ready():
        for ready in (await scene.assign(session)).won:
            storm.starts[ready.job, ready.attempt + 1] += 1
            assert storm.starts[ready.job, ready.attempt + 1] == 1, "I4"
            assert await scene.settle(session, ready.job, ready.attempt + 1, "completed")
