"""Runs attempts: each is one value that goes through prepare -> run in its pool -> conclude.

Used by the worker, which gives it assignments and takes `outcomes`. Guarantees: every attempt that is started yields
exactly one outcome unless it is dropped; `busy` counts functions that really run, also those whose outcome was
decided before they ended; nothing a job does (raise, exit, cancel itself) reaches the worker.

The path of an async job is the hot one: one task, no timer unless the job has a timeout, no context unless it asks.
"""

import asyncio
import contextlib
import threading
from functools import partial
from typing import Any

from msgspec.structs import replace

from mainspring.core.lifecycle import Reason
from mainspring.errors import InvalidError, NotFoundError
from mainspring.execute import records
from mainspring.execute.attempt import Attempt, Stop, stopped
from mainspring.execute.checkpoints import load
from mainspring.execute.context import Context
from mainspring.execute.hooks import Hooks
from mainspring.execute.logs import DEFAULT_LIMIT, writer_of
from mainspring.execute.masking import prepare_mask
from mainspring.execute.metering import Change, StepMeter, in_thread
from mainspring.execute.outputs import is_large, keep_result
from mainspring.execute.pools.processes import Processes
from mainspring.execute.pools.threads import Threads
from mainspring.execute.reach import AttemptReach, Reach
from mainspring.execute.registry import Kind, Pool, Registry
from mainspring.execute.scratch import Scratch
from mainspring.execute.services import Services
from mainspring.execute.steps import Now, call, conclude_error, conclude_value, prepare, refused
from mainspring.wire import Assignment, Outcome, OutcomeType, Progress

_ASYNC = Pool.ASYNC


