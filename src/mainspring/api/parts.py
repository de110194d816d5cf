"""What the API is made of: the engine behind it, and what decides who may ask for what, and how much."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mainspring.access.keys import Keyring
from mainspring.access.quotas import Quotas
from mainspring.access.rates import Buckets
from mainspring.api.forwarding import Forwarder
from mainspring.verbs.engine import Engine

if TYPE_CHECKING:
    from mainspring.dispatch.desk import Desk


@dataclass(slots=True)
class Parts:
    """`keyring` None: no keys, everybody may do everything for all tenants. `desk`: where workers pull and report, None where no
    node runs here. `url`: how other servers reach this one. `stopping`: set when the server stops; whoever waits gives up."""

    engine: Engine
    quotas: Quotas
    keyring: Keyring | None = None
    desk: "Desk | None" = None
    url: str | None = None
    forwarder: Forwarder = field(default_factory=Forwarder)
    rates: Buckets = field(default_factory=Buckets)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    background: set[asyncio.Task[None]] = field(default_factory=set)

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that nobody shall wait for; the server does, before it ends."""
        task = asyncio.create_task(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def close(self) -> None:
        await asyncio.gather(*self.background)
        await self.forwarder.close()
