"""What the API is made of: the engine behind it, and what decides who may ask for what, and how much."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
