"""How log lines look: for a person at a terminal, or one JSON object a line for everything else.

Called by `dev` and `worker` before the application runs. Nothing else in Mainspring configures logging, so a program that embeds it
keeps its own configuration.
"""

import logging
import sys
from typing import Any, TextIO

from mainspring.core.words import clean


def configure_logs(*, as_json: bool, level: str = "info", stream: TextIO | None = None) -> None:
    """Lines of `level` and above go to `stream`; JSON if asked for, or if nobody watches."""
    import structlog

    target = stream or sys.stdout
    pretty = not as_json and target.isatty()
    processors: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if pretty else "iso", utc=not pretty),
    ]
    if pretty:
        processors.append(_cleaned)
        plain = structlog.dev.plain_traceback
        processors.append(structlog.dev.ConsoleRenderer(exception_formatter=plain, pad_event_to=0))
    else:
        processors += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(target),
        cache_logger_on_first_use=False,
    )


def _cleaned(_logger: Any, _method: str, line: Any) -> Any:
    """An error's text may come from a job or from elsewhere: nothing that a terminal would obey gets there."""
    return {name: clean(value) if isinstance(value, str) else value for name, value in line.items()}
