"""`faces.Schedules` over HTTP."""

from collections.abc import Sequence
from datetime import datetime

from mainspring.client.asking import Asker, path
from mainspring.verbs import documents as d


class RemoteSchedules:
    def __init__(self, asker: Asker) -> None:
        self._asker = asker

    async def list(self) -> list[d.ScheduleDocument]:
        return await self._asker.get(path("schedules"), list[d.ScheduleDocument])

    async def read(self, name: str) -> d.ScheduleDocument:
        return await self._asker.get(path("schedules", name), d.ScheduleDocument)

    async def create(self, new: d.NewSchedule) -> d.ScheduleDocument:
        return await self._asker.post(path("schedules"), d.ScheduleDocument, new)

    async def delete(self, name: str) -> None:
        await self._asker.order("DELETE", path("schedules", name))

    async def next(self, name: str, count: int = 10) -> Sequence[datetime]:
        return await self._asker.get(path("schedules", name, "next"), list[datetime], count=count)

    async def pause(self, name: str) -> None:
        await self._asker.order("POST", path("schedules", name, "pause"), repeatable=True)

    async def resume(self, name: str) -> None:
        await self._asker.order("POST", path("schedules", name, "resume"), repeatable=True)

    async def trigger(self, name: str) -> str:
        return (await self._asker.post(path("schedules", name, "trigger"), d.Submitted)).id

    async def backfill(self, name: str, first: datetime, last: datetime) -> int:
        request = d.BackfillRequest(first=first, last=last)
        return (await self._asker.post(path("schedules", name, "backfill"), dict[str, int], request))["jobs"]

    async def missed(self, name: str, limit: int = 100) -> Sequence[d.MissedDocument]:
        return await self._asker.get(path("schedules", name, "missed"), list[d.MissedDocument], limit=limit)
