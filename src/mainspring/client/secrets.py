"""`faces.Secrets` over HTTP."""

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteSecrets:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.SecretDocument]:
        return await self._asker.get(path("secrets"), list[d.SecretDocument])

    async def set(self, name: str, value: str) -> d.SecretDocument:
        return await self._asker.put(path("secrets", name), d.SecretDocument, d.SecretValue(value=value))

    async def delete(self, name: str) -> None:
        await self._asker.order("DELETE", path("secrets", name))

    async def rotate(self, after: str | None = None) -> d.RotationStep:
        request = d.RotationRequest(after=after)
        return await self._asker.post(path("secrets", "rotate"), d.RotationStep, request, repeatable=True)
