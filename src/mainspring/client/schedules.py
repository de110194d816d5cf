"""`faces.Schedules` over HTTP."""

from collections.abc import Sequence
from datetime import datetime

from mainspring.client.asking import Asker, path
from mainspring.core.options import check_name
from mainspring.errors import InvalidError
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

    async def trigger(self, name: str, key: str | None = None) -> d.Submitted:
        address = path("schedules", name, "trigger")
        if key is None:
            return await self._asker.post(address, d.Submitted)
        if check_name("key", key) != key.strip():
            raise InvalidError("key", "begins or ends with a space, which cannot be sent to a server")
        return await self._asker.post(address, d.Submitted, headers={"Idempotency-Key": key}, repeatable=True)

    async def backfill(self, name: str, first: datetime, last: datetime) -> int:
        request = d.BackfillRequest(first=first, last=last)
        return (await self._asker.post(path("schedules", name, "backfill"), dict[str, int], request))["jobs"]

    async def missed(self, name: str, limit: int = 100) -> Sequence[d.MissedDocument]:
        return await self._asker.get(path("schedules", name, "missed"), list[d.MissedDocument], limit=limit)
