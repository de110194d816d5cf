"""An application that can be made twice: for the server that executes it, and for the client that submits to it."""

import asyncio
from typing import Any

from mainspring import App


class Shop:
    """`app` and its functions."""

    def __init__(self, *where: str, **settings: Any) -> None:
        self.app = app = App(*where, **settings)

        @app.job(queue="mail", tags=["post"])
        async def send(to: str, count: int = 1) -> str:
            return f"{to} x{count}"

        @app.job(retries=0)
        async def broken(why: str) -> None:
            raise ValueError(why)

        @app.job()
        async def nothing() -> None: ...

        @app.job(timeout="60s")
        async def endless() -> None:
            await asyncio.Event().wait()

        self.send, self.broken, self.nothing, self.endless = send, broken, nothing, endless
