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
        """A request asks one node, so names that look wrong go first: the server says what is wrong before any node was asked."""
        nodes = await self.list()
        asked: dict[str, d.NodeDocument] = {}
        for name in sorted(names, key=lambda name: _is_one(name, nodes)):
            (asked[name],) = await self._asker.post(path("nodes", name, "drain"), list[d.NodeDocument], repeatable=True)
        return list({asked[name].id: asked[name] for name in names}.values())

    async def remove(self, name: str) -> None:
        await self._asker.order("DELETE", path("nodes", name))


def _is_one(name: str, nodes: Sequence[d.NodeDocument]) -> bool:
    found = [node for node in nodes if node.name == name] or [
        node for node in nodes if node.id.startswith(name.lower())
    ]
    return len(found) == 1 and found[0].alive
