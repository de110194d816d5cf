"""`faces.Queues` over HTTP."""

from mainspring.client.asking import Asker, path
from mainspring.core.options import check_name
from mainspring.verbs import documents as d


class RemoteQueues:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.QueueDocument]:
        return await self._asker.get(path("queues"), list[d.QueueDocument])

    async def read(self, name: str) -> d.QueueDocument:
        return await self._asker.get(path("queues", check_name("queue", name)), d.QueueDocument)

    async def pause(self, name: str) -> None:
        await self._asker.order("POST", path("queues", check_name("queue", name), "pause"), repeatable=True)

    async def resume(self, name: str) -> None:
        await self._asker.order("POST", path("queues", check_name("queue", name), "resume"), repeatable=True)
