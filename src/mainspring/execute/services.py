"""What an attempt's `Context` asks of its worker: `Services`, one per attempt whose function takes a context.

Made by the runner in the worker's process; for a function in a process of its own the child has another one, whose calls go to
the first as frames (see `pools.asking`), so what a type or a `Context` writes against is the same everywhere. Any thread and
any event loop may call. Guarantees:

- `put` returns when the object is durable; calls are repeated until they are answered, and `SessionEndedError` says that the
  attempt is no longer this worker's: nothing that it still does will count.
- `conclude` adds to an outcome what the attempt has stored and used, once its function has ended.
- `close` runs what was added to `closers` (logs to flush, folders to remove) in that process, the last first, after the function's
  end and before its outcome is reported. One that fails is logged; each must bound its own time. A child that is killed closes
  nothing.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from mainspring.core.objects import Found
from mainspring.errors import SessionEndedError
from mainspring.execute.usage import together
from mainspring.runtime.log import get_logger
from mainspring.wire import Assignment, Outcome, OutcomeType, Stored, Usage

Log = Callable[[int, bytes], None]
Write = Callable[[int, bytes], Awaitable[None]]

_log = get_logger("mainspring.worker")


class JobObjects(Protocol):
    """The objects of the attempt's job, by their names in `core.objects`."""

    async def put(self, name: str, data: bytes | Path) -> None: ...

    async def read(self, name: str) -> bytes | None: ...

    async def find(self, prefix: str) -> list[Found]: ...


class Services:
    """`log` takes what the attempt writes: a stream of `core.segments` and bytes; in any thread, never waits. `write` takes the
    same in the worker's loop, and waits while too much is not stored yet: for the pipe of a process."""

    def __init__(
        self,
        assignment: Assignment,
        objects: JobObjects,
        log: Log = lambda _stream, _data: None,
        write: Write | None = None,
        scratch: Path | None = None,
    ) -> None:
        """`scratch`: the name of a folder that the attempt may make, and its worker removes."""
        self.assignment = assignment
        self.log = log
        self.objects = objects
        self.write: Write = write or self._write
        self.put = objects.put
        self.read = objects.read
        self.find = objects.find
        self.scratch = scratch
        self.resume: bytes | None = None  # the newest checkpoint of the attempts before
        self.outputs: list[Stored] = []
        self.usage: Usage | None = None
        self.closers: list[Callable[[], Awaitable[None]]] = []

    @property
    def secrets(self) -> dict[str, str]:
        return self.assignment.secrets

    def use(self, usage: Usage) -> None:
        """Add what a part of the attempt used: a process that it started, say."""
        self.usage = together(self.usage, usage)

    def conclude(self, outcome: Outcome) -> Outcome:
        if not self.outputs and self.usage is None:
            return outcome
        stored = self.outputs if outcome.type is OutcomeType.COMPLETED else ()
        return replace(outcome, outputs=(*outcome.outputs, *stored), usage=together(outcome.usage, self.usage))

    async def close(self) -> None:
        for closer in reversed(self.closers):
            try:
                await closer()
            except SessionEndedError:
                continue  # the attempt is somebody else's by now: nobody wants what it would store
            except Exception:
                _log.exception("an attempt was not closed cleanly", kind=self.assignment.kind)

    async def _write(self, stream: int, data: bytes) -> None:
        """Where nothing has to wait."""
        self.log(stream, data)