class Runner:
    """The attempts of one worker. `freed` is set when a function ends, `ended` when there is an outcome or a first progress."""

    def __init__(
        self,
        registry: Registry,
        hooks: Hooks,
        reach: Reach,
        *,
        threads: int,
        processes: int,
        stop_grace_s: float,
        now: Now,
        log_limit: int = DEFAULT_LIMIT,
    ) -> None:
        self.live: dict[bytes, Attempt] = {}
        self.outcomes: list[Outcome] = []
        self.has_first_progress = False  # something that should not wait for the next heartbeat
        self.busy = 0
        self._progress: dict[bytes, Progress] = {}  # the newest of each job
        self.freed = asyncio.Event()
        self.ended = asyncio.Event()
        self._kind = registry.get
        self._hooks = hooks
        self._reach = reach
        self._follow = bool(hooks.on_success or hooks.on_failure)
        self._stop_grace_s = stop_grace_s
        self._now = now
        self._log_limit = log_limit
        self._serving = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._meter = StepMeter()
        self._change = Change()
        self._threads = Threads(threads)
        self._processes = Processes(processes, stop_grace_s)
        self._scratch = Scratch()

    def start(self, assignments: list[Assignment]) -> None:
        """Start each; a repeated assignment is ignored, a newer attempt of the same job replaces the older."""
        started_at = self._loop.time()
        loop, live = self._loop, self.live
        for assignment in assignments:
            if assignment.job in live and self._is_repeated(assignment):
                continue
            kind = self._kind(assignment.kind)
            attempt = live[assignment.job] = Attempt(assignment, kind, started_at)
            self.busy += 1
            if kind is not None and kind.pool is _ASYNC:
                attempt.task = asyncio.Task(self._run_in_loop(attempt, kind), loop=loop, name=assignment.kind)
            else:
                attempt.task = asyncio.Task(self._run_in_pool(attempt, kind), loop=loop, name=assignment.kind)

    def running_since(self, before: float) -> list[tuple[bytes, int]]:
        """The attempts started before this loop time that have no outcome yet."""
        return [(job, a.assignment.attempt) for job, a in self.live.items() if a.started_at <= before]

    def cancel(self, job: bytes) -> None:
        attempt = self.live.get(job)
        if attempt is not None:
            self._stop(attempt, Stop.CANCEL)

    def hand_back(self) -> None:
        """Stop everything; what does not end otherwise is RETURNED."""
        for attempt in list(self.live.values()):
            self._stop(attempt, Stop.RETURN)

    def give_up(self) -> None:
        """Settle what has not ended by now, and kill what can be killed."""
        for attempt in list(self.live.values()):
            self._give_up(attempt)
        self._processes.kill()

    def abandon(self) -> None:
        """Stop everything and drop every outcome: nobody will accept them."""
        for attempt in list(self.live.values()):
            self._drop(attempt)
        self.outcomes = []
        self._progress = {}

    def take_outcomes(self) -> list[Outcome]:
        taken, self.outcomes = self.outcomes, []
        return taken

    def take_progress(self) -> list[Progress]:
        taken, self._progress = list(self._progress.values()), {}
        self.has_first_progress = False
        return taken

    async def wait_idle(self) -> None:
        """Return when no function runs any more."""
        while self.busy:
            self.freed.clear()
            await self.freed.wait()

    async def close(self) -> None:
        self._threads.close()
        await self._processes.close()
        self._scratch.close()

    async def _run_in_loop(self, attempt: Attempt, kind: Kind) -> None:
        assignment = attempt.assignment
        if assignment.secrets:
            await prepare_mask(assignment.secrets)
        if records.wanted:
            records.current.set(partial(self._log, attempt))
        try:
            args, kwargs, attempt.context = prepare(assignment, kind, partial(self._make_context, attempt))
        except InvalidError as error:
            return await self._end(attempt, refused(assignment, Reason.ARGUMENTS, error))
        if attempt.stop is not None:  # before it began
            return await self._end(attempt, None)
        attempt.begun = True
        try:
            if attempt.context is not None:
                await self._load(attempt)
            if assignment.options.timeout_s is not None:
                self._arm(attempt)
            value, rest = self._meter.enter(kind.function(*args, **kwargs), attempt)
            if rest is not None:
                value = await rest
            outcome = conclude_value(assignment, value, self._change.usage(assignment, attempt.cpu_ns))
        except (KeyboardInterrupt, GeneratorExit):  # the process or the loop ends, not the job
            raise
        except BaseException as error:  # also a CancelledError that nobody asked for
            usage = self._change.usage(assignment, attempt.cpu_ns)
            outcome = replace(conclude_error(assignment, kind, error, self._now), usage=usage)
        if attempt.stop is not None or attempt.services is not None or self._follow or is_large(outcome):
            return await self._end(attempt, outcome)
        self._settle(attempt, outcome)
        self._release(attempt)

    async def _run_in_pool(self, attempt: Attempt, kind: Kind | None) -> None:
        assignment = attempt.assignment
        try:
            outcome = await self._pool_outcome(attempt, kind)
        except InvalidError as error:
            outcome = refused(assignment, Reason.ARGUMENTS, error)
        except NotFoundError as error:
            outcome = refused(assignment, Reason.UNKNOWN_KIND, error)
        except asyncio.CancelledError:  # a stop, before there was something that could be told
            if attempt.stop is None:
                raise
            outcome = None
        except Exception as error:  # the pool's own trouble, such as no more processes
            outcome = conclude_error(assignment, kind, error, self._now) if kind else None
        await self._end(attempt, outcome)

    async def _pool_outcome(self, attempt: Attempt, kind: Kind | None) -> Outcome | None:
        """None: it was stopped before it began."""
        if kind is None:
            raise NotFoundError(f"this worker knows no kind {attempt.assignment.kind!r}; is its module imported here?")
        await prepare_mask(attempt.assignment.secrets)
        if attempt.stop is not None:
            return None
        if kind.pool is Pool.PROCESS:
            self._services(attempt)
            if kind.takes_context:
                await self._load(attempt)
            hear = partial(self._hear, attempt)
            return await self._processes.perform(attempt, kind, partial(self._arm, attempt), hear)
        if records.wanted:
            records.current.set(partial(self._log, attempt))
        args, kwargs, attempt.context = prepare(attempt.assignment, kind, partial(self._make_context, attempt))
        if attempt.context is not None:
            await self._load(attempt)
        function: Any = partial(kind.function, *args, **kwargs)
        work = partial(in_thread, partial(call, attempt.assignment, kind, function, self._now))
        return await self._threads.perform(attempt, work, partial(self._arm, attempt))

    async def _load(self, attempt: Attempt) -> None:
        """What the attempt goes on from: however long that takes, its function does not begin without it."""
        if attempt.assignment.attempt > 1:
            attempt.begun = True  # so that a stop ends the waiting
            services = self._services(attempt)
            services.resume = await load(services)
            attempt.begun = attempt.kind is not None and attempt.kind.pool is _ASYNC

    def _make_context(self, attempt: Attempt) -> Context:
        return Context(attempt.assignment, partial(self._hear, attempt), self._services(attempt))

    def _log(self, attempt: Attempt, stream: int, data: bytes) -> None:
        """What a function without a context writes, in any thread: only then it has services."""
        self._services(attempt).log(stream, data)

    def _services(self, attempt: Attempt) -> Services:
        with self._serving:
            if attempt.services is None:
                attempt.services = self._make_services(attempt.assignment)
            return attempt.services

    def _make_services(self, assignment: Assignment) -> Services:
        reach = AttemptReach(self._reach, assignment, self._loop)
        writer = writer_of(assignment, reach.put, self._now, self._loop, self._log_limit)
        services = Services(assignment, reach, writer.log, writer.write, self._scratch.of(assignment))
        services.closers += [partial(self._scratch.remove, self._scratch.of(assignment)), writer.close]
        return services

    async def _end(self, attempt: Attempt, outcome: Outcome | None) -> None:
        """The function has ended, or never began (None)."""
        result = None if outcome is None else outcome.result  # which may be stored elsewhere in a moment
        try:
            if attempt.services is not None or is_large(outcome):
                outcome = await self._put_away(attempt, self._services(attempt), outcome)
            if not attempt.settled:
                final = outcome if attempt.stop is None and outcome is not None else stopped(attempt, outcome)
                self._settle(attempt, final)
            if attempt.outcome is not None and self._follow:
                await self._hooks.ended(attempt.assignment, attempt.kind, attempt.outcome, result)
        finally:
            self._release(attempt)

    async def _put_away(self, attempt: Attempt, services: Services, outcome: Outcome | None) -> Outcome | None:
        """Whoever wants it to stop now is too late, unless the worker cannot wait: then its outcome goes without the rest."""
        attempt.begun, attempt.halt = False, None
        if attempt.stop is None and attempt.timer is not None:
            attempt.timer.cancel()  # its function has ended in time, however long this takes
        if outcome is not None:
            outcome = services.conclude(await keep_result(services, outcome))
        if attempt.stop is None:
            attempt.concluded = outcome
        await services.close()
        return outcome

    def _hear(self, attempt: Attempt, progress: Progress) -> None:
        """In whatever thread the function runs."""
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            self._loop.call_soon_threadsafe(self._note, attempt, progress)

    def _note(self, attempt: Attempt, progress: Progress) -> None:
        if attempt.settled or progress.job != attempt.assignment.job:  # a thread that outlived its job in a child
            return
        self._progress[progress.job] = progress
        if not attempt.told:
            attempt.told = self.has_first_progress = True
            self.ended.set()

    def _settle(self, attempt: Attempt, outcome: Outcome) -> None:
        attempt.settled = True
        attempt.outcome = outcome
        del self.live[attempt.assignment.job]
        if attempt.told:
            self._progress.pop(attempt.assignment.job, None)
        self.outcomes.append(outcome)
        self.ended.set()

    def _release(self, attempt: Attempt) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        attempt.task = None  # which may know the attempt: nothing that ended waits for the collector
        self.busy -= 1
        self.freed.set()

    def _arm(self, attempt: Attempt) -> None:
        """Called when the function begins: its timeout counts from here."""
        timeout_s = attempt.assignment.options.timeout_s
        if timeout_s is not None and attempt.stop is None:
            attempt.timer = self._loop.call_later(timeout_s, self._stop, attempt, Stop.TIMEOUT)

    def _stop(self, attempt: Attempt, why: Stop) -> None:
        if attempt.settled or attempt.stop is not None or attempt.concluded is not None:
            return
        attempt.stop = why
        told = self._halt(attempt)
        if attempt.kind is None or attempt.kind.pool is Pool.PROCESS:
            return  # it ends for certain: its pool kills it
        if attempt.kind.pool is _ASYNC or (told and why is not Stop.TIMEOUT):
            self._set_timer(attempt, self._stop_grace_s)
        elif why is Stop.CANCEL:
            attempt.stop = None  # a thread whose function cannot be told: what it ends with is what happened
        else:
            self._give_up(attempt)

    def _set_timer(self, attempt: Attempt, delay_s: float) -> None:
        if attempt.timer is not None:
            attempt.timer.cancel()
        attempt.timer = self._loop.call_later(delay_s, self._give_up, attempt)

    def _give_up(self, attempt: Attempt) -> None:
        """Decide the outcome although the function still runs; its slot stays taken until it ends."""
        if not attempt.settled:
            self._settle(attempt, attempt.concluded or stopped(attempt, None))

    def _drop(self, attempt: Attempt) -> None:
        attempt.settled = True
        del self.live[attempt.assignment.job]
        if attempt.stop is None:
            attempt.stop = Stop.ABANDON
            self._halt(attempt)

    def _halt(self, attempt: Attempt) -> bool:
        """Ask the function to end; False if there is no way to tell it."""
        if attempt.context is not None:
            attempt.context.request_stop()
        if attempt.halt is not None:
            return attempt.halt()
        # A task cancelled before its first step would never reach its own end: it looks at `stop` instead.
        if attempt.begun and attempt.task is not None:
            attempt.task.cancel()
        return True

    def _is_repeated(self, assignment: Assignment) -> bool:
        held = self.live[assignment.job]
        if held.assignment.attempt >= assignment.attempt:
            return True
        self._drop(held)
        return False


def returned(assignment: Assignment) -> Outcome:
    """The outcome of an assignment that is handed back untouched."""
    return Outcome(assignment.job, assignment.attempt, OutcomeType.RETURNED)
