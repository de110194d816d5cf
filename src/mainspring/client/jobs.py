"""`faces.Jobs` over HTTP."""

from collections.abc import AsyncIterator, Sequence

from msgspec.structs import asdict

from mainspring.client import submitting
from mainspring.client.asking import Asker, path
from mainspring.client.events import listen_to_job
from mainspring.client.waiting import RemoteWaiter, ask_for_ends
from mainspring.core.draft import Draft
from mainspring.core.jsontext import encode_object
from mainspring.core.options import check_name
from mainspring.core.options_json import read_options
from mainspring.core.partition import format_id, parse_id
from mainspring.errors import InvalidError
from mainspring.store.contract import Inserted
from mainspring.verbs import documents as d


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
        if which.ids is not None:
            raise InvalidError("ids", "name jobs one by one: read them, or use bulk")
        chosen = {name: value for name, value in asdict(which).items() if value is not None}
        return await self._asker.get(path("jobs"), d.JobsPage, **chosen, after=after, limit=limit)

    async def read(self, job: str) -> d.JobDocument:
        return await self._asker.get(path("jobs", _id(job)), d.JobDocument)

    async def wait(self, job: str) -> d.EndDocument:
        return await self._waiter.wait(_id(job))

    async def wait_any(self, request: d.WaitRequest) -> d.WaitAnswer:
        return await ask_for_ends(self._asker, request)

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

    def events(self, job: str) -> AsyncIterator[d.JobEvent]:
        return listen_to_job(self._asker, path("jobs", _id(job), "events"))


def _id(job: str) -> str:
    """As a server writes it; a text that is no id is refused before anything is sent."""
    return format_id(parse_id(job))
