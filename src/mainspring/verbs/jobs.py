"""Jobs over a store (see `faces.Jobs`)."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from msgspec import json, structs

from mainspring.access.audit import Actor
from mainspring.core.draft import Draft
from mainspring.core.job import JobRecord
from mainspring.core.jsontext import check_object, encode_object
from mainspring.core.lifecycle import LIVE, State
from mainspring.core.options import merged, whole_number
from mainspring.core.options_json import read_options
from mainspring.core.partition import format_id, parse_id
from mainspring.errors import ConflictError, InvalidError, MainspringError, NotFoundError, SecretsError
from mainspring.execute.types.catalogue import checked
from mainspring.secrets.envelope import is_sealed
from mainspring.store.contract import Change, Ended, Inserted
from mainspring.submit import without_conflicts
from mainspring.verbs import documents as d
from mainspring.verbs.bulk import Bulk
from mainspring.verbs.changes import change_of, options_like, said_in, shown_before
from mainspring.verbs.cursors import make_cursor, read_cursor
from mainspring.verbs.drafts import for_tenant
from mainspring.verbs.engine import Engine
from mainspring.verbs.explaining import causes
from mainspring.verbs.facts import gather
from mainspring.verbs.logs import check_after, read_logs, read_partial
from mainspring.verbs.queries import filter_of, parse_ids
from mainspring.verbs.results import find_output, outputs_of, read_output, read_result
from mainspring.verbs.shown import document_of, end_of, summary_of

MAX_PAGE = 1000
MAX_WAITED = 1000
MAX_CLONES = 1000
MAX_WAIT_S = 3600.0
MAX_ATTEMPT = 2**31 - 1
_UNSHOWN = {"arguments": "sealed"}  # in the audit of what nobody may read in the store


class LocalJobs:
    """The jobs of one tenant, or of all of them."""

    def __init__(self, engine: Engine, tenant: str | None, actor: Actor) -> None:
        self._engine = engine
        self._store = engine.store
        self._tenant = tenant
        self._actor = actor

    async def submit(self, drafts: Sequence[Draft]) -> Sequence[Inserted]:
        if self._tenant is not None:
            drafts = _of_tenant(drafts, self._tenant)
        return await self._engine.submitter.insert(drafts)

    async def draft(self, request: d.SubmitRequest) -> Draft:
        return await self._engine.drafts.make(request, self._tenant)

    async def drafts(self, requests: Sequence[d.RawSubmit]) -> Sequence[Draft | MainspringError]:
        """As `draft` for a batch: one answer per request, the draft or what is wrong with it."""
        return await self._engine.drafts.make_many(requests, self._tenant)

    async def list(self, which: d.JobQuery, *, after: str | None = None, limit: int = 100) -> d.JobsPage:
        whole_number("limit", limit, 1, MAX_PAGE)
        if which.ids is not None:
            return await self._named(which, after)
        wanted = filter_of(which, self._tenant)
        before, ended_at = (None, None) if after is None else read_cursor(which, after)
        found = await self._store.list_jobs(wanted, before=before, limit=limit + 1, ended_at=ended_at)
        last = found[limit - 1] if len(found) > limit else None
        following = None if last is None else make_cursor(which, last.id, last.finished_at)
        return d.JobsPage(jobs=[summary_of(record) for record in found[:limit]], next=following)

    async def _named(self, which: d.JobQuery, after: str | None) -> d.JobsPage:
        if after is not None:
            raise InvalidError("after", "has no effect together with ids: all of them are on one page")
        ids = parse_ids(which, MAX_PAGE)
        records = await self._store.read_jobs(ids)
        return d.JobsPage(jobs=[summary_of(r) for r in records if r is not None and self._is_ours(r)], next=None)

    async def read(self, job: str) -> d.JobDocument:
        record = self._opened(await self._record(parse_id(job)))
        (ended,) = await self._store.read_ended([record.id])
        failures = await self._store.read_failures(record.id)
        (progress,) = await self._store.read_progress([record.id]) if record.state in LIVE else [None]
        opened = ended and self._opened_end(record.id, ended)
        return document_of(record, opened, failures, progress, self._store.clock.now())

    async def wait(self, job: str) -> d.EndDocument:
        key = parse_id(job)
        return self._end(key, await self._engine.waiter.wait(key, self._tenant))

    async def wait_any(self, request: d.WaitRequest) -> d.WaitAnswer:
        if not 1 <= len(request.ids) <= MAX_WAITED:
            raise InvalidError("ids", f"has {len(request.ids)} entries; 1 to {MAX_WAITED} are allowed")
        if not 0 <= request.timeout_s <= MAX_WAIT_S:
            raise InvalidError("timeout_s", f"expected seconds from 0 to {MAX_WAIT_S:g}, got {request.timeout_s!r}")
        keys = list(dict.fromkeys(parse_id(text) for text in request.ids))
        try:
            async with asyncio.timeout(request.timeout_s):
                ended, unknown = await self._engine.waiter.wait_any(keys, self._tenant)
        except TimeoutError:
            return d.WaitAnswer(ended=[])
        return self._ends(ended, unknown)

    async def result(self, job: str) -> AsyncGenerator[bytes, None]:
        record, ended = await self._record_and_end(job)
        async with aclosing(read_result(self._engine.sealed, record, ended, self._store.clock.now())) as pieces:
            async for piece in pieces:
                yield piece

    async def outputs(self, job: str) -> Sequence[d.OutputDocument]:
        _, ended = await self._record_and_end(job)
        return [] if ended is None else outputs_of(ended, self._store.clock.now())

    async def output(self, job: str, name: str) -> AsyncGenerator[bytes, None]:
        record, ended = await self._record_and_end(job)
        outputs = [] if ended is None else outputs_of(ended, self._store.clock.now())
        find_output(outputs, job, name)
        async with aclosing(read_output(self._engine.sealed, record, name)) as pieces:
            async for piece in pieces:
                yield piece

    async def _record_and_end(self, job: str) -> tuple[JobRecord, Ended | None]:
        record = await self._record(parse_id(job))
        (ended,) = await self._store.read_ended([record.id])
        return record, ended and self._opened_end(record.id, ended)

    async def explain(self, job: str) -> d.Explanation:
        facts = await gather(self._store, parse_id(job), self._tenant)
        found = [d.CauseDocument(code=cause.code, text=cause.text) for cause in causes(facts)]
        record = facts.record
        return d.Explanation(id=format_id(record.id), kind=record.kind, state=record.state, causes=found)

    async def update(self, job: str, change: d.JobChange) -> d.JobDocument:
        return await self._change("update_job", job, change, replay=False)

    async def retry(self, job: str, change: d.JobChange) -> d.JobDocument:
        return await self._change("retry_job", job, change, replay=True)

    async def cancel(self, job: str) -> str:
        record = await self._record(parse_id(job))
        (answer,) = await self._store.cancel_jobs([record.id])
        if answer is None:
            raise _no_job(record.id)
        if answer != "ended":
            await self._note("cancel_job", record, {"state": record.state}, {"state": answer})
        return answer

    async def clone(self, job: str, variations: Sequence[d.Variation]) -> Sequence[d.Submitted]:
        if not 1 <= len(variations) <= MAX_CLONES:
            raise InvalidError("variations", f"has {len(variations)} entries; 1 to {MAX_CLONES} are allowed")
        record = self._opened(await self._record(parse_id(job)))
        drafts = [_clone(record, variation) for variation in variations]
        made = without_conflicts(drafts, await self._engine.submitter.insert(drafts))
        answers = [d.Submitted(id=format_id(one.id), existed=one.existed) for one in made]
        await self._note("clone_job", record, None, {"jobs": [one.id for one in answers]})
        return answers

    async def bulk(self, request: d.BulkRequest) -> d.BulkAnswer:
        return await Bulk(self._engine, self._tenant, self._actor).run(request)

    def events(self, job: str) -> AsyncGenerator[d.JobEvent, None]:
        return self._engine.watch.follow(parse_id(job), self._tenant)

    async def logs(
        self, job: str, *, attempt: int | None = None, after: str | None = None, follow: bool = False
    ) -> AsyncGenerator[d.LogPart, None]:
        async with aclosing(await self.open_logs(job, attempt=attempt, after=after, follow=follow)) as batches:
            async for parts in batches:
                for part in parts:
                    yield part

    async def partial(
        self, job: str, *, after: str | None = None, follow: bool = False
    ) -> AsyncGenerator[d.PartialResult, None]:
        async with aclosing(await self.open_partial(job, after=after, follow=follow)) as values:
            async for value in values:
                if value is not None:
                    yield value

    async def open_logs(
        self, job: str, *, attempt: int | None, after: str | None, follow: bool
    ) -> AsyncGenerator[Sequence[d.LogPart], None]:
        """As `logs`, in batches, of which the first comes without waiting for the job; it may be empty."""
        if attempt is not None:
            whole_number("attempt", attempt, 1, MAX_ATTEMPT)
        check_after(after, 3)
        return read_logs(self._engine.pieces, await self._record(parse_id(job)), attempt, after, follow)

    async def open_partial(
        self, job: str, *, after: str | None, follow: bool
    ) -> AsyncGenerator[d.PartialResult | None, None]:
        check_after(after, 2)
        return read_partial(self._engine.pieces, await self._record(parse_id(job)), after, follow)

    async def _change(self, action: str, job: str, wanted: d.JobChange, *, replay: bool) -> d.JobDocument:
        record = await self._record(parse_id(job))
        change = await self._sealed(record, change_of(record, wanted, self._store.clock.now(), replay=replay))
        (answer,) = await self._store.change_jobs([change])
        if answer is None:
            raise _no_job(record.id)
        if answer != State.PENDING:
            raise ConflictError(_refusal(record.id, answer, replay=replay))
        said = said_in(wanted)
        before, after = shown_before(record, said), {"state": answer} | said
        if "arguments" in said and (is_sealed(record.arguments) or is_sealed(change.arguments or b"")):
            before, after = before | _UNSHOWN, after | _UNSHOWN
        await self._note(action, record, before, after)
        return await self.read(job)

    async def _record(self, job: bytes) -> JobRecord:
        (record,) = await self._store.read_jobs([job])
        if record is None or not self._is_ours(record):
            raise _no_job(job)
        return record

    async def _sealed(self, record: JobRecord, change: Change) -> Change:
        """As it is stored."""
        if change.arguments is None:
            return change
        await self._engine.sealing.look()
        arguments = self._engine.sealing.seal(record.tenant, record.id, "arguments", change.arguments)
        return structs.replace(change, arguments=arguments)

    def _opened(self, record: JobRecord) -> JobRecord:
        """With its arguments as they were given."""
        if not is_sealed(record.arguments):
            return record
        arguments = self._engine.sealing.open(record.tenant, record.id, "arguments", record.arguments)
        return structs.replace(record, arguments=arguments)

    def _ends(self, ended: Mapping[bytes, Ended], unknown: Sequence[bytes]) -> d.WaitAnswer:
        """One that cannot be opened is nobody else's trouble."""
        found, unreadable = [], {}
        for job, end in ended.items():
            try:
                found.append(self._end(job, end))
            except SecretsError as error:
                unreadable[format_id(job)] = str(error)
        return d.WaitAnswer(ended=found, unknown=[format_id(job) for job in unknown], unreadable=unreadable)

    def _end(self, job: bytes, ended: Ended) -> d.EndDocument:
        return end_of(job, self._opened_end(job, ended), self._store.clock.now())

    def _opened_end(self, job: bytes, ended: Ended) -> Ended:
        """With its result as it was returned."""
        if ended.result is None or not is_sealed(ended.result):
            return ended
        return structs.replace(ended, result=self._engine.sealing.open(ended.tenant, job, "result", ended.result))

    def _is_ours(self, record: JobRecord) -> bool:
        return self._tenant in (None, record.tenant)

    async def _note(self, action: str, record: JobRecord, before: object, after: object) -> None:
        await self._engine.audit.record(record.tenant, self._actor, action, format_id(record.id), before, after)


def _of_tenant(drafts: Sequence[Draft], tenant: str) -> Sequence[Draft]:
    """The same for this tenant; those that share their options still do."""
    said = {id(draft.options): draft.options for draft in drafts}
    meant = {place: for_tenant(options, tenant) for place, options in said.items()}
    if all(meant[place] is options for place, options in said.items()):
        return drafts
    return [Draft(draft.kind, draft.arguments, meant[id(draft.options)]) for draft in drafts]


def _clone(record: JobRecord, variation: d.Variation) -> Draft:
    values: dict[str, Any] = json.decode(record.arguments)
    check_object("options", variation.options)
    options = merged(options_like(record), for_tenant(read_options(variation.options), record.tenant))
    arguments = checked(record.kind, encode_object("arguments", values | variation.arguments))
    return Draft(record.kind, arguments, options)


def _refusal(job: bytes, answer: str, *, replay: bool) -> str:
    if replay:
        return f"job {format_id(job)} is {answer}: only failed and cancelled jobs can be run again"
    return f"job {format_id(job)} is {answer}: only pending jobs can be changed"


def _no_job(job: bytes) -> NotFoundError:
    return NotFoundError(f"there is no job {format_id(job)}")
