"""What must be known to say why a job does not run: one look at the store.

`gather` reads; `explaining.causes` says what follows from it. They are apart so that every sentence can be tested without a
store. The reads are bounded: a backlog of a million jobs costs no more than one of a thousand.
"""

from msgspec import Struct

from mainspring.core.job import JobRecord, Limit
from mainspring.core.lane import Lane
from mainspring.core.partition import format_id
from mainspring.core.timer import Micros
from mainspring.dispatch.lanes import Lanes
from mainspring.errors import NotFoundError
from mainspring.store.contract import AttemptFailure, LimitUse, NodeRecord, SessionRecord, Store

MOST_AHEAD = 1000
MOST_PARENTS = 20
_BANDS = range(3)


class LimitFact(Struct, frozen=True):
    """A limit that the job falls under, and how much of it is used."""

    name: str
    limit: Limit
    use: LimitUse


class Parent(Struct, frozen=True):
    """A job that this one waits for; state None where it is gone."""

    id: bytes
    state: str | None


class Facts(Struct, frozen=True, kw_only=True):
    """A job and what it depends on, as they stood at `now`."""

    now: Micros
    record: JobRecord
    lane: Lane | None = None
    paused: bool = False
    nodes: list[NodeRecord] = []  # not ended; one whose lease has run out is as good as gone
    workers: list[SessionRecord] = []  # of nodes whose lease holds, those that serve its tenant
    holder: SessionRecord | None = None  # the session that has the job
    holder_lives: bool = False
    limits: list[LimitFact] = []
    ahead: int = 0  # jobs of the same lane that come first; MOST_AHEAD means: at least so many
    parents: list[Parent] = []
    failures: list[AttemptFailure] = []


async def gather(store: Store, job: bytes, tenant: str | None = None) -> Facts:
    """Everything `causes` may ask about; `NotFoundError` where there is no such job, or it is not this tenant's (None: any)."""
    (record,) = await store.read_jobs([job])
    if record is None or tenant not in (None, record.tenant):
        raise NotFoundError(f"there is no job {format_id(job)}")
    now = store.clock.now()
    nodes = await store.list_nodes()
    alive = {node.id for node in nodes if node.lease_until >= now}
    sessions = {session.id: session for session in await store.list_sessions()}
    lane = (await store.read_lanes([record.lane])).get(record.lane)
    queues = await store.list_queues()
    holder = sessions.get(await store.find_session(job) or b"")
    return Facts(
        now=now,
        record=record,
        lane=lane,
        paused=any(q.paused for q in queues if (q.tenant, q.name) == (record.tenant, record.queue)),
        nodes=nodes,
        workers=[s for s in sessions.values() if s.node in alive and s.tenant in (None, record.tenant)],
        holder=holder,
        holder_lives=holder is not None and holder.node in alive,
        limits=await _limits(store, record, lane),
        ahead=await _ahead(store, record),
        parents=await _parents(store, job),
        failures=await store.read_failures(job),
    )


async def _limits(store: Store, record: JobRecord, lane: Lane | None) -> list[LimitFact]:
    if lane is None:
        return []
    rules = await store.list_limits()
    lanes = Lanes()
    lanes.configure([], rules)
    lanes.learn({record.lane: lane})
    names = lanes.known[record.lane].limits
    uses = await store.read_limit_uses(names)
    return [LimitFact(name, rules[name], use) for (name, _), use in zip(names, uses, strict=True)]


async def _ahead(store: Store, record: JobRecord) -> int:
    """In every partition and band, because workers serve them as one order."""
    mine, count = (record.rank, record.id), 0
    for partition in range(store.partitions):
        for band in _BANDS:
            (first,) = await store.read_ready([((partition, band, record.lane), None)], MOST_AHEAD)
            count += sum((ready.rank, ready.job) < mine for ready in first)
    return min(count, MOST_AHEAD)


async def _parents(store: Store, job: bytes) -> list[Parent]:
    ids = await store.list_parents(job, MOST_PARENTS)
    records = await store.read_jobs(ids) if ids else []
    return [Parent(id_, record.state if record else None) for id_, record in zip(ids, records, strict=True)]
