"""A node on a real store, driven by hand: nothing runs unless a test says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from contract.backends import SqliteBackend
from contract.scene import START, JumpingClock, Scene
from mainspring.core.job import Resources
from mainspring.node import Node
from mainspring.objects.place import ObjectPlace
from mainspring.store.contract import LiveJob
from mainspring.wire import Assignment, Outcome, OutcomeType, Report, WorkerInfo


class Hand:
    """A worker at a node's desk."""

    def __init__(self, node: Node, session: bytes) -> None:
        self.node = node
        self.session = session
        self.cancelled: list[bytes] = []
        self._number = 0

    async def pull(self, free: int = 10) -> list[Assignment]:
        """Ask for work, and let the dispatcher do all it can."""
        self._number += 1
        pulling = asyncio.create_task(self.node.desk.pull(self.session, self._number, free))
        await asyncio.sleep(0)
        await dispatch(self.node)
        await asyncio.sleep(0)
        if not pulling.done():
            pulling.cancel()
        (answer,) = await asyncio.gather(pulling, return_exceptions=True)
        return answer if isinstance(answer, list) else []

    async def jobs(self, free: int = 10) -> list[bytes]:
        return [assignment.job for assignment in await self.pull(free)]

    async def complete_all(self) -> None:
        """Report everything this worker has as done."""
        await self.complete(*self.node.desk._places[self.session].live.values())

    async def complete(self, *assignments: Assignment | LiveJob) -> list[bytes]:
        outcomes = [Outcome(a.job, a.attempt, OutcomeType.COMPLETED) for a in assignments]
        return (await self.node.desk.report(self.session, Report(outcomes))).rejected


async def dispatch(node: Node) -> None:
    """Rounds until there is nothing to do."""
    for _ in range(50):
        if await node.dispatcher.run_once() != 0:
            return
    raise AssertionError("the dispatcher never rests")


class Floor(Scene):
    """A store with nodes on it."""

    node: Node

    async def settle_down(self) -> None:
        """Let what was begun in the background end."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*(task for task in others if "hand_back" in repr(task)))

    async def join(self, name: str) -> Node:
        node = Node(self.store, ObjectPlace("memory:///"), keep_s=3600, keep_failed_s=3600, name=name)
        await node.join()
        return node

    async def worker(
        self,
        node: Node | None = None,
        kinds: str = "work",
        labels: str = "",
        slots: int = 10,
        tenant: str | None = None,
        remote: bool = False,
        **resources: Any,
    ) -> Hand:
        at = node or self.node
        info = WorkerInfo(
            name="hand",
            slots=slots,
            kinds=frozenset(kinds.split()),
            labels=frozenset(labels.split()),
            resources=Resources(**resources),
        )
        cancelled: list[bytes] = []
        hand = Hand(at, await at.desk.register(info, None if remote else cancelled.append, tenant))
        hand.cancelled = cancelled
        return hand


@asynccontextmanager
async def open_floor(folder: Path) -> AsyncIterator[Floor]:
    clock = JumpingClock(START)
    backend = SqliteBackend(folder)
    store = await backend.open(clock)
    floor = Floor(backend, store, clock)
    floor.node = await floor.join("first")
    try:
        yield floor
        floor.check()
    finally:
        await store.close()
