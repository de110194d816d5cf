"""`faces.Queues` over HTTP."""

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteQueues:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.QueueDocument]:
        return await self._asker.get(path("queues"), list[d.QueueDocument])

    async def read(self, name: str) -> d.QueueDocument:
        return await self._asker.get(path("queues", name), d.QueueDocument)

    async def pause(self, name: str) -> None:
        await self._asker.order("POST", path("queues", name, "pause"), repeatable=True)

    async def resume(self, name: str) -> None:
        await self._asker.order("POST", path("queues", name, "resume"), repeatable=True)
