"""Opening a store, or asking a server, for one command.

Commands that read or steer use `opened`, which refuses a store that does not exist instead of making an empty one where somebody
mistyped a name. `perform` runs a command's coroutine.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from msgspec import structs

from mainspring.app import App
from mainspring.client.settings import ServerSettings
from mainspring.config import app_settings
from mainspring.core.options import check_name
from mainspring.errors import InvalidError, StoreUnavailableError
from mainspring.store.opening import StoreSettings, has_store
from mainspring.verbs.faces import Verbs

T = TypeVar("T")

_PATIENCE_S = 2.0  # of somebody who waits for a command, with a server that does not answer


def perform(work: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end; Ctrl-C ends it early."""
    return asyncio.run(work)


@asynccontextmanager
async def opened(store: str | None, server: str | None = None) -> AsyncIterator[App]:
    """An app without code over an existing store or at a server: everything that needs no function of the user's."""
    url = server_meant(store, server)
    app = App(url or store)
    if url is None and not await has_store(app.store_settings):
        raise StoreUnavailableError(
            f"there is no store at {app.store_settings.place}; {how_to_make(app.store_settings)}"
        )
    if isinstance(app.settings, ServerSettings):
        app.settings = structs.replace(app.settings, retry_for_s=_PATIENCE_S)
    app.actor = structs.replace(app.actor, origin="cli")
    async with app:
        yield app


def verbs_of(app: App, tenant: str | None) -> Verbs:
    """What can be asked for a tenant; None: for the key's own at a server, for the default one in a store."""
    return app.own_verbs() if tenant is None else app.verbs(check_name("tenant", tenant))


def server_meant(store: str | None, server: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The URL of the server to ask; None where the store itself is meant."""
    if server is not None and store is not None:
        raise InvalidError("server", "cannot be used together with store: a server has a store of its own")
    if server is None and store is None:
        server = environ.get("MAINSPRING_SERVER")
    if server is not None and not server.startswith(("http://", "https://")):
        raise InvalidError(
            "server", f"expected the URL of a server, such as http://127.0.0.1:8420, got {server[:80]!r}"
        )
    return server


def use(app: App, store: str | None, server: str | None) -> None:
    """Let an application work there instead of at the place that its code names."""
    url = server_meant(store, server, environ={}) or store
    if url is not None:
        app.settings = app_settings(url)


def how_to_make(settings: StoreSettings) -> str:
    """What to do where there is no store."""
    if settings.is_postgres:
        return "make it with `mainspring migrate`, or name another with --store or MAINSPRING_SCHEMA"
    return "start one with `mainspring dev`, or name another with --store"
