"""`faces.Tenants` over HTTP."""

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteTenants:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.TenantDocument]:
        return await self._asker.get(path("tenants"), list[d.TenantDocument])

    async def create(self, new: d.NewTenant) -> d.TenantDocument:
        return await self._asker.post(path("tenants"), d.TenantDocument, new)

    async def set_quota(self, name: str, quota: d.Quota) -> d.TenantDocument:
        return await self._asker.patch(path("tenants", name), d.TenantDocument, quota)

    async def seal(self, name: str, sealed: bool) -> d.TenantDocument:
        request = d.SealedRequest(sealed=sealed)
        return await self._asker.put(path("tenants", name, "sealed"), d.TenantDocument, request)

    async def erase(self, name: str) -> int:
        return (await self._asker.delete(path("tenants", name), dict[str, int]))["jobs"]
