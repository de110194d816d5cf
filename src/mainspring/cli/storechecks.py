"""The checks of `mainspring doctor` that ask an open store: nodes, workers, what waits for nobody, the clock, the objects."""

from collections import Counter
from collections.abc import Sequence

from mainspring.cli.checks import FAIL, OK, WARN, Check
from mainspring.core.lane import Lane
from mainspring.core.timer import SECOND, Micros
from mainspring.core.words import count, duration, listed, relative
from mainspring.dispatch.matcher import Seat
from mainspring.errors import InvalidError, StoreError
from mainspring.objects.place import ObjectPlace
from mainspring.store.contract import JobFilter, NodeRecord, SessionRecord, Store

_AHEAD: Micros = 60 * SECOND


async def check_store(store: Store) -> list[Check]:
    now = store.clock.now()
    nodes = await store.list_nodes()
    alive = {node.id for node in nodes if node.lease_until >= now}
    workers = [session for session in await store.list_sessions() if session.node in alive]
    return [
        _check_nodes(nodes, now),
        _check_partitions(store.partitions, [node for node in nodes if node.id in alive]),
        _check_workers(workers),
        await _check_waiting(store, workers),
        await _check_queues(store),
        await _check_clock(store, nodes, now),
    ]


async def check_objects(objects: ObjectPlace, *, shared: bool) -> Check:
    """`shared`: the store may have nodes on many machines."""
    where = objects.url if objects.folder is None else str(objects.folder)
    try:
        await objects.probe()
    except (InvalidError, StoreError) as error:
        return Check("objects", FAIL, str(error))
    if shared and objects.folder is not None:
        return Check("objects", OK, f"{where}, writable", "all machines with a node must share this folder; or use S3")
    return Check("objects", OK, f"{where}, writable")


def _check_nodes(nodes: Sequence[NodeRecord], now: Micros) -> Check:
    left = [node for node in nodes if node.lease_until < now]
    running = len(nodes) - len(left)
    if left:
        gone = listed((f"{node.name} ({relative(node.lease_until, now)})" for node in left), 5)
        todo = "the running ones take over" if running else "start a worker: it takes over their jobs"
        return Check("nodes", WARN, f"{running} running; stopped without leaving: {gone}", todo)
    return Check("nodes", OK, f"{running} running")


def _check_partitions(number: int, alive: Sequence[NodeRecord]) -> Check:
    """A partition without a living owner is one whose timers do not ripen."""
    if not alive:
        return Check("partitions", OK, "nobody needs them")
    owned = sum(node.partitions for node in alive)
    if owned < number:
        found = f"{number - owned} of {number} have no running owner"
        return Check(
            "partitions", WARN, found, "look again in 15 seconds: until somebody has taken them, their timers wait"
        )
    return Check("partitions", OK, f"all {number} have an owner")


def _check_workers(workers: Sequence[SessionRecord]) -> Check:
    if not workers:
        return Check("workers", WARN, "none is running", "start one with `mainspring worker MODULE:APP`")
    slots = sum(worker.info.slots for worker in workers if worker.info)
    live = sum(worker.live for worker in workers)
    return Check("workers", OK, f"{count(len(workers), 'worker')}, {live:,} of {count(slots, 'slot')} in use")


async def _check_waiting(store: Store, workers: Sequence[SessionRecord]) -> Check:
    """Ready jobs that no running worker could ever take."""
    streams = await store.list_streams(range(store.partitions))
    lanes = await store.read_lanes(sorted({lane for _, _, lane, _ in streams})) if streams else {}
    seats = [Seat(worker.id, worker.info) for worker in workers if worker.info]
    unserved = Counter(_named(lane) for lane in lanes.values() if not any(seat.serves(lane) for seat in seats))
    if unserved:
        return Check("waiting", WARN, f"nobody serves {listed(sorted(unserved), 5)}", "start a worker that does")
    return Check("waiting", OK, "no due job waits for a worker that is not there")


def _named(lane: Lane) -> str:
    labels = f" with {', '.join(sorted(lane.labels))}" if lane.labels else ""
    return f"{lane.kind}{labels}"


async def _check_queues(store: Store) -> Check:
    paused = [queue.name for queue in await store.list_queues() if queue.paused]
    if paused:
        return Check("queues", WARN, f"paused: {listed(paused)}", "resume with `mainspring queues resume NAME`")
    return Check("queues", OK, "none is paused")


async def _check_clock(store: Store, nodes: Sequence[NodeRecord], now: Micros) -> Check:
    newest = await store.list_jobs(JobFilter(), before=None, limit=1)
    times = [record.created_at for record in newest] + [node.started_at for node in nodes]
    ahead = max(times, default=now) - now
    if ahead > _AHEAD:
        found = f"the store has times {duration(ahead / SECOND)} ahead of this machine"
        return Check("clock", WARN, found, "compare the clocks: what is due waits until they agree")
    return Check("clock", OK, "agrees with the store")
