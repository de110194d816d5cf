"""Opening a store for one command.

Commands that read or steer use `opened`, which refuses a store that does not exist instead of making an empty one where somebody
mistyped a name. `perform` runs a command's coroutine.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from mainspring.app import App
from mainspring.errors import StoreUnavailableError
from mainspring.store.opening import StoreSettings, has_store

T = TypeVar("T")


def perform(work: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end; Ctrl-C ends it early."""
    return asyncio.run(work)


@asynccontextmanager
async def opened(url: str | None) -> AsyncIterator[App]:
    """An app without code over an existing store: everything that needs no function of the user's."""
    app = App(url)
    if not await has_store(app.store_settings):
        raise StoreUnavailableError(
            f"there is no store at {app.store_settings.place}; {how_to_make(app.store_settings)}"
        )
    async with app:
        yield app


def how_to_make(settings: StoreSettings) -> str:
    """What to do where there is no store."""
    if settings.is_postgres:
        return "make it with `mainspring migrate`, or name another with --store or MAINSPRING_SCHEMA"
    return "start one with `mainspring dev`, or name another with --store"
