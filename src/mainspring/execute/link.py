"""How a worker reaches its node: `Link`, four calls for jobs and three for their objects.

Implemented by plain method calls where node and worker share a process, and by the client over a network; called by
`execute.session` only. A link's contract:

- `pull` waits for work (a long poll) and answers at most `free` assignments, or [] after a while. Repeating a `number`
  repeats the answer, so a lost answer is not lost work. A cancelled `pull` may have assigned: `end` hands that back.
- `report` may be repeated with the same content; an outcome already accepted is accepted again.
- Objects (see `core.objects`) are those of jobs that the session has live; of any other job `put` is a `SessionEndedError`. An
  object that was put is durable, and the next attempt finds it, wherever that runs. All three may be repeated.
- `SessionEndedError` says that the session is over: nothing the worker still runs for it will be accepted. `UnknownKeyError`
  and `ForbiddenError` end the worker, as does an `InvalidError` of `register`. Any other error is taken as passing: the
  worker waits a little and calls again.
"""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

from mainspring.core.objects import Found
from mainspring.wire import Assignment, Report, ReportReply, WorkerInfo

Cancel = Callable[[bytes], None]


class Link(Protocol):
    async def register(self, info: WorkerInfo, cancel: Cancel) -> bytes:
        """Open a session; answers its id. `cancel` is called with a job that shall stop; `report` tells that too, later."""

    async def pull(self, session: bytes, number: int, free: int) -> list[Assignment]:
        """Ask for up to `free` assignments."""

    async def report(self, session: bytes, report: Report) -> ReportReply:
        """Deliver outcomes and say what runs; also the heartbeat."""

    async def end(self, session: bytes) -> None:
        """Close the session; what it still held goes back."""

    async def put_object(self, session: bytes, job: bytes, attempt: int, name: str, data: bytes | Path) -> None:
        """Store or replace one, from memory or from a file."""

    def get_object(self, session: bytes, job: bytes, attempt: int, name: str) -> AsyncIterator[bytes]:
        """A piece at a time; `NotFoundError` where there is none."""

    async def find_objects(self, session: bytes, job: bytes, attempt: int, prefix: str) -> list[Found]:
        """Those whose names begin with `prefix`, in order."""
