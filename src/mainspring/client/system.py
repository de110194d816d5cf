"""`faces.System` over HTTP."""

from collections.abc import AsyncGenerator
from datetime import datetime

from mainspring.client.asking import Asker, path
from mainspring.client.events import listen
from mainspring.verbs import documents as d


class RemoteSystem:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def version(self) -> d.Version:
        return await self._asker.get(path("version"), d.Version)

    async def statistics(self) -> d.Statistics:
        return await self._asker.get(path("statistics"), d.Statistics)

    async def history(self, since: datetime, until: datetime, step_s: float, kind: str | None = None) -> d.History:
        return await self._asker.get(path("history"), d.History, since=since, until=until, step_s=step_s, kind=kind)

    async def usage(
        self, since: datetime, until: datetime | None = None, by: d.UsageBy = "client,kind"
    ) -> d.UsageReport:
        return await self._asker.get(path("usage"), d.UsageReport, since=since, until=until, by=by)

    async def declare(self, said: d.Declarations) -> list[str]:
        return (await self._asker.post(path("declarations"), dict[str, list[str]], said, repeatable=True))["orphans"]

    def events(
        self, queue: str | None = None, after: str | None = None
    ) -> AsyncGenerator[tuple[str, d.JobEvent | None], None]:
        return listen(self._asker, path("events") if queue is None else path("queues", queue, "events"), after)
