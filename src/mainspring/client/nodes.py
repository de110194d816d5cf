"""`faces.Nodes` over HTTP."""

from collections.abc import Sequence

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteNodes:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.NodeDocument]:
        return await self._asker.get(path("nodes"), list[d.NodeDocument])

    async def drain(self, names: Sequence[str]) -> Sequence[d.NodeDocument]:
        """One request for each, after all of the names have been found."""
        raise NotImplementedError

    async def remove(self, name: str) -> None:
        await self._asker.order("DELETE", path("nodes", name))
