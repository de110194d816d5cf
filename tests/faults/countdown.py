"""Ending a process at the nth time that it passes a point."""

import os
from typing import Any

CRASHED = 86  # exit code: the point was reached


class Countdown:
    def __init__(self, nth: int) -> None:
        self._left = nth

    def __call__(self) -> None:
        self._left -= 1
        if self._left == 0:
            os._exit(CRASHED)


def around(place: Any, name: str, crash: Countdown, *, before: bool) -> None:
    """Pass the point before or after a function."""
    real = getattr(place, name)

    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            crash()
        answer = real(*args, **kwargs)
        if not before:
            crash()
        return answer

    setattr(place, name, wrapped)


def around_async(place: Any, name: str, crash: Countdown, *, before: bool) -> None:
    real = getattr(place, name)

    async def wrapped(*args: Any, **kwargs: Any) -> Any:
        if before:
            crash()
        answer = await real(*args, **kwargs)
        if not before:
            crash()
        return answer

    setattr(place, name, wrapped)
