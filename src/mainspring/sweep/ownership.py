"""A node's lease and its share of the partitions.

The lease is renewed on a thread of its own, straight into the store's writer, so that a job that blocks the event loop never
costs the node its life. Ownership is an optimisation: two owners of one partition for a moment do no harm.
"""

import threading
import time
from collections.abc import Callable, Iterable

from mainspring.core.timer import Micros, seconds
from mainspring.runtime.clock import Clock
from mainspring.runtime.log import get_logger
from mainspring.store.contract import NodeRecord, Sessions

LEASE_S = 10.0
BEAT_S = 3.0
LOOK_S = 1.0  # a node that died is noticed so soon after its lease has run out

_log = get_logger("mainspring.node")


class Heartbeat:
    """Renews a node's lease every `BEAT_S` until stopped; calls `lost` once where the node has been ended by others."""

    def __init__(self, store: Sessions, node: bytes, lost: Callable[[], None]) -> None:
        self._store = store
        self._node = node
        self._lost = lost
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mainspring-heartbeat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def beat(self) -> None:
        self._store.renew_lease(self._node, LEASE_S, self._answered)

    def _run(self) -> None:
        while not self._stop.wait(BEAT_S):
            self.beat()

    def _answered(self, renewed: bool) -> None:
        if not renewed and not self._stop.is_set():
            self._stop.set()
            _log.warning("this node's lease ran out and others took over its work", node=self._node.hex())
            self._lost()


class Ownership:
    """Ends nodes that have gone silent, and claims this node's share of the partitions.

    A node is silent if its lease has run out and it was seen not to renew it for longer than a beat takes. Looking twice is what
    a clock that jumps cannot fake: every node that lives renews its lease in between.
    """

    name = "ownership"

    node: bytes  # set by the node when it has joined

    def __init__(
        self,
        store: Sessions,
        clock: Clock,
        own: Callable[[Iterable[int]], None],
        capacity: Callable[[], int],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._own = own
        self.capacity = capacity
        self._monotonic = monotonic
        self._seen: dict[bytes, tuple[Micros, float]] = {}
        self.partitions: list[int] = []

    async def run_once(self) -> float:
        silent = self._silent(await self._store.list_nodes())
        if silent:
            await self._store.end_nodes(silent)
        began_s = self._monotonic()
        partitions = await self._store.claim_partitions(self.node, self.capacity())
        if self._monotonic() - began_s > LOOK_S:
            self._seen = {}  # the store stood still, and others could not renew either: watch them anew
        if partitions != self.partitions:
            self.partitions = partitions
            self._own(partitions)
        return LOOK_S

    def _silent(self, nodes: list[NodeRecord]) -> dict[bytes, Micros | None]:
        now, now_s = self._clock.now(), self._monotonic()
        seen: dict[bytes, tuple[Micros, float]] = {}
        for node in nodes:
            lease_until, since_s = self._seen.get(node.id, (None, now_s))
            seen[node.id] = (node.lease_until, since_s if lease_until == node.lease_until else now_s)
        self._seen = seen
        # A lease longer than any node takes was made before the clock was set back.
        return {
            id_: lease_until
            for id_, (lease_until, since_s) in seen.items()
            if id_ != self.node
            and now_s - since_s > BEAT_S * 4 / 3
            and not now <= lease_until <= now + seconds(2 * LEASE_S)
        }
