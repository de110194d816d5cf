"""Inserting jobs: large batches by binary COPY, everything else as one statement over arrays."""

from collections.abc import Iterable, Sequence
from itertools import repeat

from msgspec import Struct, json

from mainspring.core.job import NewJobs
from mainspring.core.lane import Lane
from mainspring.core.lifecycle import State
from mainspring.core.partition import partition_of
from mainspring.core.timer import Micros
from mainspring.store.contract import Inserted
from mainspring.store.postgres.database import Tx
from mainspring.store.postgres.errors import LostRaceError
from mainspring.store.rows import rank_for, reusable

COPY_FROM = 100  # jobs: below that, the three round trips of COPY cost more than they save
_HINT_EACH = 64  # a larger batch hints at every partition instead of finding out which

Name = tuple[str, str]  # of a claim: tenant, key

_JOB = ("id", "tenant", "queue", "kind", "state", "priority", "band", "lane", "rank", "due_at", "created_at")
_READY = ("partition", "band", "lane", "rank", "job", "attempt")
_TIMER = ("partition", "due_at", "job", "band", "lane", "rank", "attempt")


class Batch(Struct):
    """Jobs that share a template, as they go into the tables."""

    jobs: NewJobs
    ids: list[bytes]
    arguments: list[bytes]
    options: bytes
    due_at: Micros
    rank: Micros  # of the first; the others follow one by one
    blocked: bool
    partitions: list[int]


async def insert_jobs(tx: Tx, batches: Sequence[NewJobs], lanes: Sequence[Lane]) -> list[list[Inserted]]:
    await put_lanes(tx, lanes)
    taken = await _take_claims(tx, batches)
    fresh = [batch for place, batch in enumerate(batches) if place not in taken]
    await insert_fresh(tx, fresh)
    return [
        [taken[place]] if place in taken else [Inserted(id_) for id_ in batch.ids]
        for place, batch in enumerate(batches)
    ]


async def put_lanes(tx: Tx, lanes: Sequence[Lane]) -> None:
    """Those that are not there yet."""
    if lanes:
        ordered = sorted(lanes, key=Lane.number)
        await tx.fetch("put_lanes", [lane.number() for lane in ordered], [json.encode(lane) for lane in ordered])


async def insert_fresh(tx: Tx, fresh: Sequence[NewJobs]) -> None:
    """Jobs whose names are theirs. Ids that are there already are left alone; that is looked for only where a first try failed."""
    known: set[bytes] = set()
    if tx.tries and fresh:
        known = {row[0] for row in await tx.fetch("known_jobs", [id_ for batch in fresh for id_ in batch.ids])}
    waiting = await _waiting_parents(tx, fresh)
    made: list[Batch] = []
    for jobs in fresh:
        if (batch := _batch(tx, jobs, known, waiting)).ids:
            made.append(batch)
        if tx.tries:
            known.update(jobs.ids)  # the same insert may be in this very group, twice
    if not made:
        return
    if tx.copies and sum(len(batch.ids) for batch in made) >= COPY_FROM:
        await _copy(tx, made)
        await _insert_companions(tx, made, waiting)
    else:
        await _insert_companions(tx, made, waiting)
        await _insert(tx, made)
    for batch in made:
        _hint(tx, batch)


async def _take_claims(tx: Tx, batches: Sequence[NewJobs]) -> dict[int, Inserted]:
    """The answers to batches whose name another job has, by their place."""
    first: dict[Name, NewJobs] = {}
    for batch in batches:
        if batch.claim is not None:
            first.setdefault((batch.template.tenant, batch.claim.key), batch)
    if not first:
        return {}
    won = await tx.fetch("take_claims", *_columns(first), tx.now)
    ours = {(row[0], row[1]) for row in won}
    others = [name for name in sorted(first) if name not in ours]
    holders = {name: (batch.ids[0], batch.claim.digest) for name, batch in first.items() if batch.claim}
    if others:
        rows = await tx.fetch("read_claims", [tenant for tenant, _ in others], [key for _, key in others])
        if len(rows) != len(others):
            raise LostRaceError
        held = {(tenant, key): (job, digest) for tenant, key, job, digest in rows}
        passed = await _pass_claims(
            tx, {name: first[name] for name in others}, {n: job for n, (job, _) in held.items()}
        )
        ours |= passed
        holders.update((name, holder) for name, holder in held.items() if name not in passed)
    answers: dict[int, Inserted] = {}
    for place, batch in enumerate(batches):
        if batch.claim is None:
            continue
        name = (batch.template.tenant, batch.claim.key)
        job, digest = holders[name]
        if job != batch.ids[0]:
            answers[place] = Inserted(job, existed=True, conflict=digest != batch.claim.digest)
        elif name not in ours or first[name] is not batch:
            answers[place] = Inserted(job)  # this very insert came before
    return answers


