"""Grouping what is asked at the same time."""

import asyncio
from collections.abc import Sequence

import pytest

from mainspring.access.gathering import Gathering


class Work:
    """Doubles numbers when it is let; remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []
        self.gate = asyncio.Semaphore(0)

    async def __call__(self, numbers: Sequence[int]) -> Sequence[int]:
        self.calls.append(list(numbers))
        await self.gate.acquire()
        if 13 in numbers:
            raise ValueError(numbers)
        return [2 * number for number in numbers]


async def started(gathering: Gathering[int, int], numbers: Sequence[int]) -> list[asyncio.Task[int]]:
    tasks = [asyncio.create_task(gathering.ask(number)) for number in numbers]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_what_comes_during_a_call_goes_into_the_next() -> None:
    work = Work()
    gathering = Gathering(work, 10)
    tasks = await started(gathering, [1]) + await started(gathering, [2, 3, 4])
    assert work.calls == [[1]]
    work.gate.release()
    work.gate.release()
    assert await asyncio.gather(*tasks) == [2, 4, 6, 8]
    assert work.calls == [[1], [2, 3, 4]]


async def test_no_call_has_more_than_the_most() -> None:
    work = Work()
    for _ in range(3):
        work.gate.release()
    assert await asyncio.gather(*await started(Gathering(work, 2), range(5))) == [0, 2, 4, 6, 8]
    assert [len(call) for call in work.calls] == [2, 2, 1]


async def test_an_error_reaches_those_of_that_call_and_the_next_call_goes_on() -> None:
    work = Work()
    gathering = Gathering(work, 10)
    tasks = await started(gathering, [13]) + await started(gathering, [1])
    work.gate.release()
    work.gate.release()
    with pytest.raises(ValueError, match="13"):
        await tasks[0]
    assert await tasks[1] == 2


async def test_who_leaves_takes_nobody_with_him() -> None:
    work = Work()
    first, second = await started(Gathering(work, 10), [1, 2])
    first.cancel()
    work.gate.release()
    assert await second == 4
