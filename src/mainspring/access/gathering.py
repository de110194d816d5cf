"""Grouping: what is asked while one call is under way goes together into the next.

So a call that costs a round trip or a commit is made at most once at a time, however many ask; with one asker nothing waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

Q = TypeVar("Q")
A = TypeVar("A")


class Gathering(Generic[Q, A]):
    """Calls of `work` with as many questions as there are, up to `most`; one answer for each, in order."""

    def __init__(self, work: Callable[[Sequence[Q]], Awaitable[Sequence[A]]], most: int) -> None:
        self._work = work
        self._most = most
        self._waiting: list[tuple[Q, asyncio.Future[A]]] = []
        self._task: asyncio.Task[None] | None = None

    async def ask(self, question: Q) -> A:
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append((question, answer))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await answer

    async def _run(self) -> None:
        try:
            while self._waiting:
                group, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._answer(group)
        finally:
            self._task = None

    async def _answer(self, group: list[tuple[Q, asyncio.Future[A]]]) -> None:
        try:
            answers = await self._work([question for question, _ in group])
        except Exception as error:
            for _, future in group:
                if not future.done():
                    future.set_exception(error)
            return
        for (_, future), answer in zip(group, answers, strict=True):
            if not future.done():  # who asked may have gone
                future.set_result(answer)
