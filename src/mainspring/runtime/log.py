"""Loggers that cost nothing until they are used, and say nothing that nobody asked for.

structlog pulls in large packages when it is imported (its console output does), and most commands never write a line. So a
module asks here for its logger; structlog is imported with the first line. A program that has called `structlog.configure`
(as `mainspring worker` does) gets the lines in its own form. In any other program they go to the standard library's logger of the
same name: warnings reach stderr, the rest is silent unless the program wants it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import EventDict, FilteringBoundLogger


class _LazyLogger:
    """Becomes structlog's logger of that name at the first attribute that is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        # Nothing is kept: a program may configure its logging after the first line.
        import structlog

        logger = structlog.get_logger(self._name) if structlog.is_configured() else _standard_logger(self._name)
        return getattr(logger, attribute)


def _standard_logger(name: str) -> Any:
    import logging

    import structlog

    processors: list[Any] = [structlog.stdlib.filter_by_level, _as_text]
    return structlog.wrap_logger(logging.getLogger(name), processors, structlog.stdlib.BoundLogger)


def _as_text(_: object, __: str, event: "EventDict") -> tuple[tuple[str], dict[str, Any]]:
    """`the event key=value`; the standard library adds a traceback where there is one."""
    exc_info = event.pop("exc_info", None)
    text = " ".join([str(event.pop("event", "")), *(f"{key}={value}" for key, value in event.items())])
    return (text,), {"exc_info": exc_info}


def get_logger(name: str) -> "FilteringBoundLogger":
    """As `structlog.get_logger`."""
    logger: Any = _LazyLogger(name)
    return logger  # type: ignore[no-any-return]
