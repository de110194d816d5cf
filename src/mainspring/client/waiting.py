"""Waiting for jobs to end, with few requests for all who wait.

A request names up to a thousand jobs and is answered when some of them have ended. Those asked for meanwhile get a request of
their own; once one has been answered, what is left of it goes into the next. There are never more than `MOST` at a time: where
another is needed, the oldest is given up and its jobs join. What passes (no connection, a store that is away) is waited out.
"""

import asyncio
from itertools import islice

from mainspring.client.asking import Asker, UnreadableError, path
from mainspring.errors import (
    LimitedError,
    MainspringError,
    NotFoundError,
    SecretsError,
    ServerError,
    StoreUnavailableError,
)
from mainspring.runtime.log import get_logger
from mainspring.verbs.documents import EndDocument, WaitAnswer, WaitRequest

MOST = 4
_MOST_IDS = 1000
_POLL_S = 30.0
_SHORT_POLL_S = 1.0  # of a full one: there may be more jobs than fit into all of them, and they take turns
_ANSWER_S = 30.0
_AGAIN_S = 1.0

_log = get_logger("mainspring.client")

Waiters = list["asyncio.Future[EndDocument]"]


class RemoteWaiter:
    """Answers everybody who waits for a job of one tenant to end."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, Waiters] = {}
        self._unasked: dict[str, None] = {}  # in the order in which they came
        self._polls: dict[asyncio.Task[None], list[str]] = {}
        self._next: asyncio.TimerHandle | None = None

    async def wait(self, job: str) -> EndDocument:
        """`job`: an id as `format_id` writes it."""
        future: asyncio.Future[EndDocument] = self._loop.create_future()
        if job not in self._waiting:
            self._waiting[job] = []
            self._unasked[job] = None
        self._waiting[job].append(future)
        self._poll_in(0.0)
        try:
            return await future
        finally:
            self._forget(job, future)

    def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
        for task in self._polls:
            task.cancel()
        for futures in self._waiting.values():
            for future in futures:
                future.cancel()

    def _forget(self, job: str, future: "asyncio.Future[EndDocument]") -> None:
        waiters = self._waiting.get(job, [])
        if future in waiters:
            waiters.remove(future)
        if not waiters:
            self._waiting.pop(job, None)
            self._unasked.pop(job, None)

    def _poll_in(self, seconds: float) -> None:
        """All who come in one turn of the loop share a request."""
        if self._next is None and self._unasked:
            self._next = self._loop.call_later(seconds, self._poll)

    def _poll(self) -> None:
        self._next = None
        if len(self._polls) >= MOST:
            self._give_up_oldest()
        while self._unasked and len(self._polls) < MOST:
            ids = list(islice(self._unasked, _MOST_IDS))
            for job in ids:
                del self._unasked[job]
            self._polls[self._loop.create_task(self._ask(ids))] = ids

    def _give_up_oldest(self) -> None:
        """A full one has nothing to gain from it, and is short anyway."""
        oldest = next((poll for poll, ids in self._polls.items() if len(ids) < _MOST_IDS), None)
        if oldest is not None:
            self._return(self._polls.pop(oldest))
            oldest.cancel()

    async def _ask(self, ids: list[str]) -> None:
        again_s = 0.0
        try:
            poll_s = _SHORT_POLL_S if len(ids) == _MOST_IDS else _POLL_S
            self._answer(await ask_for_ends(self._asker, WaitRequest(ids=ids, timeout_s=poll_s)))
        except UnreadableError as error:
            self._fail(ids, error)
        except (ServerError, StoreUnavailableError, LimitedError) as error:
            _log.warning("cannot see which jobs have ended; asking again", error=str(error))
            again_s = error.retry_after_s if isinstance(error, LimitedError) else _AGAIN_S
        except MainspringError as error:
            self._fail(ids, error)
        finally:
            task = asyncio.current_task()
            if task is not None and self._polls.pop(task, None) is not None:
                self._return(ids)
                self._poll_in(again_s)

    def _return(self, ids: list[str]) -> None:
        """Those that somebody still waits for shall be asked for again."""
        for job in ids:
            if job in self._waiting:
                self._unasked[job] = None

    def _answer(self, answer: WaitAnswer) -> None:
        for ended in answer.ended:
            for future in self._waiting.pop(ended.id, []):
                if not future.done():
                    future.set_result(ended)
        for job in answer.unknown:
            self._fail([job], NotFoundError(f"there is no job {job}"))
        for job, why in answer.unreadable.items():
            self._fail([job], SecretsError(why))

    def _fail(self, ids: list[str], error: MainspringError) -> None:
        for job in ids:
            for future in self._waiting.pop(job, []):
                if not future.done():
                    future.set_exception(error)


async def ask_for_ends(asker: Asker, request: WaitRequest) -> WaitAnswer:
    """One request; the server keeps it as long as it says, and answering takes a little longer."""
    timeout_s = request.timeout_s + _ANSWER_S
    return await asker.post(path("jobs", "wait"), WaitAnswer, request, repeatable=True, timeout_s=timeout_s)
