"""What one attempt writes, on its way to the objects of its job: `LogWriter`.

Made by the runner for an attempt that can write; it costs next to nothing until something is written. `log` takes bytes in any
thread and never waits; `write` is for what may be made to wait, such as the pipe of a script. Guarantees:

- Pieces are stored one after the other, so that there is never a gap, and each ends with a line: 1 MiB is stored at once, less
  after a second, all that is left by `close`. A completed job has all its lines stored.
- Secrets are masked before anything leaves the memory, also in lines that are too long for one segment.
- Memory is bounded, and so is what is kept of an attempt. What does not fit is counted, and a line of the log says how much is
  missing and what to do.
- Objects that cannot be reached never stop the job: storing is tried again for as long as the job runs, and `close` waits for a
  bounded time. What then is lost is said in the worker's log, and a log without its end says so to its readers.
"""

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable

from mainspring.core.objects import logs
from mainspring.core.segments import END, NOTE, encode_segment, make_piece, split, whole_characters
from mainspring.core.timer import Micros
from mainspring.errors import MainspringError, SessionEndedError
from mainspring.execute.masking import mask_for
from mainspring.runtime.log import get_logger
from mainspring.wire import Assignment

Put = Callable[[str, bytes], Awaitable[None]]
MaskLines = Callable[[bytes], bytes]

MIB = 1_048_576
PIECE = MIB  # stored at once
MAX_PIECE = 4 * MIB  # what came while another was stored
MAX_LINE = 65_536  # a longer one is stored in parts
WRITE_UNSAVED = 8 * MIB  # beyond this `write` waits,
LOG_UNSAVED = 16 * MIB  # and beyond this `log` drops
DEFAULT_LIMIT = 64 * MIB

_log = get_logger("mainspring.worker")


def writer_of(
    assignment: Assignment, put: Put, now: Callable[[], Micros], loop: asyncio.AbstractEventLoop, limit: int
) -> "LogWriter":
    """Of an attempt, whose secrets it hides."""
    if not assignment.secrets:
        return LogWriter(put, assignment.attempt, now, loop=loop, limit=limit)
    mask = mask_for(assignment.secrets)
    return LogWriter(put, assignment.attempt, now, loop=loop, limit=limit, mask=mask.bytes, longest=mask.longest)


