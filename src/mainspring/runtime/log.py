"""Loggers that cost nothing until they are used.

structlog pulls in large packages when it is imported (its console output does), and most commands never write a line. So a
module asks here for its logger; structlog is imported with the first line. How lines look is the process's choice, made with
`structlog.configure`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class _LazyLogger:
    """Becomes structlog's logger of that name at the first attribute that is asked for."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        import structlog

        # Not kept: structlog's own proxy, asked each time, follows a later `structlog.configure`.
        return getattr(structlog.get_logger(self._name), attribute)


def get_logger(name: str) -> "FilteringBoundLogger":
    """As `structlog.get_logger`."""
    logger: Any = _LazyLogger(name)
    return logger  # type: ignore[no-any-return]
