"""A node's lease and its share of the partitions.

The lease is renewed on a thread of its own, straight into the store's writer, so that a job that blocks the event loop never
costs the node its life. Ownership is an optimisation: two owners of one partition for a moment do no harm.
"""

import threading
from collections.abc import Callable, Iterable

from mainspring.runtime.log import get_logger
from mainspring.store.contract import Sessions

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
    """Ends nodes whose lease has run out, and claims this node's share of the partitions."""

    name = "ownership"

    node: bytes  # set by the node when it has joined

    def __init__(self, store: Sessions, own: Callable[[Iterable[int]], None]) -> None:
        self._store = store
        self._own = own
        self.partitions: list[int] = []

    async def run_once(self) -> float:
        await self._store.end_nodes()
        partitions = await self._store.claim_partitions(self.node)
        if partitions != self.partitions:
            self.partitions = partitions
            self._own(partitions)
        return LOOK_S
