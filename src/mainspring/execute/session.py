"""A worker's life in one session with its node: the pull loop and the report loop.

Made by the worker for each session id. Guarantees: one pull at a time, never for more than is free; a pull keeps its
number until it is answered; an outcome is sent until it is accepted or the session ends; outcomes that come while a
report is under way travel together in the next one; progress goes with the heartbeat, an attempt's first at once. Errors
of the link are waited out while jobs go on; `SessionEndedError` ends both loops, as does a key that is not accepted.
"""

import asyncio

from mainspring.core.retry import Backoff
from mainspring.execute.link import Link
from mainspring.execute.patience import persist
from mainspring.execute.runner import Runner, returned
from mainspring.runtime.log import get_logger
from mainspring.wire import Assignment, Report

_log = get_logger("mainspring.worker")


class Session:
    """Two loops over one link; `start` them, `check` them, `flush` and `close` them."""

    def __init__(
        self,
        link: Link,
        session: bytes,
        runner: Runner,
        *,
        slots: int,
        stopping: asyncio.Event,
        heartbeat_s: float,
        backoff: Backoff,
    ) -> None:
        """Once `stopping` is set (also by this session, where the node asks for it) there is no new pull, and what an old one
        still brings is handed back."""
        self.id = session
        self._link = link
        self._runner = runner
        self._slots = slots
        self._stopping = stopping
        self._heartbeat_s = heartbeat_s
        self._backoff = backoff
        self._loop = asyncio.get_running_loop()
        self._number = 0
        self._beat_due = False
        self._closing = False
        self._undelivered = 0  # outcomes in the report that is under way

    def start(self) -> None:
        self.puller = self._loop.create_task(self._pull_forever(), name="mainspring-pull")
        self.reporter = self._loop.create_task(self._report_forever(), name="mainspring-report")
        self._beat = self._loop.call_later(self._heartbeat_s, self._on_beat)

    def check(self) -> None:
        """Raise what ended a loop, if one has ended."""
        for task in (self.puller, self.reporter):
            if task.done() and not task.cancelled():
                task.result()

    async def flush(self, within_s: float) -> int:
        """Send what is left; answers how many outcomes were not delivered in time."""
        self._closing = True
        self._runner.ended.set()
        await asyncio.wait((self.reporter,), timeout=within_s)
        self.check()
        return self._undelivered

    async def end(self) -> None:
        self.puller.cancel()
        try:
            await self._link.end(self.id)
        except Exception as error:  # the node will notice by the missing heartbeat
            _log.warning("session not closed", error=repr(error))

    async def close(self) -> None:
        self._beat.cancel()
        for task in (self.puller, self.reporter):
            task.cancel()
        await asyncio.gather(self.puller, self.reporter, return_exceptions=True)

    async def _pull_forever(self) -> None:
        runner = self._runner
        while not self._stopping.is_set():
            free = self._slots - runner.busy
            if free > 0:
                await self._pull(free)
            else:
                runner.freed.clear()
                await runner.freed.wait()

    async def _pull(self, free: int) -> None:
        self._number += 1
        number = self._number
        batch = await persist(lambda: self._link.pull(self.id, number, free), "pull", self._backoff)
        if self._stopping.is_set():
            self._refuse(batch)  # asked before the stop, answered after it
        elif len(batch) > free:
            _log.error("node assigned more than was free", assigned=len(batch), free=free)
            self._runner.start(batch[:free])
            self._refuse(batch[free:])
        else:
            self._runner.start(batch)
        if not batch:
            await asyncio.sleep(0)  # a link that answers at once must not keep the loop from the jobs

    def _refuse(self, assignments: list[Assignment]) -> None:
        self._runner.outcomes.extend(returned(assignment) for assignment in assignments)
        self._runner.ended.set()

    async def _report_forever(self) -> None:
        runner = self._runner
        while not self._closing or runner.outcomes:
            await runner.ended.wait()
            runner.ended.clear()
            await self._report()

    async def _report(self) -> None:
        outcomes = self._runner.take_outcomes()
        running: list[tuple[bytes, int]] | None = None
        progress = self._runner.take_progress() if self._beat_due or self._runner.has_first_progress else []
        if self._beat_due:
            self._beat_due = False
            running = self._runner.running_since(self._loop.time() - self._heartbeat_s)
        elif not outcomes and not progress:
            return
        report = Report(outcomes, running, progress)
        self._undelivered = len(outcomes)
        reply = await persist(lambda: self._link.report(self.id, report), "report", self._backoff)
        self._undelivered = 0
        if reply.rejected:
            _log.info("outcomes came too late", count=len(reply.rejected))
        for job in reply.cancel:
            self._runner.cancel(job)
        if reply.drain and not self._stopping.is_set():
            _log.info("asked to leave")
            self._stopping.set()

    def _on_beat(self) -> None:
        self._beat = self._loop.call_later(self._heartbeat_s, self._on_beat)
        self._beat_due = True
        self._runner.ended.set()
