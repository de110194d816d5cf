"""The one loop: it repeats, rests, wakes, survives errors and stops at a rest."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from mainspring.runtime import service as service_module
from mainspring.runtime.service import Service


class Part:
    """Answers what the test says, step by step; the last answer for ever."""

    name = "part"

    def __init__(self, *answers: float | Exception | None) -> None:
        self.answers = list(answers)
        self.steps = 0
        self._changed = asyncio.Event()
        self.during: Callable[[], Awaitable[None]] | None = None

    async def run_once(self) -> float | None:
        self.steps += 1
        self._changed.set()
        if self.during is not None:
            await self.during()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def reach(self, steps: int) -> None:
        async with asyncio.timeout(10):
            while self.steps < steps:
                self._changed.clear()
                await self._changed.wait()


async def test_a_part_that_has_more_to_do_is_called_again_at_once_and_one_that_rests_is_not() -> None:
    part = Part(0, 0, 0, None)
    service = Service(part)
    service.start()
    for _ in range(20):
        await asyncio.sleep(0)
    assert part.steps == 4
    await service.stop()
    assert part.steps == 4


async def test_a_wake_ends_a_rest() -> None:
    part = Part(None)
    service = Service(part)
    service.start()
    await part.reach(1)
    service.wake()
    await part.reach(2)
    assert part.steps == 2
    await service.stop()


async def test_a_wake_during_a_step_is_not_lost() -> None:
    part = Part(None)
    service = Service(part)

    async def wake_once() -> None:
        part.during = None
        service.wake()

    part.during = wake_once
    service.start()
    await part.reach(1)
    await part.reach(2)
    assert part.steps == 2
    await service.stop()


async def test_a_rest_ends_by_itself() -> None:
    part = Part(0.001, None)
    service = Service(part)
    service.start()
    await part.reach(1)
    await part.reach(2)
    await service.stop()


async def test_a_failing_part_is_tried_again_with_growing_pauses_and_forgiven_after_a_success(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    part = Part(RuntimeError("no"), RuntimeError("no"), RuntimeError("no"), 0, RuntimeError("no"), None)
    service = Service(part)
    rests = [await service._step() for _ in range(6)]
    first = service_module._FIRST_BACKOFF_S
    assert rests == [first, 2 * first, 4 * first, 0, first, None]
    monkeypatch.setattr(part, "answers", [RuntimeError("no")])
    for _ in range(20):
        last = await service._step()
    assert last == service_module._LAST_BACKOFF_S


async def test_stop_waits_for_the_step_that_is_under_way_and_never_cuts_it() -> None:
    part = Part(None)
    gate, done = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        await gate.wait()
        done.set()

    part.during = slow
    service = Service(part)
    service.start()
    await part.reach(1)
    stopping = asyncio.create_task(service.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    gate.set()
    await stopping
    assert done.is_set()
    assert part.steps == 1


async def test_a_service_that_never_started_stops_and_one_that_stopped_starts_again() -> None:
    part = Part(None)
    service = Service(part)
    await service.stop()
    for step in (1, 2):
        service.start()
        await part.reach(step)
        await service.stop()
    assert part.steps == 2
