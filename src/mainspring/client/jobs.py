"""`faces.Jobs` over HTTP."""

import asyncio
from collections.abc import AsyncGenerator, Sequence

from msgspec.structs import asdict

from mainspring.client import submitting
from mainspring.client.asking import Asker, download, path
from mainspring.client.events import listen_to_job, listen_to_pieces
from mainspring.client.waiting import RemoteWaiter, ask_for_ends
from mainspring.core.draft import Draft
from mainspring.core.jsontext import encode_object
from mainspring.core.options import check_name, whole_number
from mainspring.core.options_json import read_options
from mainspring.core.partition import format_id, parse_id
from mainspring.errors import InvalidError, NotFoundError
from mainspring.store.contract import Inserted
from mainspring.verbs import documents as d
from mainspring.verbs.queries import filter_of, parse_ids

MAX_PAGE = 1000


class RemoteJobs:
    def __init__(self, asker: Asker, waiter: RemoteWaiter) -> None:
        self._asker = asker
        self._waiter = waiter

    async def submit(self, drafts: Sequence[Draft]) -> list[Inserted]:
        return await submitting.submit(self._asker.transport, drafts, self._asker.tenant)

    async def draft(self, request: d.SubmitRequest) -> Draft:
        """The server knows the kinds: it adds their defaults, or refuses the job, when it is submitted."""
        arguments = encode_object("arguments", request.arguments)
        return Draft(check_name("kind", request.kind), arguments, read_options(request.options))

    async def list(self, which: d.JobQuery, *, after: str | None = None, limit: int = 100) -> d.JobsPage:
        whole_number("limit", limit, 1, MAX_PAGE)
        if which.ids is not None:
            return await self._named(which, after)
        filter_of(which, None)  # refused here in the words that a store has for it
        chosen = {name: value for name, value in asdict(which).items() if value is not None}
        return await self._asker.get(path("jobs"), d.JobsPage, **chosen, after=after, limit=limit)

    async def _named(self, which: d.JobQuery, after: str | None) -> d.JobsPage:
        """A server lists what a filter finds; those that are named are read one by one."""
        if after is not None:
            raise InvalidError("after", "has no effect together with ids: all of them are on one page")
        ids = [format_id(job) for job in parse_ids(which, MAX_PAGE)]
        found = await asyncio.gather(*(self.read(job) for job in ids), return_exceptions=True)
        for error in found:
            if isinstance(error, BaseException) and not isinstance(error, NotFoundError):
                raise error
        return d.JobsPage(jobs=[_summary(job) for job in found if isinstance(job, d.JobDocument)], next=None)

    async def read(self, job: str) -> d.JobDocument:
        return await self._asker.get(path("jobs", _id(job)), d.JobDocument)

    async def wait(self, job: str) -> d.EndDocument:
        return await self._waiter.wait(_id(job))

    async def wait_any(self, request: d.WaitRequest) -> d.WaitAnswer:
        return await ask_for_ends(self._asker, request)

    def result(self, job: str) -> AsyncGenerator[bytes, None]:
        return download(self._asker, path("jobs", _id(job), "result"))

    async def outputs(self, job: str) -> Sequence[d.OutputDocument]:
        return await self._asker.get(path("jobs", _id(job), "outputs"), list[d.OutputDocument])

    def output(self, job: str, name: str) -> AsyncGenerator[bytes, None]:
        return download(self._asker, path("jobs", _id(job), "outputs", name))

    async def explain(self, job: str) -> d.Explanation:
        return await self._asker.get(path("jobs", _id(job), "explain"), d.Explanation)

    async def update(self, job: str, change: d.JobChange) -> d.JobDocument:
        return await self._asker.patch(path("jobs", _id(job)), d.JobDocument, change)

    async def cancel(self, job: str) -> str:
        return (await self._asker.post(path("jobs", _id(job), "cancel"), dict[str, str]))["state"]

    async def retry(self, job: str, change: d.JobChange) -> d.JobDocument:
        return await self._asker.post(path("jobs", _id(job), "retry"), d.JobDocument, change)

    async def clone(self, job: str, variations: Sequence[d.Variation]) -> Sequence[d.Submitted]:
        request = d.CloneRequest(variations=list(variations))
        return await self._asker.post(path("jobs", _id(job), "clone"), list[d.Submitted], request)

    async def bulk(self, request: d.BulkRequest) -> d.BulkAnswer:
        return await self._asker.post(path("jobs", "bulk"), d.BulkAnswer, request, repeatable=request.dry_run)

    def events(self, job: str) -> AsyncGenerator[d.JobEvent, None]:
        return listen_to_job(self._asker, path("jobs", _id(job), "events"))

    def logs(
        self, job: str, *, attempt: int | None = None, after: str | None = None, follow: bool = False
    ) -> AsyncGenerator[d.LogPart, None]:
        place = path("jobs", _id(job), "logs")
        return listen_to_pieces(self._asker, place, d.LogPart, after=after, attempt=attempt, follow=follow)

    def partial(
        self, job: str, *, after: str | None = None, follow: bool = False
    ) -> AsyncGenerator[d.PartialResult, None]:
        place = path("jobs", _id(job), "partial")
        return listen_to_pieces(self._asker, place, d.PartialResult, after=after, follow=follow)


def _summary(job: d.JobDocument) -> d.JobSummary:
    return d.JobSummary(**{name: getattr(job, name) for name in d.JobSummary.__struct_fields__})


def _id(job: str) -> str:
    """As a server writes it; a text that is no id is refused before anything is sent."""
    return format_id(parse_id(job))
