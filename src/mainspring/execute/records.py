"""Records of Python's `logging`, sent to the attempt in which they are made: `JobLogHandler`.

    logging.getLogger().addHandler(mainspring.JobLogHandler())

The runner, and in a process of the pool its child, say in `current` how the attempt that runs here writes; so a function needs no
`Context` for this. A record that is made outside of any attempt goes nowhere, which makes it safe to add the handler for a
whole program. Tasks and `asyncio.to_thread` know their attempt; a `threading.Thread` that a job starts does not. Where there is
no handler, attempts pay nothing for it.
"""

import logging
from contextvars import ContextVar

from mainspring.core.segments import DEBUG, ERROR, INFO, WARNING, as_lines
from mainspring.execute.services import Log

#: How the attempt that runs here writes; None outside of attempts.
current: ContextVar[Log | None] = ContextVar("mainspring_attempt_log", default=None)

#: Is there a handler? Attempts that begin before there is one are not told.
wanted = False

_STREAMS = ((logging.ERROR, ERROR), (logging.WARNING, WARNING), (logging.INFO, INFO))


class JobLogHandler(logging.Handler):
    """Give it a formatter as any other handler; without one a line is the message, and the traceback if there is one."""

    def __init__(self, level: int | str = logging.NOTSET) -> None:
        global wanted
        super().__init__(level)
        wanted = True

    def emit(self, record: logging.LogRecord) -> None:
        write = current.get()
        if write is None:
            return
        try:
            write(stream_of(record.levelno), as_lines(self.format(record)))
        except Exception:
            self.handleError(record)


def stream_of(level: int) -> int:
    return next((stream for least, stream in _STREAMS if level >= least), DEBUG)
