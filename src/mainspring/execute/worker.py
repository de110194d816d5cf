"""One executing process: registers with a node, runs what it is given, reports how it ended.

Made by the app or the CLI, which awaits `run` and calls `stop` when the process should end. Guarantees: functions
that run never number more than `slots`; after `stop` no new job begins, what runs gets `grace_s` to end and is then
handed back; a session that the node ends is left at once and a new one is registered.

A lease is renewed elsewhere, on a thread of its own, so that a job that blocks the loop does not lose it: that thread
asks `alive` and `session`, which any thread may.
"""

import asyncio
import os
import socket

from mainspring.core.job import Resources
from mainspring.core.retry import Backoff
from mainspring.errors import InvalidError, NotRunningError, SessionEndedError
from mainspring.execute import targets
from mainspring.execute.hooks import Hooks
from mainspring.execute.link import Link
from mainspring.execute.logs import DEFAULT_LIMIT
from mainspring.execute.patience import persist
from mainspring.execute.reach import Reach
from mainspring.execute.registry import Registry
from mainspring.execute.runner import Runner
from mainspring.execute.session import Session
from mainspring.execute.steps import Now, wall_clock
from mainspring.runtime.log import get_logger
from mainspring.wire import WorkerInfo

_log = get_logger("mainspring.worker")

_MAX_THREADS = 64
_FLUSH_S = 5.0
_HAND_BACK_S = 0.5  # after the grace: whoever waits for this process to end has been promised a second
_UNBOUND = Resources()
_BACKOFF = Backoff(base_s=0.1, cap_s=5.0)


class Worker:
    """Runs once. `grace_s`: for what runs at `stop`. `stop_grace_s`: from asking one job to end to giving it up.
    `log_limit`: bytes that are kept of what one attempt writes."""

    def __init__(
        self,
        registry: Registry,
        link: Link,
        *,
        slots: int = 100,
        name: str | None = None,
        resources: Resources = _UNBOUND,
        labels: frozenset[str] = frozenset(),
        hooks: Hooks | None = None,
        threads: int | None = None,
        processes: int | None = None,
        grace_s: float = 30.0,
        stop_grace_s: float = 5.0,
        heartbeat_s: float = 3.0,
        backoff: Backoff = _BACKOFF,
        now: Now = wall_clock,
        log_limit: int = DEFAULT_LIMIT,
    ) -> None:
        self._registry = registry
        self._link = link
        self._slots = _at_least_one("slots", slots)
        self._threads = _at_least_one("threads", threads or min(slots, _MAX_THREADS))
        self._processes = _at_least_one("processes", processes or min(slots, os.cpu_count() or 1))
        self._name = name or f"{socket.gethostname()}-{os.getpid()}"
        self._resources = resources
        self._labels = labels
        self._hooks = hooks or Hooks()
        self._grace_s = grace_s
        self._stop_grace_s = stop_grace_s
        self._heartbeat_s = heartbeat_s
        self._backoff = backoff
        self._now = now
        self._log_limit = log_limit
        self._stopping = asyncio.Event()
        self._finished = asyncio.Event()
        self._drained = False
        self._runner: Runner | None = None
        self._session: bytes | None = None

    @property
    def session(self) -> bytes | None:
        """The id of the current session."""
        return self._session

    @property
    def busy(self) -> int:
        """How many functions run now."""
        return 0 if self._runner is None else self._runner.busy

    def alive(self) -> bool:
        """Is there a session whose lease should be renewed? Also while a job blocks the loop."""
        return self._session is not None and not self._finished.is_set()

    async def run(self) -> None:
        """Work until `stop`; raises what an `on_start` hook raised, or the node's refusal of who or what this worker is."""
        self._check_startable()
        self._runner = runner = self._make_runner()
        try:
            await self._hooks.started()
            try:
                await self._serve(runner)
            finally:
                await self._abandon(runner)
                await self._hooks.stopped()
        finally:
            self._session = None
            await runner.close()
            self._finished.set()

    async def stop(self) -> None:
        """Drain, and return when `run` has ended."""
        self._stopping.set()
        if self._runner is not None:
            await self._finished.wait()

    async def _serve(self, runner: Runner) -> None:
        while (session := await self._open(runner)) is not None:
            self._session = session.id
            session.start()
            try:
                await self._work(session, runner)
                return
            except SessionEndedError:
                self._session = None
                _log.warning("session ended by the node", dropped=len(runner.live))
                if self._stopping.is_set():
                    return
                runner.abandon()
            finally:
                await session.close()

    async def _abandon(self, runner: Runner) -> None:
        """Leave nothing running that can be stopped, before the user's own clean-up."""
        if runner.busy and not self._drained:
            runner.abandon()
            idle = asyncio.ensure_future(runner.wait_idle())
            await asyncio.wait((idle,), timeout=self._stop_grace_s)
            idle.cancel()

    async def _open(self, runner: Runner) -> Session | None:
        """A registered session; None if the worker stops first."""
        if self._stopping.is_set():
            return None
        info = WorkerInfo(
            name=self._name,
            slots=self._slots,
            kinds=self._registry.names(),
            resources=self._resources,
            labels=self._labels,
        )
        registering = asyncio.ensure_future(
            persist(lambda: self._link.register(info, runner.cancel), "register", self._backoff, (InvalidError,))
        )
        try:
            await self._until_stopping(registering)
            if not registering.done():
                return None
            session = registering.result()
        finally:
            registering.cancel()
        _log.info("registered", worker=self._name, slots=self._slots, kinds=len(info.kinds))
        return Session(
            self._link,
            session,
            runner,
            slots=self._slots,
            stopping=self._stopping,
            heartbeat_s=self._heartbeat_s,
            backoff=self._backoff,
        )

    async def _work(self, session: Session, runner: Runner) -> None:
        await self._until_stopping(session.puller, session.reporter)
        session.check()
        await self._drain(session, runner)
        await session.end()

    async def _drain(self, session: Session, runner: Runner) -> None:
        _log.info("stopping", running=runner.busy, grace_s=self._grace_s)
        await self._wait_idle(session, runner, self._grace_s)
        if runner.busy:
            _log.warning("handing back", count=len(runner.live))
            runner.hand_back()
            await self._wait_idle(session, runner, _HAND_BACK_S)
            runner.give_up()
        self._drained = True
        undelivered = await session.flush(_FLUSH_S)
        _log.info("stopped", still_running=runner.busy, undelivered=undelivered)

    async def _wait_idle(self, session: Session, runner: Runner, within_s: float) -> None:
        idle = asyncio.ensure_future(runner.wait_idle())
        try:
            await asyncio.wait((idle, session.reporter), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
            session.check()
        finally:
            idle.cancel()

    async def _until_stopping(self, *tasks: "asyncio.Future[bytes] | asyncio.Future[None]") -> None:
        """Return when `stop` was called or one of the tasks has ended."""
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait((stopping, *tasks), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()

    def _make_runner(self) -> Runner:
        return Runner(
            self._registry,
            self._hooks,
            Reach(self._link, lambda: self._session, self._backoff),
            threads=self._threads,
            processes=self._processes,
            stop_grace_s=self._stop_grace_s,
            now=self._now,
            log_limit=self._log_limit,
        )

    def _check_startable(self) -> None:
        if self._runner is not None:
            raise NotRunningError("a worker runs once; make a new one")
        if targets.loading_main:
            raise NotRunningError(
                "start the worker under `if __name__ == '__main__':`, or its processes would start it again"
            )


def _at_least_one(field: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise InvalidError(field, f"expected a whole number from 1, got {value!r}")
    return value
