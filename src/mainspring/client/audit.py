"""`faces.Audit` over HTTP."""

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteAudit:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self, *, after: int = 0, limit: int = 100) -> list[d.AuditDocument]:
        return await self._asker.get(path("audit"), list[d.AuditDocument], after=after, limit=limit)

    async def verify(self) -> d.Verification:
        return await self._asker.get(path("audit", "verify"), d.Verification)
