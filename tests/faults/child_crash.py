"""A life of an application in which every verb of the store is used, under a clock driven by hand; it ends at one step.

What was acknowledged is written down outside, one line each, as soon as the answer is there. `child_lives` forks to live it.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

from msgspec import Struct

from faults import crash, scene, timing
from faults.scene import Jobs, make_jobs
from mainspring import App, Context
from mainspring.store.contract import Change, KindRecord
from mainspring.store.opening import StoreSettings
from mainspring.store.service import KeyRecord, Quota, SealedRow, SecretRecord, TemplateRecord, TenantRecord
from mainspring.testing import ManualNode
from mainspring.verbs.documents import NewSchedule

STARTED = datetime(2030, 1, 1, tzinfo=UTC)  # the life before, of which the store has some old and some cut-off jobs
LIVED = STARTED + timedelta(days=8)  # what ended in the life before is past its retention now
RECOVERED = LIVED + timedelta(minutes=10)

_BEAT_S = 0.02


class Config(Struct):
    store: StoreSettings
    folder: str
    acks: str
    step: str | None = None
    point: str = ""
    nth: int = 1
    seed: bool = False


@contextlib.asynccontextmanager
async def node_at(app: App, now: datetime) -> AsyncIterator[ManualNode]:
    """The public manual node, on a store that outlives it."""
    with patch.dict(timing.worker_defaults(), heartbeat_s=_BEAT_S):
        async with ManualNode(app, now=now, own_store=True) as node:
            yield node


def declare(jobs: Jobs) -> Jobs:
    """What this life declares beside the kinds."""
    app = jobs.app
    app.queue("narrow", concurrency=1)
    app.schedule("* * * * *", name="minutely", arguments={"number": 0}, catch_up="all", overlap="allow")(jobs.quick)

    async def seen_running(ctx: Context) -> None:
        """Outlives a report interval: runs until the store says so."""
        scene.record(ctx)
        while (await app.get(ctx.job_id).status()).state != "running":  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    jobs.seen_running = app.job()(seen_running)  # type: ignore[attr-defined]
    return jobs


class Life:
    """One life; `acks` remembers what was promised."""

    def __init__(self, jobs: Jobs, acks: str) -> None:
        self._jobs = jobs
        self._app = jobs.app
        self._acks = acks

    def acknowledged(self, what: str, *ids: str) -> None:
        for id_ in ids:
            scene.append(self._acks, f"{what} {id_}")

    async def submit(self, *drafts: Any, what: str = "submit") -> list[Any]:
        submitted = await self._app.submit_many(drafts)
        self.acknowledged(what, *(job.id for job in submitted))
        return submitted

    async def before(self, folder: Path) -> None:
        """Some jobs end, two are running when the process ends."""
        async with node_at(self._app, STARTED) as node:
            await self.submit(*(self._jobs.quick.job(n) for n in range(3)))
            await node.tick()
            await self.submit(*(self._jobs.gated.job(str(folder / "over")) for _ in range(2)))
            await node.node.tick()
            while len(Path(os.environ["FAULTS_LOG"]).read_text().splitlines()) < 5:  # noqa: ASYNC110, ASYNC240
                await asyncio.sleep(0.005)
            os._exit(crash.CRASHED)

    async def live(self) -> None:
        jobs = self._jobs
        async with node_at(self._app, LIVED) as node:
            self.acknowledged("started", "node")
            await self.submit(*(jobs.quick.job(n) for n in range(3)), jobs.quick_thread.job(3))
            await self.submit(jobs.quick.options(key="once").job(4))
            (brief,) = await self.submit(jobs.quick.options(result_ttl="1m").job(8))
            await self.submit(jobs.flaky.job(), jobs.seen_running.job())  # type: ignore[attr-defined]
            await self.submit(*(jobs.quick.options(queue="narrow").job(n) for n in range(2)))
            later = await self.submit(*(jobs.quick.options(delay="30s").job(n) for n in range(2)))
            (away,) = await self.submit(jobs.quick.options(delay="5m").job(5), what="away")
            (back,) = await self.submit(jobs.quick.options(delay="5m").job(6), what="back")
            assert await self._app.store.change_jobs([Change(later[0].key, priority=9)]) == ["pending"]
            self.acknowledged("reprioritise", later[0].id)
            assert await away.cancel()
            self.acknowledged("cancel", away.id)
            assert await back.cancel()
            self.acknowledged("cancel", back.id)
            assert await self._app.store.change_jobs([Change(back.key, replay=True)]) == ["pending"]
            self.acknowledged("retry", back.id)
            await node.tick()
            await self._schedule()
            await self._serve()
            await self._seal()
            await node.advance("3m")
            await self._app.store.expire_results([brief.key])  # which the janitor may have done
            self.acknowledged("expire", brief.id)

    async def _schedule(self) -> None:
        yearly = NewSchedule(name="yearly", kind="quick", rule={"cron": "0 0 1 1 *"}, arguments={"number": 0})
        await self._app.schedules.create(yearly)
        self.acknowledged("create", "yearly")
        await self._app.schedules.delete("yearly")
        self.acknowledged("delete", "yearly")

    async def _serve(self) -> None:
        """What a server writes: a guest comes, and goes with all that he has."""
        store = self._app.store
        now = store.clock.now()
        await store.put_tenants([TenantRecord("guest", Quota(running=1), now)])
        self.acknowledged("tenant", "guest")
        await self.submit(self._jobs.quick.options(tenant="guest", delay="5m").job(7), what="guest")
        await store.add_kinds([KindRecord("elsewhere", b"{}")])
        await self._adopt()
        await store.insert_keys([_key("msk1", now)])
        self.acknowledged("key", "msk1")
        await store.revoke_keys(["msk1"])
        self.acknowledged("revoke", "msk1")
        await store.put_templates([_template(version, now) for version in (1, 2)])
        self.acknowledged("template", "report")
        await store.set_template("default", "report", current=1, shared_with=())
        self.acknowledged("rollback", "report")
        await store.delete_template("default", "report")
        self.acknowledged("drop", "report")
        await store.append_audit([("default", b"{}"), ("guest", b"{}")])
        self.acknowledged("audit", "both")
        await store.erase_tenant("guest", 100)
        self.acknowledged("erase", "guest")

    async def _seal(self) -> None:
        store = self._app.store
        assert await store.agree("home", "here") == "here"
        self.acknowledged("agree", "here")
        old = SecretRecord(tenant="default", name="token", key="a", sealed=b"sealed:a", changed_at=0, changed_by="")
        await store.put_secrets([old])
        self.acknowledged("secret", "token")
        assert await store.replace_sealed("secret", [(SealedRow("default/token", b"sealed:a"), b"sealed:b")], "b") == 1
        self.acknowledged("rewrap", "token")
        await store.delete_secrets([("default", "token")])
        self.acknowledged("forget", "token")
        assert await store.seal_tenant("vault", True)
        self.acknowledged("seal", "vault")

    async def _adopt(self) -> None:
        """A remote worker outlives its server and goes on at the next one."""
        store = self._app.store
        for node in (b"first", b"second"):
            await store.insert_node(node, node.decode(), 1.0)
        await store.insert_session(b"remote", b"first", "remote", remote=True)
        await store.end_nodes({b"first": None})
        assert await store.adopt_session(b"remote", b"second") == []
        await store.end_sessions([b"remote"])
        await store.end_nodes({b"second": None})


def _key(id_: str, now: int) -> KeyRecord:
    return KeyRecord(id=id_, digest=b"", name="", role="viewer", tenant="default", created_at=now, created_by="")


def _template(version: int, now: int) -> TemplateRecord:
    return TemplateRecord(
        tenant="default",
        name="report",
        version=version,
        definition=b"{}",
        created_at=now,
        created_by="",
        current=version,
    )


def main(config: Config) -> None:
    if config.step is not None:
        crash.end_at(config.step, config.point, config.nth)
    jobs = make_jobs(config.store)
    if config.seed:
        asyncio.run(Life(jobs, config.acks).before(Path(config.folder)))
    else:
        asyncio.run(Life(declare(jobs), config.acks).live())
