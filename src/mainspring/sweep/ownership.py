"""A node's lease and its share of the partitions.

The lease is renewed on a thread of its own, straight into the store's writer, so that a job that blocks the event loop never
costs the node its life. Ownership is an optimisation: two owners of one partition for a moment do no harm.
"""

import threading
import time
from collections.abc import Callable, Iterable, Sequence

from mainspring.core.partition import shares
from mainspring.core.timer import SECOND, Micros
from mainspring.runtime.clock import Clock
from mainspring.runtime.log import get_logger
from mainspring.store.contract import NodeRecord, Sessions

LEASE_S = 10.0
BEAT_S = 3.0
LOOK_S = 1.0  # a change of this node's own capacity is noticed so soon; costs no query
SLOW_LOOK_S = 10.0
PAUSE_S = 0.1  # where many nodes come and go at once, their hints are one look

_MARGIN_S = 0.01  # a lease that ends now has not run out yet

_log = get_logger("mainspring.node")


class Heartbeat:
    """Renews a node's lease every `BEAT_S` until stopped, and calls `renewed` each time; calls `lost` once where the node has
    been ended by others. Both are called from the store's thread."""

    def __init__(
        self, store: Sessions, node: bytes, lost: Callable[[], None], renewed: Callable[[], None] = lambda: None
    ) -> None:
        self._store = store
        self._node = node
        self._lost = lost
        self._renewed = renewed
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
        if renewed:
            self._renewed()
        elif not self._stop.is_set():
            self._stop.set()
            _log.warning("this node's lease ran out and others took over its work", node=self._node.hex())
            self._lost()


class Ownership:
    """Ends nodes that have gone silent, and claims this node's share of the partitions.

    A node is silent if its lease has run out and it was seen not to renew it for longer than a beat takes. Looking twice is what
    a clock that jumps cannot fake: every node that lives renews its lease in between. Silence counts only while this node
    renews its own lease in time: where the store stood still, the others could not renew either, and have a whole lease to return.

    It looks when a hint says that nodes have changed, and when the first lease that it knows of could have run out: the nodes
    that live have renewed theirs by then. It claims only where a look shows that its share is not what it should be.
    """

    name = "ownership"

    node: bytes  # set by the node when it has joined

    def __init__(
        self,
        store: Sessions,
        clock: Clock,
        partitions: int,
        capacity: Callable[[], int],
        *,
        own: Callable[[Iterable[int]], None],
        ended: Callable[[], None],
        leave: Callable[[], None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`own`: the share is now this. `ended`: another node is gone. `leave`: this node was asked to."""
        self._store = store
        self._clock = clock
        self._all = partitions
        self.capacity = capacity
        self._own = own
        self._ended = ended
        self._leave = leave
        self._monotonic = monotonic
        self._seen: dict[bytes, tuple[Micros, float]] = {}
        self._renewed_s: float | None = None
        self._steady_since_s = float("-inf")  # ever since, this node has renewed its own lease in time
        self._capacity = -1
        self._look_at_s = float("-inf")
        self._told = False
        self.partitions: list[int] = []

    def join(self, node: bytes) -> None:
        """A new life under a new id."""
        self.node = node
        self.partitions = []
        self._look_at_s = float("-inf")

    async def run_once(self) -> float:
        if self._monotonic() >= self._look_at_s or self.capacity() != self._capacity:
            await self.look()
        return max(_MARGIN_S, min(LOOK_S, self._look_at_s - self._monotonic()))

    def hear(self) -> None:
        """Nodes have changed; the caller wakes the service."""
        self._told = True
        self._look_at_s = min(self._look_at_s, self._monotonic() + PAUSE_S)

    def renewed(self) -> None:
        """Called from the store's thread: this node's lease was renewed just now."""
        if not self._is_steady():
            self._steady_since_s = self._monotonic()
        self._renewed_s = self._monotonic()

    async def look(self) -> None:
        """End who is silent, take or let go what the shares demand, and know when to look again."""
        self._told = False
        nodes = await self._store.list_nodes()
        self._watch(nodes)
        silent = self._silent()
        if silent:
            await self._store.end_nodes(silent)
            nodes = await self._store.list_nodes()
            self._watch(nodes)
        await self._claim(nodes)
        self._look_at_s = self._monotonic() + (PAUSE_S if self._told else self._rest_s())

    async def _claim(self, nodes: Sequence[NodeRecord]) -> None:
        capacity = self.capacity()
        mine = next((node for node in nodes if node.id == self.node), None)
        if mine is None or mine.capacity != capacity or self._is_share_wrong(nodes, mine):
            partitions = await self._store.claim_partitions(self.node, capacity)
            if partitions != self.partitions:
                self.partitions = partitions
                self._own(partitions)
        self._capacity = capacity
        if mine is not None and mine.draining:
            self._leave()

    def _is_share_wrong(self, nodes: Sequence[NodeRecord], mine: NodeRecord) -> bool:
        staying = [node for node in nodes if not node.draining]
        share = shares(self._all, {node.id: node.capacity for node in staying}).get(self.node, 0)
        free = self._all - sum(node.partitions for node in staying)
        return (
            mine.partitions > share or (mine.partitions < share and free > 0) or mine.partitions != len(self.partitions)
        )

    def _watch(self, nodes: Sequence[NodeRecord]) -> None:
        now_s = self._monotonic()
        before, self._seen = self._seen, {}
        for node in nodes:
            lease_until, since_s = before.get(node.id, (None, now_s))
            self._seen[node.id] = (node.lease_until, since_s if lease_until == node.lease_until else now_s)
        if before.keys() - self._seen.keys():
            self._ended()

    def _silent(self) -> dict[bytes, Micros | None]:
        if not self._is_steady():
            return {}
        return {id_: lease_until for id_, (lease_until, _) in self._seen.items() if self._silent_in_s(id_) < 0}

    def _is_steady(self) -> bool:
        """Without a heartbeat (a node driven by hand) nobody tells, and all is well."""
        return self._renewed_s is None or self._monotonic() - self._renewed_s <= 2 * BEAT_S

    def _silent_in_s(self, node: bytes) -> float:
        """When this node is silent, if it does not renew its lease before."""
        if node == self.node:
            return SLOW_LOOK_S
        lease_until, since_s = self._seen[node]
        lease_s = (lease_until - self._clock.now()) / SECOND
        if lease_s > 2 * LEASE_S:
            lease_s = float("-inf")  # longer than any node takes: made before the clock was set back
        return max(
            lease_s,
            since_s + BEAT_S * 4 / 3 - self._monotonic(),
            self._steady_since_s + LEASE_S - self._monotonic(),
        )

    def _rest_s(self) -> float:
        rest_s = min(map(self._silent_in_s, self._seen), default=SLOW_LOOK_S)
        if rest_s < 0:
            return LOOK_S  # it is not for us to judge: this node's own lease is not renewed in time
        return min(SLOW_LOOK_S, rest_s + _MARGIN_S)
