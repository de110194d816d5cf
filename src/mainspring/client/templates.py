"""`faces.Templates` over HTTP."""

from collections.abc import Sequence
from typing import Any

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteTemplates:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.TemplateDocument]:
        return await self._asker.get(path("templates"), list[d.TemplateDocument])

    async def read(self, name: str, version: int | None = None, owner: str | None = None) -> d.TemplateDocument:
        return await self._asker.get(path("templates", name), d.TemplateDocument, version=version, owner=owner)

    async def versions(self, name: str) -> Sequence[d.TemplateDocument]:
        return await self._asker.get(path("templates", name, "versions"), list[d.TemplateDocument])

    async def put(self, name: str, definition: d.TemplateDefinition) -> d.TemplateDocument:
        return await self._asker.put(path("templates", name), d.TemplateDocument, definition)

    async def rollback(self, name: str, version: int) -> d.TemplateDocument:
        wanted = {"version": version}
        return await self._asker.post(path("templates", name, "rollback"), d.TemplateDocument, wanted, repeatable=True)

    async def share(self, name: str, tenants: Sequence[str]) -> d.TemplateDocument:
        wanted = {"tenants": list(tenants)}
        return await self._asker.post(path("templates", name, "share"), d.TemplateDocument, wanted, repeatable=True)

    async def delete(self, name: str) -> None:
        await self._asker.order("DELETE", path("templates", name))

    async def validate(self, definition: d.TemplateDefinition, values: dict[str, Any] | None = None) -> None:
        document = {"definition": definition, "values": values}
        await self._asker.order("POST", path("templates", "validate"), document, repeatable=True)

    async def submit(self, name: str, request: d.TemplateSubmit) -> d.Submitted:
        repeatable = request.options.get("key") is not None
        return await self._asker.post(path("templates", name, "submit"), d.Submitted, request, repeatable=repeatable)

    async def export(self) -> d.TemplateBundle:
        return await self._asker.get(path("templates", "export"), d.TemplateBundle)

    async def load(self, bundle: d.TemplateBundle) -> Sequence[d.TemplateDocument]:
        return await self._asker.post(path("templates", "import"), list[d.TemplateDocument], bundle, repeatable=True)
