"""One session at the desk: its numbered pulls, what it was given, and what is remembered so that a repeated call does no harm.

Pulls are numbered by the worker. The newest number is the only one that is served: whoever still waits with an older one is
answered with nothing, because nobody listens there any more. Whoever asks with the same number gets the same answer.
"""

import asyncio
import time
from collections.abc import Callable, Iterable

from mainspring.dispatch.matcher import Seat
from mainspring.errors import MainspringError
from mainspring.store.contract import LiveJob
from mainspring.wire import Assignment, Outcome, Report

HEARTBEAT_S = 3.0  # how often a worker reports

Cancel = Callable[[bytes], None]

_MENTION_AFTER_S = 2 * HEARTBEAT_S  # a worker lists what has run for a heartbeat; twice that is certainly not too young
_MISSES = 2
_REMEMBERED = 10_000  # accepted outcomes, at least the last so many: more than one report holds


class Place:
    """What the desk knows of one session. `cancel` None: the worker is not in this process, and asks for its news."""

    def __init__(self, seat: Seat, cancel: Cancel | None) -> None:
        self.seat = seat
        self.cancel = cancel
        self.live: dict[bytes, Assignment | LiveJob] = {}
        self.mailbox: list[Assignment] = []  # assigned and not yet pulled
        self.withdrawn: list[Outcome] = []  # cancelled before they were pulled, and not yet settled
        self.reports = 0  # under way: while the store cannot take them, their worker is not silent
        self.settling = asyncio.Lock()  # a report that is repeated while the first is under way waits for its end
        self.seen_s = time.monotonic()
        self.draining = False
        self._number = -1
        self._batch: list[Assignment] | None = None  # the answer to that number
        self._mail: asyncio.Future[None] | None = None  # pulls that wait for one
        self._closed: MainspringError | None = None
        self._news = False  # something that a waiting pull should be woken for
        self._cancels: list[bytes] = []  # not yet told
        self._told: set[bytes] = set()
        self._missed: dict[bytes, tuple[int, float, int]] = {}  # job: attempt, since when, in how many reports
        self._accepted: set[tuple[bytes, int]] = set()
        self._accepted_before: set[tuple[bytes, int]] = set()

    # pulls

    def ask(self, number: int, free: int) -> bool:
        """A pull has come; False where it is not a new one."""
        if number <= self._number:
            return False
        self._number, self._batch = number, None
        self.seat.slots = 0 if self.draining else free - len(self.mailbox) - self.seat.coming
        self.wake()
        return True

    async def answer(self, number: int, wait_s: float) -> list[Assignment]:
        """When there is something, or after a while nothing."""
        if number == self._number and self._batch is not None:
            return self._repeated(self._batch)
        end_s = time.monotonic() + wait_s
        while number == self._number and self._batch is None and not (self.mailbox or self._news):
            if not await self._wait(end_s - time.monotonic()):
                break
            if self._closed is not None:
                raise self._closed
        if number != self._number:
            return []
        self._news = False
        if self._batch is None:
            self._batch, self.mailbox = self.mailbox, []
        return self._batch

    async def _wait(self, wait_s: float) -> bool:
        """False: the time is over."""
        if self._mail is None:
            self._mail = asyncio.get_running_loop().create_future()
        done, _ = await asyncio.wait((self._mail,), timeout=max(wait_s, 0.0))
        return bool(done)

    def _repeated(self, batch: list[Assignment]) -> list[Assignment]:
        """Without what was taken back meanwhile; the rest is as new."""
        for assignment in batch:
            self._missed.pop(assignment.job, None)
        return [assignment for assignment in batch if self.holds(assignment.job, assignment.attempt)]

    def wake(self) -> None:
        mail, self._mail = self._mail, None
        if mail is not None and not mail.done():
            mail.set_result(None)

    def close(self, why: MainspringError) -> None:
        """The session is not here any more: whoever waits is told."""
        self._closed = why
        self.wake()

    # what it holds

    def give(self, assignments: list[Assignment]) -> None:
        self.live.update((assignment.job, assignment) for assignment in assignments)
        self.mailbox += assignments
        self.wake()

    def holds(self, job: bytes, attempt: int) -> bool:
        return job in self.live and self.live[job].attempt == attempt

    def withdraw(self, job: bytes) -> Assignment | None:
        """Take back one that no pull was answered with; None where there is no such."""
        for assignment in self.mailbox:
            if assignment.job == job:
                self.mailbox.remove(assignment)
                return assignment
        return None

    def unmentioned(self, report: Report) -> list[Assignment | LiveJob]:
        """What was handed out and is missing from two reports: an answer that never arrived, or a worker that forgot."""
        if report.running is None:
            return []
        mentioned = {*report.running, *((outcome.job, outcome.attempt) for outcome in report.outcomes)}
        waiting = {assignment.job for assignment in self.mailbox}
        now_s, missed = time.monotonic(), {}
        for job, assignment in self.live.items():
            if job not in waiting and (job, assignment.attempt) not in mentioned:
                missed[job] = self._miss(job, assignment.attempt, now_s)
        self._missed = missed
        return [self.live[job] for job, (_, _, misses) in missed.items() if misses >= _MISSES]

    def _miss(self, job: bytes, attempt: int, now_s: float) -> tuple[int, float, int]:
        before = self._missed.get(job)
        if before is None or before[0] != attempt:
            return attempt, now_s, 0
        _, since_s, misses = before
        return attempt, since_s, misses + (now_s - since_s >= _MENTION_AFTER_S)

    # outcomes

    def has_accepted(self, outcome: Outcome) -> bool:
        pair = (outcome.job, outcome.attempt)
        return pair in self._accepted or pair in self._accepted_before

    def accept(self, outcomes: Iterable[Outcome]) -> None:
        """Remember these, and forget the oldest."""
        self._accepted.update((outcome.job, outcome.attempt) for outcome in outcomes)
        if len(self._accepted) > _REMEMBERED:
            self._accepted, self._accepted_before = set(), self._accepted

    # news

    def ask_to_stop(self, job: bytes) -> None:
        """Somebody wants this job cancelled. A worker elsewhere hears it with its next answer, once; reports say it again."""
        if self.cancel is not None:
            self.cancel(job)
        elif job not in self._told:
            self._told = {known for known in self._told if known in self.live} | {job}
            self._cancels.append(job)
            self._tell()

    def drain(self) -> None:
        self.draining = True
        self.seat.slots = 0
        self._tell()

    def take_cancels(self) -> list[bytes]:
        cancels, self._cancels = self._cancels, []
        return cancels

    def _tell(self) -> None:
        if self.cancel is None:
            self._news = True
            self.wake()