async def _pass_claims(tx: Tx, wanted: dict[Name, NewJobs], held: dict[Name, bytes]) -> set[Name]:
    """Names whose job cannot be reused become those of the batches that would have."""
    reusing = {n: b for n, b in wanted.items() if b.claim is not None and b.claim.reuse and held[n] != b.ids[0]}
    if not reusing:
        return set()
    rows = await tx.fetch("read_holders", [held[name] for name in reusing])
    fine = {job for job, state, finished_at, options in rows if reusable(state, finished_at, options, tx.now)}
    passed = {name: batch for name, batch in reusing.items() if held[name] not in fine}
    if passed:
        await tx.fetch("pass_claims", *_columns(passed))
    return set(passed)


def _columns(claims: dict[Name, NewJobs]) -> tuple[list[object], ...]:
    """Claims as arrays, in the order of their names: the one order in which they are locked."""
    rows = [
        (*name, batch.ids[0], batch.claim.digest, batch.claim.expires_at)
        for name, batch in sorted(claims.items(), key=lambda item: item[0])
        if batch.claim
    ]
    return tuple(map(list, zip(*rows, strict=True)))


async def _waiting_parents(tx: Tx, batches: Iterable[NewJobs]) -> set[bytes]:
    """Of the jobs that these shall wait for, those that have not ended."""
    new = {id_ for batch in batches for id_ in batch.ids}
    parents = sorted({parent for batch in batches for parent in batch.after} - new)
    return new | {row[0] for row in await tx.fetch("waiting_parents", parents)} if parents else new


def _batch(tx: Tx, jobs: NewJobs, known: set[bytes], waiting: set[bytes]) -> Batch:
    t = jobs.template
    due_at = tx.now if t.due_at is None else t.due_at
    ids, arguments = jobs.ids, jobs.arguments
    if known:
        left = [(id_, given) for id_, given in zip(ids, arguments, strict=True) if id_ not in known]
        ids, arguments = [id_ for id_, _ in left], [given for _, given in left]
    return Batch(
        jobs,
        ids,
        arguments,
        json.encode(t.options),
        due_at,
        rank_for(due_at, t.priority, t.options) + jobs.first,
        any(parent in waiting for parent in jobs.after),
        [partition_of(id_, tx.partitions) for id_ in ids],
    )


async def _copy(tx: Tx, batches: list[Batch]) -> None:
    await tx.begin()
    jobs: list[tuple[object, ...]] = []
    specs: list[tuple[object, ...]] = []
    ready: list[tuple[object, ...]] = []
    timers: list[tuple[object, ...]] = []
    for b in batches:
        t, ranks = b.jobs.template, range(b.rank, b.rank + len(b.ids))
        state = State.BLOCKED.value if b.blocked else State.PENDING.value
        of = repeat
        columns = (of(t.tenant), of(t.queue), of(t.kind), of(state), of(t.priority), of(t.band), of(t.lane))
        jobs += zip(b.ids, *columns, ranks, of(b.due_at), of(tx.now), strict=False)
        specs += zip(b.ids, b.arguments, of(b.options), strict=False)
        if b.blocked:
            continue
        if b.due_at > tx.now:
            timers += zip(b.partitions, of(b.due_at), b.ids, of(t.band), of(t.lane), ranks, of(0), strict=False)
        else:
            ready += zip(b.partitions, of(t.band), of(t.lane), ranks, b.ids, of(0), strict=False)
    for table, columns_, records in (
        ("job", _JOB, jobs),
        ("spec", ("job", "arguments", "options"), specs),
        ("ready", _READY, ready),
        ("timer", _TIMER, timers),
    ):
        if records:
            await tx.connection.copy_records_to_table(table, schema_name=tx.q.schema, columns=columns_, records=records)


async def _insert(tx: Tx, batches: list[Batch]) -> None:
    rows = [
        (id_, given, b.options, t.tenant, t.queue, t.kind, state, t.priority, t.band, t.lane, rank, b.due_at, partition)
        for b in batches
        for t in (b.jobs.template,)
        for state in (State.BLOCKED.value if b.blocked else State.PENDING.value,)
        for id_, given, rank, partition in zip(
            b.ids, b.arguments, range(b.rank, b.rank + len(b.ids)), b.partitions, strict=True
        )
    ]
    await tx.fetch_last("insert_jobs", *map(list, zip(*rows, strict=True)), tx.now)


async def _insert_companions(tx: Tx, batches: list[Batch], waiting: set[bytes]) -> None:
    expiries = [
        (partition, b.jobs.template.options.start_by, id_)
        for b in batches
        if b.jobs.template.options.start_by is not None
        for partition, id_ in zip(b.partitions, b.ids, strict=True)
    ]
    if expiries:
        await tx.fetch("insert_expiry", *map(list, zip(*expiries, strict=True)))
    edges = [
        (parent, id_) for b in batches if b.blocked for parent in b.jobs.after if parent in waiting for id_ in b.ids
    ]
    if edges:
        await tx.fetch("insert_edges", *map(list, zip(*edges, strict=True)))


def _hint(tx: Tx, b: Batch) -> None:
    t = b.jobs.template
    if t.options.start_by is not None:
        tx.due(t.options.start_by)
    if b.blocked:
        return
    if b.due_at > tx.now:
        tx.due(b.due_at)
        return
    for partition in range(tx.partitions) if len(b.ids) > _HINT_EACH else b.partitions:
        tx.ready(partition, t.band, t.lane, b.rank)
