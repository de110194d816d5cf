"""`faces.Keys` over HTTP."""

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteKeys:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.KeyDocument]:
        return await self._asker.get(path("keys"), list[d.KeyDocument])

    async def create(self, new: d.NewKey) -> d.KeyDocument:
        return await self._asker.post(path("keys"), d.KeyDocument, new)

    async def revoke(self, key: str) -> None:
        await self._asker.order("DELETE", path("keys", key))

    async def join_token(self, name: str, expires_in: str | float = "1h") -> d.KeyDocument:
        document = {"name": name, "expires_in": expires_in}
        return await self._asker.post(path("join-tokens"), d.KeyDocument, document)
