"""Everything beside jobs, wherever the verbs are spoken."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import json

from contract.scene import START
from mainspring.client.transport import Transport
from mainspring.client.verbs import Remote
from mainspring.core.schedule import Rule
from mainspring.core.template import Placeholder
from mainspring.core.timer import from_micros
from mainspring.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from mainspring.verbs import documents as d
from service.places import Place

NOW = from_micros(START)
NEW = d.NewSchedule(
    name="daily/report", kind="send", rule={"cron": "0 9 * * *", "overlap": "allow"}, arguments={"to": "x"}
)
WELCOME = d.TemplateDefinition(
    kind="send", arguments={"to": {"$": "to"}}, placeholders={"to": Placeholder(description="whom")}
)


async def refused(error: type[Exception], match: str, *calls: Coroutine[Any, Any, Any]) -> None:
    for answer in await asyncio.gather(*calls, return_exceptions=True):
        with pytest.raises(error, match=match):
            raise answer if isinstance(answer, BaseException) else AssertionError(f"was not refused: {answer!r}")


async def test_a_schedule_from_beginning_to_end(place: Place) -> None:
    schedules = place.verbs().schedules
    made = await schedules.create(NEW)
    assert (made.name, made.kind, made.rule) == ("daily/report", "send", Rule(cron="0 9 * * *", overlap="allow"))
    assert (json.decode(made.arguments), made.origin, made.runs) == ({"to": "x"}, "user", 0)
    assert await schedules.read("daily/report") == made
    assert list(await schedules.list()) == [made]
    times = await schedules.next("daily/report", 3)
    assert [(time.hour, time.minute) for time in times] == [(9, 0)] * 3
    assert times[0] > NOW
    await schedules.pause("daily/report")
    assert ((await schedules.read("daily/report")).paused, (await schedules.list())[0].next_at) == (True, None)
    await schedules.resume("daily/report")
    job = await place.verbs().jobs.read((await schedules.trigger("daily/report")).id)
    assert (job.schedule, job.queue) == ("default/daily/report", "mail")
    assert await schedules.backfill("daily/report", NOW - timedelta(days=3), NOW - timedelta(hours=1)) == 3
    assert list(await schedules.missed("daily/report")) == []
    await schedules.delete("daily/report")
    assert list(await schedules.list()) == []


async def test_what_schedules_refuse(place: Place) -> None:
    schedules = place.verbs().schedules
    await schedules.create(NEW)
    later = NOW + timedelta(days=1)
    await refused(ConflictError, "exists already", schedules.create(NEW))
    await refused(NotFoundError, "'x'; there are daily/report", schedules.read("x"), schedules.pause("x"))
    await refused(NotFoundError, "'x'", schedules.delete("x"), schedules.trigger("x"), schedules.next("x"))
    await refused(
        InvalidError, "^expression", schedules.create(d.NewSchedule(name="y", kind="send", rule={"cron": "x"}))
    )
    await refused(InvalidError, "^count", schedules.next("daily/report", 0), schedules.next("daily/report", 5000))
    await refused(InvalidError, "^last", schedules.backfill("daily/report", NOW, later))
    await refused(NotFoundError, "'daily/report'", place.verbs("acme").schedules.read("daily/report"))


async def test_a_template_from_beginning_to_end(place: Place) -> None:
    templates = place.verbs().templates
    await templates.validate(WELCOME, {"to": "a"})
    first = await templates.put("welcome", WELCOME)
    assert (first.version, first.current, first.definition) == (1, 1, WELCOME)
    second = await templates.put("welcome", d.TemplateDefinition(kind="count"))
    assert [one.version for one in await templates.versions("welcome")] == [2, 1]
    assert (await templates.read("welcome")).definition == second.definition
    assert (await templates.read("welcome", 1)).definition == WELCOME
    assert (await templates.rollback("welcome", 1)).current == 1
    made = await templates.submit("welcome", d.TemplateSubmit(values={"to": "b"}, options={"delay": "1h"}))
    job = await place.verbs().jobs.read(made.id)
    assert (json.decode(job.arguments), job.due_at) == ({"to": "b"}, NOW + timedelta(hours=1))
    bundle = await templates.export()
    assert bundle.templates == {"welcome": WELCOME}
    loaded = await templates.load(d.TemplateBundle(templates={"other": WELCOME}))
    assert [one.name for one in loaded] == ["other"]
    assert {one.name for one in await templates.list()} == {"welcome", "other"}
    await templates.delete("other")
    assert [one.name for one in await templates.list()] == ["welcome"]


async def test_what_templates_refuse_and_share(place: Place) -> None:
    mine, theirs = place.verbs().templates, place.verbs("acme").templates
    await place.verbs().tenants.create(d.NewTenant(name="acme"))
    await mine.put("welcome", WELCOME)
    await refused(NotFoundError, "welcome", theirs.read("welcome"), theirs.read("welcome", owner="default"))
    shared = await mine.share("welcome", ["acme"])
    assert list(shared.shared_with) == ["acme"]
    assert (await theirs.read("welcome", owner="default")).definition == WELCOME
    made = await theirs.submit("welcome", d.TemplateSubmit(values={"to": "c"}, owner="default"))
    assert (await place.verbs("acme").jobs.read(made.id)).tenant == "acme"
    await refused(NotFoundError, "nope", mine.read("nope"), mine.delete("nope"), mine.rollback("nope", 1))
    bad = d.TemplateDefinition(kind="send", arguments={"to": {"$": "missing"}})
    await refused(InvalidError, "missing", mine.put("bad", bad), mine.validate(bad))
    await refused(InvalidError, "to", mine.submit("welcome", d.TemplateSubmit()))


async def test_queues(place: Place) -> None:
    await place.submit()
    await place.submit(delay="1h", queue="odd/name")
    queues = place.verbs().queues
    listed = {queue.name: queue for queue in await queues.list()}
    assert (listed["mail"].jobs["pending"], listed["mail"].paused) == (1, False)
    await queues.pause("mail")
    await queues.pause("odd/name")
    assert (await queues.read("mail")).paused
    assert (await queues.read("odd/name")).paused
    await queues.resume("mail")
    assert not (await queues.read("mail")).paused
    await refused(NotFoundError, "'nope'", queues.read("nope"), queues.pause("nope"))


async def test_workers_and_nodes(place: Place) -> None:
    scene = place.scene
    node = await scene.new_node(b"0123456789abcdef")
    session = b"fedcba9876543210"
    await scene.store.insert_session(session, node, "worker one")
    verbs = place.verbs(None)
    (worker,) = await verbs.workers.list()
    assert (worker.name, worker.alive, worker.slots, worker.live) == ("worker one", True, None, 0)
    (shown,) = await verbs.nodes.list()
    assert (shown.name, shown.alive, shown.draining, shown.workers) == ("0123456789abcdef", True, False, 1)
    await refused(ConflictError, "lease|works|alive", verbs.nodes.remove(shown.name))
    await refused(NotFoundError, "'nope'", verbs.nodes.drain([shown.name, "nope"]), verbs.nodes.remove("nope"))
    assert not (await verbs.nodes.list())[0].draining
    assert [one.name for one in await verbs.nodes.drain([shown.name])] == [shown.name]
    assert (await verbs.nodes.list())[0].draining
    await refused(InvalidError, "worker", verbs.workers.drain("nonsense"))
    await refused(NotFoundError, "worker", verbs.workers.remove("00000000-0001-7002-8000-000000000003"))
    scene.clock.jump(3600)
    await verbs.nodes.remove(shown.name)
    assert list(await verbs.nodes.list()) == []


async def test_the_system(place: Place) -> None:
    done, failed = await place.submit(), await place.submit("count")
    await place.complete(done)
    await place.fail(failed)
    await place.submit(delay="1h")
    system = place.verbs().system
    version = await system.version()
    assert version.store in ("sqlite", "postgres")
    counted = await system.statistics()
    assert {state: count for state, count in counted.jobs.items() if count} == {
        "pending": 1,
        "completed": 1,
        "failed": 1,
    }
    told = await system.history(NOW - timedelta(hours=1), NOW + timedelta(hours=1), 3600.0)
    assert sorted((period.kind, period.ended) for period in told.periods) == [
        ("count", {"failed": 1}),
        ("send", {"completed": 1}),
    ]
    only = await system.history(NOW - timedelta(hours=1), NOW + timedelta(hours=1), 60.0, "send")
    assert {period.kind for period in only.periods} == {"send"}
    await refused(InvalidError, "until", system.history(NOW, NOW, 60.0))
    await refused(InvalidError, "since|tz|time zone", system.history(datetime(2030, 1, 1), NOW, 60.0))  # noqa: DTZ001


async def test_declaring(place: Place) -> None:
    verbs = place.verbs()
    said = d.Declarations(
        kinds=[d.KindDeclaration(name="new", options={"queue": "q", "retries": 1})],
        queues=[d.QueueDeclaration(name="q", limit=d.LimitDocument(concurrency=3, rate_per_s=None, burst=None))],
        schedules=[NEW],
    )
    assert list(await verbs.system.declare(said)) == []
    assert (await verbs.queues.read("q")).limit.concurrency == 3
    assert (await verbs.schedules.read("daily/report")).origin == "code"
    draft = await verbs.jobs.draft(d.SubmitRequest(kind="new"))
    await verbs.jobs.submit([draft])
    assert [job.queue for job in (await verbs.jobs.list(d.JobQuery(kind="new"))).jobs] == ["q"]
    assert list(await verbs.system.declare(d.Declarations())) == ["daily/report"]
    bad = d.Declarations(kinds=[d.KindDeclaration(name="new", options={"priority": 99})])
    await refused(InvalidError, "priority", verbs.system.declare(bad))


async def test_following_everything(place: Place) -> None:
    mail, other = await place.submit(), await place.submit("count", queue="q")
    system = place.verbs().system
    async with aclosing(system.events()) as all_events, aclosing(system.events("q")) as of_queue:
        first, second = asyncio.create_task(_next(all_events)), asyncio.create_task(_next(of_queue))
        await _listeners(place, 2)
        await place.complete(mail)
        id_, event = await first
        assert event is not None
        assert (event.event, event.id, event.state, event.queue) == ("ended", mail, "completed", "mail")
        await place.fail(other)
        _, event = await second
        assert event is not None
        assert (event.id, event.state, event.reason) == (other, "failed", "error")
    async with aclosing(system.events(after=id_)) as behind:
        _, event = await _next(behind)
    assert event is not None
    assert event.id == other


async def _next(
    events: AsyncIterator[tuple[str, d.JobEvent | None]],
) -> tuple[str, d.JobEvent | None]:
    return await anext(events)


async def _listeners(place: Place, count: int) -> None:
    """Until so many listen; one over HTTP takes a request to come."""
    async with asyncio.timeout(10):
        while len(place.engine.events._listeners) < count:  # noqa: ASYNC110  (nobody says when one has come)
            await asyncio.sleep(0.001)


async def test_keys(place: Place) -> None:
    keys = place.verbs().keys
    made = await keys.create(d.NewKey(name="ci", role="submitter", expires_in="1d", requests_per_s=5))
    assert made.key is not None
    assert made.key.startswith(f"msk_{made.id}_")
    assert (made.role, made.tenant, made.expires_at) == ("submitter", "default", NOW + timedelta(days=1))
    listed = {key.id: key for key in await keys.list()}
    assert listed[made.id].key is None
    token = await keys.join_token("worker", "10m")
    assert (token.role, token.expires_at) == ("join", NOW + timedelta(minutes=10))
    await keys.revoke(made.id)
    assert {key.id: key for key in await keys.list()}[made.id].revoked_at == NOW
    await refused(InvalidError, "^role", keys.create(d.NewKey(name="x", role="king")))
    await refused(NotFoundError, "aaaaaaaaaaaa", keys.revoke("aaaaaaaaaaaa"))


async def test_tenants(place: Place) -> None:
    tenants = place.verbs(None).tenants
    made = await tenants.create(d.NewTenant(name="acme", quota=d.Quota(queued=10)))
    assert (made.name, made.quota, made.erased_at) == ("acme", d.Quota(queued=10), None)
    assert (await tenants.set_quota("acme", d.Quota(running=2))).quota == d.Quota(running=2)
    await refused(ConflictError, "acme", tenants.create(d.NewTenant(name="acme")))
    await refused(NotFoundError, "nope", tenants.set_quota("nope", d.Quota()), tenants.erase("nope"))
    await place.submit(tenant="acme", delay="1h")
    assert await tenants.erase("acme") == 1
    assert {tenant.name: tenant.erased_at for tenant in await tenants.list()}["acme"] == NOW


async def test_what_json_cannot_say_is_refused(place: Place) -> None:
    verbs = place.verbs()
    job = await place.submit(delay="1h")
    await refused(InvalidError, "submits_per_s", verbs.tenants.create(_tenant(float("nan"))))
    await refused(InvalidError, "arguments", verbs.jobs.update(job, d.JobChange(arguments={"a": [float("inf")]})))
    assert bytes((await verbs.jobs.read(job)).arguments) == b"{}"


def _tenant(submits_per_s: float) -> d.NewTenant:
    return d.NewTenant(name="x", quota=d.Quota(submits_per_s=submits_per_s))


async def test_audit(place: Place) -> None:
    verbs = place.verbs()
    job = await place.submit(delay="1h")
    await verbs.jobs.cancel(job)
    await verbs.queues.pause("mail")
    records = list(await verbs.audit.list())
    assert [(record.action, record.target) for record in records[-2:]] == [("cancel_job", job), ("pause_queue", "mail")]
    assert json.decode(records[-1].after) == {"paused": True}
    assert [record.number for record in await verbs.audit.list(after=records[-2].number)] == [records[-1].number]
    checked = await verbs.audit.verify()
    assert (checked.records, checked.broken_at) == (records[-1].number, None)


async def test_whoever_has_no_key_of_all_tenants(server: Place) -> None:
    """Over HTTP only: over a store, whoever has it may do everything."""
    made = await server.verbs().keys.create(d.NewKey(name="viewer", role="viewer"))
    url = server.remote.transport.url
    remote = Remote(Transport(url, made.key))
    try:
        assert (await remote.verbs().jobs.list(d.JobQuery())).jobs == []
        job = await server.submit()
        await refused(ForbiddenError, "viewer", remote.verbs().jobs.cancel(job), remote.verbs().keys.list())
        await refused(ForbiddenError, "tenant", remote.verbs("acme").jobs.list(d.JobQuery()))
    finally:
        await remote.close()
