"""`faces.Workers` over HTTP: executing processes as operators see them. How they themselves speak is in `client.link`."""

from mainspring.client.asking import Asker, path
from mainspring.core.partition import format_id
from mainspring.verbs import documents as d
from mainspring.verbs.workers import parse_worker


class RemoteWorkers:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.WorkerDocument]:
        return await self._asker.get(path("workers"), list[d.WorkerDocument])

    async def drain(self, worker: str) -> None:
        await self._asker.order("POST", path("workers", _id(worker), "drain"), repeatable=True)

    async def remove(self, worker: str) -> None:
        await self._asker.order("DELETE", path("workers", _id(worker)))


def _id(worker: str) -> str:
    return format_id(parse_worker(worker))
