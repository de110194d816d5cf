"""The desk: where workers register, pull and report (the node's side of `execute.link.Link`).

It knows each session's live assignments, and what the worker said it can take. A session that has ended is answered with
`SessionEndedError`, and its worker registers anew. A worker in this process and one far away are served by the same calls.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Protocol

from msgspec import structs

from mainspring.core.lifecycle import Reason
from mainspring.core.objects import CHECKPOINTS, LOGS, PARTIAL, Found, attempt_of, check_place, check_prefix, is_first
from mainspring.dispatch.dispatcher import Dispatcher
from mainspring.dispatch.matcher import Seat
from mainspring.dispatch.place import Cancel, Place
from mainspring.errors import MainspringError, SecretsError, SessionEndedError, StoreUnavailableError
from mainspring.objects.place import Data
from mainspring.runtime.log import get_logger
from mainspring.secrets.objects import SealedObjects
from mainspring.secrets.sealing import Sealing
from mainspring.store.contract import Attempts, LiveJob, Sessions
from mainspring.wire import Assignment, Failure, Outcome, OutcomeType, PullReply, Report, ReportReply, WorkerInfo

_log = get_logger("mainspring.desk")

LONG_POLL_S = 30.0
KEPT_ATTEMPTS = 10  # whose logs and partial results are kept: a job may snooze for ever, and must not fill the disk

_KEPT = {CHECKPOINTS: 1, LOGS: KEPT_ATTEMPTS, PARTIAL: KEPT_ATTEMPTS}

_ENDED = partial(SessionEndedError, "this session has ended: register again")
_AWAY = partial(StoreUnavailableError, "the node of this session starts again")

Settle = Callable[[bytes, Sequence[Outcome]], Awaitable[list[bytes]]]


class DeskStore(Sessions, Attempts, Protocol):
    """What the desk needs of a store."""


class Desk:
    """Sessions of one node."""

    node: bytes  # set by the node when it has joined

    def __init__(
        self, store: DeskStore, objects: SealedObjects, sealing: Sealing, settle: Settle, wake: Callable[[], None]
    ) -> None:
        self._store = store
        self._objects = objects
        self._sealing = sealing
        self._settle = settle
        self._wake = wake
        self._places: dict[bytes, Place] = {}
        self._over: set[bytes] = set()  # sessions that end here, and have not yet ended in the store
        self._unended: list[bytes] = []  # those of them that are ready to end there
        self._adopting = asyncio.Lock()
        self._watchers: list[asyncio.Future[None]] = []
        self.dispatcher: Dispatcher  # set by the node: the two need each other

    async def register(self, info: WorkerInfo, cancel: Cancel | None, tenant: str | None = None) -> bytes:
        """Start a session; `cancel` is called with a job that shall stop. None: a worker elsewhere, which hears it by its next
        `poll` or `report`. `tenant`: the only one whose jobs it gets."""
        session = secrets.token_bytes(16)
        await self._store.insert_session(session, self.node, info.name, info, tenant, cancel is None)
        self._seat(session, Place(Seat(session, info, tenant), cancel))
        return session

    async def adopt(self, session: bytes) -> bool:
        """Take over the session of a worker elsewhere whose node is gone, with all that it runs; False where it cannot be had.

        What the old node assigned and could not hand over is missing from the worker's reports, and returns by that."""
        async with self._adopting:
            if session in self._places:
                return True
            (record,) = await self._store.read_sessions([session])
            if record is None or record.info is None or session in self._over:
                return False
            live = await self._store.adopt_session(session, self.node)
            if live is None:
                return False
            place = Place(Seat(session, record.info, record.tenant), None)
            place.live = {each.job: each for each in live}
            await self.dispatcher.resume(place.seat, [each.lane for each in live])
            self._seat(session, place)
            _log.info("a worker came back", worker=record.name, session=session.hex(), live=len(live))
            return True

    def _seat(self, session: bytes, place: Place) -> None:
        self._places[session] = place
        self.dispatcher.matcher.add(place.seat)
        self.dispatcher.workers_changed()
        self._wake()

    async def pull(self, session: bytes, number: int, free: int, wait_s: float = LONG_POLL_S) -> list[Assignment]:
        """Jobs for up to `free` slots, as soon as there are some; none after a long wait. The same number, the same answer; a
        higher number says that all before have been answered, or that nobody waits for them any more."""
        place = self._place(session)
        if place.ask(number, free):
            self._wake()
            self._notify()
        return await place.answer(number, wait_s)

    async def poll(self, session: bytes, number: int, free: int, wait_s: float = LONG_POLL_S) -> PullReply:
        """As `pull`, for a worker elsewhere: with what else it should hear, which also ends the wait."""
        assignments = await self.pull(session, number, free, wait_s)
        place = self._place(session)
        return PullReply(assignments, place.take_cancels(), place.draining)

    def deliver(self, session: bytes, assignments: list[Assignment]) -> None:
        """The dispatcher has assigned these; they are durable."""
        place = self._places.get(session)
        if place is None:
            for assignment in assignments:
                self.dispatcher.ended(assignment.lane, None)
            self._returning = asyncio.create_task(self._hand_back(session, assignments))
        else:
            place.give(assignments)

    async def return_unseen(self, session: bytes, attempts: Sequence[tuple[bytes, int]]) -> None:
        """Take back what was perhaps assigned, and certainly not delivered."""
        place = self._places.get(session)
        unseen = [
            Outcome(job, attempt, OutcomeType.RETURNED)
            for job, attempt in attempts
            if place is None or not place.holds(job, attempt)
        ]
        if unseen:
            await self._settle(session, unseen)

    async def report(self, session: bytes, report: Report) -> ReportReply:
        """Outcomes and signs of life. An outcome that is not current is answered in `rejected`."""
        place = self._place(session)
        place.reports += 1
        try:
            return await self._report(session, place, report)
        finally:
            place.reports -= 1
            place.seen_s = time.monotonic()

    async def _report(self, session: bytes, place: Place, report: Report) -> ReportReply:
        rejected = await self._settle_outcomes(session, place, report.outcomes) if report.outcomes else []
        forgotten = place.unmentioned(report)
        if forgotten:
            _log.warning("assignments were forgotten by their worker", session=session.hex(), count=len(forgotten))
            await self._hand_back(session, forgotten)
            self._end_live(place, forgotten)
        if report.running or report.progress:
            await self._store.mark_running(report.running or [], report.progress)
        cancel = place.repeat_cancels()
        if place.cancel is not None and place.live and report.running is not None:
            cancel = await self._store.list_cancelling(session)
        self._notify()
        return ReportReply(rejected, cancel, place.draining)

    async def _settle_outcomes(self, session: bytes, place: Place, outcomes: list[Outcome]) -> list[bytes]:
        """What was accepted before is not asked again: the report was repeated because its answer got lost."""
        async with place.settling:
            fresh = [_dated(place, outcome) for outcome in outcomes if not place.has_accepted(outcome)]
            rejected = await self._settle(session, await self._sealed(place, fresh)) if fresh else []
            place.accept(outcome for outcome in fresh if outcome.job not in rejected)
            self._end_live(place, fresh)
            return rejected

    async def _sealed(self, place: Place, outcomes: list[Outcome]) -> list[Outcome]:
        """As they are stored: results of sealed tenants are encrypted. What is not live here is about to be rejected."""
        await self._sealing.look()
        if not self._sealing.tenants:
            return outcomes
        return [
            self._sealed_outcome(place.live[outcome.job], outcome, outcome.result)
            if outcome.result is not None and place.holds(outcome.job, outcome.attempt)
            else outcome
            for outcome in outcomes
        ]

    def _sealed_outcome(self, live: Assignment | LiveJob, outcome: Outcome, result: bytes) -> Outcome:
        """Where it cannot be sealed, this attempt has failed, and no other: perhaps the next is with a node that has the key."""
        try:
            return structs.replace(outcome, result=self._sealing.seal(self._owner(live), live.job, "result", result))
        except SecretsError as error:
            why = Failure(Reason.SECRETS, type(error).__name__, f"the result cannot be sealed: {error}")
            return Outcome(live.job, live.attempt, OutcomeType.FAILED, failure=why, usage=outcome.usage)

    def _owner(self, live: Assignment | LiveJob) -> str:
        """Its tenant."""
        return self.dispatcher.lanes.known[live.lane].lane.tenant

    async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: Data) -> None:
        live = self._live(session, job, attempt)
        await self._objects.put(self._owner(live), job, check_place(name, attempt), data)
        room = name.partition("/")[0] + "/"
        if attempt > _KEPT.get(room, attempt) and is_first(name):
            await self._forget_until(job, room, attempt - _KEPT[room])

    async def get_object(self, session: bytes, job: bytes, attempt: int, name: str) -> AsyncGenerator[bytes, None]:
        live = self._live(session, job, attempt)
        async with aclosing(self._objects.get(self._owner(live), job, check_place(name))) as pieces:
            async for piece in pieces:
                yield piece

    async def find_objects(self, session: bytes, job: bytes, attempt: int, prefix: str) -> list[Found]:
        self._live(session, job, attempt)
        return await self._objects.find(job, check_prefix(prefix))

    async def _forget_until(self, job: bytes, room: str, attempt: int) -> None:
        for each in await self._objects.find(job, room):
            if attempt_of(each.name) <= attempt:
                await self._objects.delete(job, each.name)

    def _live(self, session: bytes, job: bytes, attempt: int) -> Assignment | LiveJob:
        """A worker reaches the objects of what it runs, and no others."""
        place = self._place(session)
        if not place.holds(job, attempt):
            raise SessionEndedError("this attempt is no longer with this session")
        return place.live[job]

    async def end(self, session: bytes) -> None:
        """The worker leaves, and hands back what it has not reported."""
        place = self._places.pop(session, None)
        if place is not None:
            self._over.add(session)
            self._forget(session, place)
            try:
                await self._hand_back(session, list(place.live.values()))
            finally:
                self._unended.append(session)  # where this or that fails, `end_silent` does it
            await self._end_sessions()

    async def remove(self, session: bytes) -> bool:
        """End a session at once: what it has runs elsewhere. False where it is not at this desk."""
        here = session in self._places
        await self.end(session)
        return here

    async def drain(self, session: bytes) -> bool:
        """Give a worker nothing more, and tell it to finish and leave. False where it is not at this desk."""
        place = self._places.get(session)
        if place is not None:
            place.drain()
        return place is not None

    def tenant_of(self, session: bytes) -> str | None:
        """The only tenant that a session serves; None: all. `SessionEndedError` where it is not here, or where its worker is in
        this process and has nothing to say from outside."""
        place = self._place(session)
        if place.cancel is not None:
            raise SessionEndedError("this session belongs to a worker inside a node")
        return place.seat.tenant

    @property
    def closed(self) -> bool:
        """Does the node leave, so that workers had better register elsewhere?"""
        return self.dispatcher.closed

    def __contains__(self, session: bytes) -> bool:
        return session in self._places

    async def tell_cancels(self) -> None:
        """Pass on the cancel requests for jobs that are live here; one that no worker has pulled ends at once."""
        for session, place in tuple(self._places.items()):
            for job in await self._store.list_cancelling(session) if place.live else ():
                waiting = place.withdraw(job)
                if waiting is None:
                    place.ask_to_stop(job)
                else:
                    place.withdrawn.append(
                        Outcome(job, waiting.attempt, OutcomeType.CANCELLED, reason=Reason.REQUESTED)
                    )
            if place.withdrawn:  # perhaps since an earlier call, which the store could not take
                await self._settle(session, place.withdrawn)
                self._end_live(place, place.withdrawn)
                place.withdrawn = []

    def capacity(self) -> int:
        """How many jobs the workers here can run at once."""
        return sum(place.seat.info.slots for place in self._places.values())

    async def end_silent(self, lease_s: float) -> list[bytes]:
        """End the sessions that have not been heard of for a whole lease."""
        late_s = time.monotonic() - lease_s
        silent = [session for session, place in self._places.items() if place.seen_s < late_s and not place.reports]
        for session in silent:
            self._over.add(session)
            self._forget(session, self._places.pop(session))
        self._unended += silent
        return await self._end_sessions()

    async def _end_sessions(self) -> list[bytes]:
        ended = tuple(self._unended)
        if ended:
            await self._store.end_sessions(ended, self.node)
            self._unended = [session for session in self._unended if session not in ended]
            self._over.difference_update(ended)
        return list(ended)

    async def wait_pulling(self) -> None:
        """Until a worker has asked for work."""
        while not any(place.seat.slots > 0 for place in self._places.values()):
            await self._changed()

    async def wait_idle(self) -> None:
        """Until everything that was assigned here has ended, and its worker has asked for more."""
        while any(place.live or place.mailbox or place.seat.slots <= 0 for place in self._places.values()):
            await self._changed()

    async def _changed(self) -> None:
        watcher: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._watchers.append(watcher)
        await watcher

    def _notify(self) -> None:
        for watcher in self._watchers:
            watcher.set_result(None)
        self._watchers.clear()

    def abandon(self) -> None:
        """The node was ended by others: no session is here any more. Those of workers elsewhere come back, here or there."""
        for session, place in tuple(self._places.items()):
            del self._places[session]
            self._forget(session, place, _ENDED if place.cancel is not None else _AWAY)
        self._unended.clear()
        self._over.clear()

    async def _hand_back(self, session: bytes, assignments: Sequence[Assignment | LiveJob]) -> None:
        if assignments:
            await self._settle(session, [Outcome(a.job, a.attempt, OutcomeType.RETURNED) for a in assignments])

    def _place(self, session: bytes) -> Place:
        place = self._places.get(session)
        if place is None:
            raise _ENDED()
        place.seen_s = time.monotonic()
        return place

    def _end_live(self, place: Place, gone: Sequence[Outcome | Assignment | LiveJob]) -> None:
        """A report may come again, after the job's next attempt has been given to the same worker: that one is live."""
        ended = [place.live.pop(each.job).lane for each in gone if place.holds(each.job, each.attempt)]
        for lane, count in Counter(ended).items():
            self.dispatcher.ended(lane, place.seat, count)

    def _forget(self, session: bytes, place: Place, why: Callable[[], MainspringError] = _ENDED) -> None:
        self.dispatcher.matcher.remove(session)
        for lane, count in Counter(assignment.lane for assignment in place.live.values()).items():
            self.dispatcher.ended(lane, place.seat, count)
        place.close(why())
        self.dispatcher.workers_changed()
        self._wake()


def _dated(place: Place, outcome: Outcome) -> Outcome:
    """With how long its result is kept, which is the job's affair and not its worker's."""
    live = place.live.get(outcome.job)
    ttl_s = None if live is None else live.options.result_ttl_s
    return outcome if ttl_s is None else structs.replace(outcome, result_ttl_s=ttl_s)
