"""A worker's calls are made until they are answered: `persist`."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

from mainspring.core.retry import Backoff
from mainspring.errors import ForbiddenError, SessionEndedError, UnknownKeyError
from mainspring.runtime.log import get_logger

_log = get_logger("mainspring.worker")
_T = TypeVar("_T")


async def persist(
    call: Callable[[], Awaitable[_T]], what: str, backoff: Backoff, final: tuple[type[Exception], ...] = ()
) -> _T:
    """Call until it is answered. Only what no patience heals passes: the session is over, the key is none, or `final`."""
    failures = 0
    hopeless: tuple[type[Exception], ...] = (SessionEndedError, UnknownKeyError, ForbiddenError, *final)
    while True:
        try:
            return await call()
        except hopeless:
            raise
        except Exception as error:
            failures += 1
            # At least half of the bound: enough jitter to part the workers, without a storm of short waits.
            again_in_s = backoff.delay_s(failures, 0.5 + random.random() / 2)
            _log.warning("node not reached", call=what, error=repr(error), failures=failures, again_in_s=again_in_s)
        await asyncio.sleep(again_in_s)
