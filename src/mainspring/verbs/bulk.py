"""One thing done to many jobs: cancel, retry or reprioritise what a query finds (see `faces.Jobs.bulk`).

Without a state, only jobs to which it can be done are looked for. What is found is changed in chunks, each job by itself: one
that moved on meanwhile is answered as not done, and stops nobody else.
"""

from collections import defaultdict
from collections.abc import Sequence

from msgspec import Struct, structs

from mainspring.access.audit import Actor
from mainspring.core.job import MAX_PRIORITY, MIN_PRIORITY, JobRecord
from mainspring.core.lifecycle import State
from mainspring.core.options import whole_number
from mainspring.core.partition import format_id
from mainspring.errors import InvalidError
from mainspring.store.contract import UNCHANGED, Change, JobFilter
from mainspring.verbs import documents as d
from mainspring.verbs.engine import Engine
from mainspring.verbs.queries import filter_of, parse_ids

MAX_BULK = 10_000
_CHUNK = 500
_MOST_NAMED = 1000  # in an audit record

_DOABLE = {
    "cancel": (State.BLOCKED, State.PENDING, State.ASSIGNED, State.RUNNING, State.SKIPPED),
    "retry": (State.FAILED, State.CANCELLED),
    "reprioritise": (State.PENDING,),
}
_DONE = {"cancel": (State.CANCELLED, "requested"), "retry": (State.PENDING,), "reprioritise": (State.PENDING,)}


class _Found(Struct):
    """The jobs that a query means. `named`: the ids that it names, also those of no job."""

    records: list[JobRecord]
    named: list[bytes]
    more: bool


class Bulk:
    """One request's work."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._actor = actor

    async def run(self, request: d.BulkRequest) -> d.BulkAnswer:
        _check(request)
        found = await self._find(request)
        answers: dict[bytes, str | None] = dict.fromkeys(found.named)
        if request.dry_run:
            answers |= {record.id: record.state for record in found.records}
            return _answer(answers, (), found)
        for start in range(0, len(found.records), _CHUNK):
            chunk = found.records[start : start + _CHUNK]
            answers |= zip([record.id for record in chunk], await self._do(request, chunk), strict=True)
        done = _DONE[request.action]
        await self._note(request, [record for record in found.records if answers[record.id] in done])
        return _answer(answers, done, found)

    async def _find(self, request: d.BulkRequest) -> _Found:
        which = request.filter
        if which.ids is not None:
            ids = parse_ids(which, request.limit)
            records = await self._store.read_jobs(ids)
            ours = [record for record in records if record and self._tenant in (None, record.tenant)]
            return _Found(ours, ids, more=False)
        wanted = filter_of(which, self._tenant)
        states = _DOABLE[request.action] if wanted.state is None else (wanted.state,)
        found: list[JobRecord] = []
        for state in states:
            found += await self._list(wanted, state, request.limit + 1 - len(found))
        return _Found(found[: request.limit], [], more=len(found) > request.limit)

    async def _list(self, which: JobFilter, state: str, most: int) -> list[JobRecord]:
        found: list[JobRecord] = []
        wanted = structs.replace(which, state=state)
        while len(found) < most:
            last = found[-1] if found else None
            before, ended_at = (last.id, last.finished_at) if last else (None, None)
            page = await self._store.list_jobs(
                wanted, before=before, limit=min(_CHUNK, most - len(found)), ended_at=ended_at
            )
            if not page:
                break
            found += page
        return found

    async def _do(self, request: d.BulkRequest, chunk: Sequence[JobRecord]) -> list[str | None]:
        if request.action == "cancel":
            return await self._store.cancel_jobs([record.id for record in chunk])
        replay = request.action == "retry"
        changes = [Change(record.id, replay=replay, priority=request.priority) for record in chunk]
        return await self._store.change_jobs(changes)

    async def _note(self, request: d.BulkRequest, changed: Sequence[JobRecord]) -> None:
        """One record per tenant."""
        by_tenant = defaultdict(list)
        for record in changed:
            by_tenant[record.tenant].append(format_id(record.id))
        for tenant, ids in by_tenant.items():
            after = {"changed": len(ids), "jobs": ids[:_MOST_NAMED], "priority": request.priority}
            await self._engine.audit.record(tenant, self._actor, "bulk_jobs", request.action, request.filter, after)


def _check(request: d.BulkRequest) -> None:
    whole_number("limit", request.limit, 1, MAX_BULK)
    if request.filter == d.JobQuery():
        raise InvalidError("filter", f"says nothing; there are {', '.join(d.JobQuery.__struct_fields__)}")
    if request.action == "reprioritise":
        whole_number("priority", request.priority, MIN_PRIORITY, MAX_PRIORITY)
    elif request.priority is not None:
        raise InvalidError("priority", f"has no effect on {request.action}: leave it out")


def _answer(answers: dict[bytes, str | None], done: Sequence[str], found: _Found) -> d.BulkAnswer:
    items = [
        d.BulkItem(id=format_id(job), done=answer in done, state=_state(answer)) for job, answer in answers.items()
    ]
    changed = sum(item.done for item in items)
    return d.BulkAnswer(matched=len(found.records), changed=changed, more=found.more, jobs=items)


def _state(answer: str | None) -> str | None:
    return State.PENDING.value if answer == UNCHANGED else answer and str(answer)
