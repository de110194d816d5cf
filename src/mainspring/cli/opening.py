"""Opening a store for one command.

Commands that read or steer use `opened`, which refuses a store that does not exist instead of making an empty one where somebody
mistyped a name. `perform` runs a command's coroutine.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from mainspring.app import App
from mainspring.errors import InvalidError, StoreError, StoreUnavailableError
from mainspring.store.sqlite.database import path_of

T = TypeVar("T")


def perform(work: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end; Ctrl-C ends it early."""
    return asyncio.run(work)


@asynccontextmanager
async def opened(url: str | None) -> AsyncIterator[App]:
    """An app without code over an existing store: everything that needs no function of the user's."""
    app = App(url)
    path = store_path(app.store_url)
    if not path.exists():
        raise StoreUnavailableError(
            f"there is no store at {path}; start one with `mainspring dev`, or name another with --store"
        )
    async with app:
        yield app


def store_path(url: str) -> Path:
    """The file of a store's URL."""
    try:
        return path_of(url)
    except StoreError as error:
        raise InvalidError("store", str(error)) from None
