"""Many nodes on one store, under a time that the test owns: each part is called when it asked for it, or when it is woken.

Nothing of a node is left out: its parts, its heartbeat, and a worker that pulls and reports. Calls to the store are counted.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from contract.backends import SqliteBackend
from contract.scene import START, JumpingClock, Scene
from mainspring.core.timer import SECOND
from mainspring.errors import StoreUnavailableError
from mainspring.node import Node
from mainspring.objects.place import ObjectPlace
from mainspring.store.contract import Store
from mainspring.sweep.ownership import BEAT_S, Heartbeat
from mainspring.wire import Report, WorkerInfo

BEGAN_S = 1000.0

Step = Callable[[], Awaitable[float | None]]


class Counting:
    """A store that counts the calls of one node, and can be out of its reach."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.calls: Counter[str] = Counter()
        self.reachable = True

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found) or name == "subscribe":
            return found

        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls[name] += 1
            if self.reachable:
                return found(*args, **kwargs)
            if name != "renew_lease":  # which nobody waits for
                raise StoreUnavailableError("no connection")

        return counted


class Member:
    """One node, its heartbeat and its worker. `due` says when each of its steps comes next."""

    def __init__(self, cluster: "Cluster", name: str) -> None:
        self._cluster = cluster
        self.store = Counting(cluster.scene.store)
        self.asked_to_leave = 0
        self.workers: dict[bytes, asyncio.Task[None]] = {}
        self.jobs: list[bytes] = []  # what the workers were given
        self.node = Node(
            self.store,
            ObjectPlace("memory:///"),
            keep_s=3600,
            keep_failed_s=3600,
            name=name,
            leave=self._leave,
            monotonic=lambda: cluster.now_s,
        )
        self.due: dict[str, float] = {}
        self.steps: dict[str, Step] = {"beat": self._beat}
        for service in self.node._services.values():
            self.steps[service.part.name] = service._step
            service.wake = self._waker(service.part.name)  # type: ignore[method-assign]

    async def join(self, slots: int, kinds: str) -> None:
        await self.node.join()
        self.node.ownership.renewed()
        self._heartbeat = Heartbeat(self.store, self.node.id, lambda: None, self.node.ownership.renewed)
        self.due = dict.fromkeys(self.steps, self._cluster.now_s) | {"beat": self._cluster.now_s + BEAT_S}
        await self.add_worker(slots, kinds)

    async def add_worker(self, slots: int, kinds: str = "work") -> None:
        """A worker that takes jobs as long as it can, and ends none."""
        info = WorkerInfo(name="hand", slots=slots, kinds=frozenset(kinds.split()))
        session = await self.node.desk.register(info, lambda _: None)
        self.workers[session] = asyncio.create_task(self._work(session, slots))
        await asyncio.sleep(0)

    async def _work(self, session: bytes, slots: int) -> None:
        number = 0
        while slots:
            number += 1
            batch = await self.node.desk.pull(session, number, slots)
            self.jobs += [assignment.job for assignment in batch]
            slots -= len(batch)

    async def die(self) -> None:
        """As a killed process: nothing of it is ever called again, and it says nothing."""
        self.due = {}
        self.node._unsubscribe()
        await self.close()

    async def close(self) -> None:
        for worker in self.workers.values():
            worker.cancel()
        await asyncio.gather(*self.workers.values(), return_exceptions=True)

    def _leave(self) -> None:
        self.asked_to_leave += 1

    def _waker(self, name: str) -> Callable[[], None]:
        def wake() -> None:
            if name in self.due:
                self.due[name] = self._cluster.now_s

        return wake

    async def _beat(self) -> float:
        self._heartbeat.beat()
        await self._cluster.written()
        for session in self.workers:
            await self.node.desk.report(session, Report([]))
        return BEAT_S


class Cluster:
    """All members, and the time."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.now_s = BEGAN_S
        self.members: list[Member] = []

    async def join(self, *, slots: int = 10, kinds: str = "work") -> Member:
        member = Member(self, f"node-{len(self.members)}")
        self.members.append(member)
        await member.join(slots, kinds)
        return member

    async def written(self) -> None:
        """Whatever was given to the store's writer before this is durable."""
        await self.scene.store.drain_nodes([])

    async def pass_time(self, duration_s: float) -> None:
        await self.until(lambda: False, duration_s)

    async def until(self, probe: Callable[[], bool], within_s: float) -> float:
        """Let time pass until the probe is true, and answer how long that took."""
        began_s = self.now_s
        while not probe():
            due = [(at_s, n, name) for n, member in enumerate(self.members) for name, at_s in member.due.items()]
            at_s, n, name = min(due, default=(float("inf"), 0, ""))
            if at_s > began_s + within_s:
                self._set_time(began_s + within_s)
                break
            self._set_time(max(at_s, self.now_s))
            member = self.members[n]
            member.due[name] = float("inf")
            rest_s = await member.steps[name]()
            if rest_s is not None and name in member.due:
                member.due[name] = min(member.due[name], self.now_s + rest_s)  # a wake meanwhile comes first
            await asyncio.sleep(0)
        return self.now_s - began_s

    def shares(self) -> list[int]:
        """How many partitions each member owns."""
        owners = [row[0] for row in self.scene.rows("select node from partition")]
        return [owners.count(member.node.id) for member in self.members]

    def _set_time(self, now_s: float) -> None:
        self.now_s = now_s
        self.scene.clock.jump_to(START + round((now_s - BEGAN_S) * SECOND))


@asynccontextmanager
async def open_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    clock = JumpingClock(START)
    backend = SqliteBackend(folder)
    store = await backend.open(clock)
    cluster = Cluster(Scene(backend, store, clock))
    monkeypatch.setattr("time.monotonic", lambda: cluster.now_s)
    try:
        yield cluster
        cluster.scene.check()
    finally:
        for member in cluster.members:
            await member.close()
        monkeypatch.undo()
        await store.close()