class LogWriter:
    """`loop`: the worker's, in which objects are put. `mask`: hides secrets, of which none, however it is written, is longer than
    `longest` bytes. `limit`: bytes that are kept."""

    def __init__(
        self,
        put: Put,
        attempt: int,
        now: Callable[[], Micros],
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        mask: MaskLines | None = None,
        longest: int = 0,
        limit: int = DEFAULT_LIMIT,
        every_s: float = 1.0,
        patience_s: float = 10.0,
    ) -> None:
        self._put = put
        self._attempt = attempt
        self._now = now
        self._loop = loop or asyncio.get_running_loop()
        self._mask = mask
        self._longest = longest if mask is not None else 0
        self._limit = limit
        self._every_s = every_s
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._tails: dict[int, bytes] = {}  # lines that have no end yet
        self._torn: dict[int, bool] = {}  # was the last that came dropped, within a line?
        self._segments: list[bytes] = []  # to be stored
        self._waiting = 0  # bytes of them,
        self._unsaved = 0  # and of what is being stored
        self._number = 0  # of pieces
        self._stored = 0  # of them
        self._kept = 0
        self._cut = 0  # bytes beyond the limit
        self._dropped = 0  # bytes that nobody could take since the last segment
        self._over = False  # closed, or the attempt is no longer this worker's
        self._stuck = False  # nothing was stored for so long that nobody waits for it any more
        self._saving: asyncio.Task[None] | None = None
        self._starting = False
        self._hurry = asyncio.Event()  # do not wait for more
        self._room = asyncio.Event()

    def log(self, stream: int, data: bytes) -> None:
        """Keep this; in any thread. A part of a line waits for its end, or for that of the attempt."""
        with self._lock:
            self._take_in(stream, data)

    async def write(self, stream: int, data: bytes) -> None:
        """As `log`, in the worker's loop; waits while too much is unsaved, as long as there is hope."""
        while self._unsaved > WRITE_UNSAVED and not self._stuck and not self._over:
            self._room.clear()
            try:
                async with asyncio.timeout(self._patience_s):
                    await self._room.wait()
            except TimeoutError:
                self._stuck = True
        self.log(stream, data)

    async def close(self) -> None:
        """Store what is left, within bounds. Nothing is taken any more."""
        with self._lock:
            if not self._over:
                self._finish()
            self._over = True
            self._hurry.set()
        if self._waiting and self._saving is None:
            self._start()
        if self._saving is not None:
            await self._patiently(self._saving)

    async def _patiently(self, saving: "asyncio.Task[None]") -> None:
        """For as long as pieces are stored, however many there are."""
        stored = -1
        while not saving.done() and stored < self._stored:
            stored = self._stored
            await asyncio.wait((saving,), timeout=self._patience_s)
        if not saving.done():
            saving.cancel()
            _log.warning("the end of a log is lost: the objects cannot be reached", bytes=self._unsaved)

    # under the lock

    def _take_in(self, stream: int, data: bytes) -> None:
        if self._over:
            return
        if self._cut:
            self._cut += len(data)
        elif self._unsaved + len(data) > LOG_UNSAVED:
            self._dropped += len(data) + len(self._tails.pop(stream, b""))
            self._torn[stream] = not data.endswith(b"\n")
        else:
            whole = self._whole_lines(stream, self._mended(stream, data))
            if whole:
                self._keep(stream, whole)

    def _mended(self, stream: int, data: bytes) -> bytes:
        """Without the rest of a line whose beginning was dropped: it may be that of a secret."""
        if not self._torn.get(stream):
            return data
        end = data.find(b"\n") + 1
        self._torn[stream] = end == 0
        self._dropped += end or len(data)
        return data[end:] if end else b""

    def _whole_lines(self, stream: int, data: bytes) -> bytes:
        """What can go, with its secrets masked; the rest waits."""
        tail = self._tails.pop(stream, b"")
        end = data.rfind(b"\n") + 1
        whole = self._masked(tail + data[:end]) if end else b""
        rest = data[end:] if end else tail + data
        if len(rest) > MAX_LINE + self._longest:
            masked = self._masked(rest)
            # A secret may have begun at the end, so that much stays here; in what goes there is none left to tear apart.
            place = whole_characters(masked, max(0, len(masked) - self._longest))
            whole, rest = whole + masked[:place], masked[place:]
        if rest:
            self._tails[stream] = rest
        return whole

    def _masked(self, data: bytes) -> bytes:
        return data if self._mask is None else self._mask(data)

    def _keep(self, stream: int, data: bytes) -> None:
        if self._dropped:
            self._note(f"{self._dropped:,} bytes are missing here: they came faster than they could be stored")
            self._dropped = 0
        room = self._limit - self._kept
        if len(data) > room:
            kept = data[: data.rfind(b"\n", 0, room) + 1]
            self._cut += len(data) - len(kept)
            data = kept
        self._kept += len(data)
        at = self._now()
        for part in split(data):
            self._append(encode_segment(stream, at, part))

    def _finish(self) -> None:
        for stream in tuple(self._tails):
            rest = self._tails.pop(stream)
            if self._cut:
                self._cut += len(rest)
            else:
                self._keep(stream, self._masked(rest))
        if self._dropped:
            self._note(f"{self._dropped:,} bytes are missing here: they came faster than they could be stored")
        if self._cut:
            kept = f"only the first {self._limit / MIB:g} MiB of an attempt are kept"
            self._note(f"{self._cut:,} bytes were cut off: {kept}. MAINSPRING_LOG_LIMIT of the worker raises that")
        if self._kept or self._waiting:
            self._append(encode_segment(END, self._now(), b""))

    def _note(self, text: str) -> None:
        self._append(encode_segment(NOTE, self._now(), text.encode() + b"\n"))

    def _append(self, segment: bytes) -> None:
        self._segments.append(segment)
        self._waiting += len(segment)
        self._unsaved += len(segment)
        if not self._starting:
            self._starting = True
            self._call(self._start)
        if self._waiting >= PIECE > self._waiting - len(segment):
            self._call(self._hurry.set)

    def _call(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the worker is gone
            self._loop.call_soon_threadsafe(what)

    def _take(self) -> bytes | None:
        """The next piece; None: there is nothing, and who writes again starts anew."""
        with self._lock:
            if not self._segments:
                self._saving, self._starting = None, False
                return None
            size = count = 0
            for segment in self._segments:
                if size + len(segment) > MAX_PIECE:
                    break
                size, count = size + len(segment), count + 1
            taken, self._segments = self._segments[:count], self._segments[count:]
            self._waiting -= size
            if self._waiting < PIECE and not self._over:
                self._hurry.clear()
            self._number += 1
            return make_piece(taken)

    # in the loop

    def _start(self) -> None:
        if self._saving is None:
            self._saving = self._loop.create_task(self._save(), name="mainspring-log")

    async def _save(self) -> None:
        """Piece after piece, while there is something to store."""
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._every_s):
                        await self._hurry.wait()
                piece = self._take()
                if piece is None:
                    return
                await self._put(logs(self._attempt, self._number), piece)
                self._saved()
        except SessionEndedError:
            self._give_up()
        except MainspringError as error:
            self._give_up()
            _log.warning("a log cannot be stored", error=str(error))

    def _saved(self) -> None:
        with self._lock:
            self._unsaved = self._waiting
            self._stored += 1
        self._stuck = False
        if self._unsaved <= WRITE_UNSAVED:
            self._room.set()

    def _give_up(self) -> None:
        """Nobody will take anything of this attempt any more."""
        with self._lock:
            self._over = True
            self._segments, self._tails = [], {}
            self._waiting = self._unsaved = 0
        self._room.set()
