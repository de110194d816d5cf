"""Whoever waits for a job hears of its end, however the hint and the looks fall together."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from contract.backends import SqliteBackend
from contract.scene import START, JumpingClock, Scene
from mainspring.runtime.loop import new_event_loop
from mainspring.store.contract import Ended, Hint, Settlement
from mainspring.verbs import looking
from mainspring.verbs.looking import Looks
from mainspring.verbs.waiter import Waiter


class SlowReads:
    """Answers of `read_ended` that are true when the store gives them, and arrive when the test says so."""

    def __init__(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        self._read = scene.store.read_ended
        self.begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()
        monkeypatch.setattr(scene.store, "read_ended", self._read_slowly)

    async def _read_slowly(self, ids: Sequence[bytes]) -> list[Ended | None]:
        answer, arrive = await self._read(ids), asyncio.Event()
        self.begun.put_nowait(arrive)
        await arrive.wait()
        return answer

    async def let_pass(self) -> None:
        while True:
            (await self.begun.get()).set()


@pytest.fixture
async def scene(folder: Path) -> AsyncIterator[Scene]:
    clock = JumpingClock(START)
    backend = SqliteBackend(folder)
    store = await backend.open(clock)
    yield Scene(backend, store, clock)
    await store.close()


@pytest.mark.parametrize("looks_before", [0, 1])
async def test_an_end_while_a_look_is_under_way_is_heard(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, looks_before: int
) -> None:
    """The first look, and one that a hint about another job has begun."""
    monkeypatch.setattr(looking, "SLOW_LOOK_S", 3600.0)
    session = await scene.session()
    job, other = [await scene.started(session) for _ in range(2)]
    waiter, reads = Waiter(scene.store), SlowReads(scene, monkeypatch)
    scene.store.subscribe(waiter.hear)
    waiting = asyncio.create_task(waiter.wait(job))
    arrive = await reads.begun.get()
    for _ in range(looks_before):
        arrive.set()
        await asyncio.sleep(0)
        await scene.store.settle_attempts(session, [Settlement(other, 1, "completed")])
        arrive = await reads.begun.get()
    await scene.store.settle_attempts(session, [Settlement(job, 1, "completed", result=b"1")])
    await asyncio.sleep(0)  # its hint has come, and the look before it is still on its way
    arrive.set()
    passing = asyncio.create_task(reads.let_pass())
    async with asyncio.timeout(10):
        assert (await waiting).result == b"1"
    passing.cancel()


def test_a_hint_before_anybody_has_looked_on_the_loop_of_commands() -> None:
    """uvloop's handle of a call without a delay knows no time."""

    async def hint_then_wait() -> bool:
        looked = asyncio.Event()

        async def look() -> None:
            looked.set()

        looks = Looks(look, lambda: True)
        looks.hear(Hint(topic="settled"))
        looks.begin()
        async with asyncio.timeout(10):
            await looked.wait()
        looks.close()
        return True

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        assert runner.run(hint_then_wait())
